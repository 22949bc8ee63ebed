"""What a device writes to a column that the publisher drops meanwhile becomes a conflict at both ends."""

from __future__ import annotations

import json

import pytest

from builders.merge.merged_databases import PUBLICATION, Member, Merge
from rowtide.merge.conflicts.resolvers import Winner

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
ROWS = "insert into item (id, name, qty) values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"


def begin(merged: Merge, *, tracked: bool) -> Member:
    merged.begin(ITEM, ROWS, item={"column_tracking": tracked})
    merged.settle(1)
    return merged.subscribers[0]


def lost(merged: Merge, member: Member | None = None) -> list[dict[str, str | None]]:
    """Return the losing rows of the dropped columns' conflicts that a member lists, by key; there are no others."""
    listed = [(code, json.loads(row)) for _, code, row, *_ in merged.conflicts(member)]
    assert {code for code, _ in listed} <= {"RT-8188"}
    return sorted((row for _, row in listed), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("tracked", [False, True])
def test_unsent_values_of_a_dropped_column_are_conflicts(merged: Merge, *, tracked: bool) -> None:
    device = begin(merged, tracked=tracked)
    device.execute(
        "update item set name = 'device' where id = 1",
        "insert into item (id, name, qty) values (4, 'new', 4)",
        "insert into item (id, qty) values (5, 5)",
        "delete from item where id = 3",
    )
    merged.merge.alter_article(PUBLICATION, "item", "drop column name")
    merged.merge.alter_article(PUBLICATION, "item", "rename column qty to amount")
    merged.settle()

    expected = [
        {"id": "1", "name": "device", "qty": "1"},
        {"id": "4", "name": "new", "qty": "4"},
    ]
    assert lost(merged) == expected
    assert lost(merged, device) == expected
    assert merged.hub.rows("item", "id, amount") == [(1, 1), (2, 2), (4, 4), (5, 5)]
    merged.require_equal("item", columns="id, amount")


def test_a_change_of_another_tracked_column_is_none(merged: Merge) -> None:
    device = begin(merged, tracked=True)
    device.execute("update item set qty = 10 where id = 1")
    merged.merge.alter_article(PUBLICATION, "item", "drop column name")
    merged.settle()

    assert lost(merged) == lost(merged, device) == []
    assert merged.hub.rows("item", "id, qty") == [(1, 10), (2, 2), (3, 3)]


def test_a_dropped_columns_conflict_keeps_later_values(merged: Merge) -> None:
    device = begin(merged, tracked=True)
    device.execute("update item set name = 'device', qty = 10 where id = 1")
    merged.merge.alter_article(PUBLICATION, "item", "drop column name")
    merged.settle()
    merged.hub.execute("update item set qty = 20 where id = 1")
    for conflict in merged.merge.list_conflicts(PUBLICATION):
        merged.merge.resolve(conflict.conflict_id, Winner.SUBSCRIBER)
    merged.settle()

    assert merged.hub.rows("item", "id, qty") == [(1, 20), (2, 2), (3, 3)]
    merged.require_equal("item", columns="id, qty")
