"""A publisher's table is altered while it has subscribers; they follow at their next synchronisation."""

from __future__ import annotations

import pytest

from builders.merged_databases import PUBLICATION, Merge, ServerMember

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
ROWS = "insert into item (id, name, qty) values (1, 'a', 1), (2, 'b', 2)"


def begin(merged: Merge, **options: object) -> None:
    merged.begin(ITEM, ROWS, item=options)
    merged.settle(1)


def both(merged: Merge, columns: str) -> None:
    """All have the same rows, two more rounds move nothing, and a comparison finds nothing."""
    merged.settle(2)
    merged.require_equal("item", columns=columns)
    assert all(summary.is_quiet for summary in merged.settle(1))
    for subscriber in merged.subscribers:
        assert all(one.is_equal for one in merged.merge.validate(PUBLICATION, subscriber.url, checksum=True))


@pytest.mark.parametrize("tracked", [False, True])
def test_a_new_column_is_followed_with_its_values(merged: Merge, tracked: bool) -> None:  # noqa: FBT001
    begin(merged, column_tracking=tracked)
    device = merged.subscribers[0]
    device.execute("update item set qty = 10 where id = 1", "insert into item (id, name, qty) values (3, 'c', 3)")
    merged.hub.execute(
        "alter table item add column note varchar(10)",
        f"update item set note = 'hub' where id in ({'1, 2' if tracked else '2'})",
        "alter table item add column state varchar(10) not null default 'new'",
        "update item set state = 'old' where id = 2",
    )
    merged.sync()
    assert device.rows("item", "id, name, qty, note, state") == [
        (1, "a", 10, "hub" if tracked else None, "new"),
        (2, "b", 2, "hub", "old"),
        (3, "c", 3, None, "new"),
    ]
    device.execute("insert into item (id, note) values (4, 'device')", "update item set state = 'x' where id = 3")
    both(merged, "id, name, qty, note, state")
    assert merged.hub.rows("item", "id, note, state")[2:] == [(3, None, "x"), (4, "device", "new")]


@pytest.mark.parametrize("tracked", [False, True])
def test_columns_are_dropped_renamed_and_retyped(merged: Merge, tracked: bool) -> None:  # noqa: FBT001
    begin(merged, column_tracking=tracked)
    device = merged.subscribers[0]
    device.execute("update item set qty = 10 where id = 1", "update item set name = 'd' where id = 2")
    merged.hub.execute("alter table item rename column qty to amount")
    merged.settle(1)
    assert device.rows("item", "id, name, amount") == [(1, "a", 10), (2, "d", 2)]

    device.execute("update item set amount = 20 where id = 1", "update item set name = 'e' where id = 2")
    if isinstance(merged.hub, ServerMember):
        merged.hub.execute(
            "insert into item (id, name, amount) values (5, 'f', 5)",
            "alter table item alter column amount type varchar(10) using amount || 'x'",
        )
        merged.settle(1)
        assert device.rows("item", "id, name, amount") == [(1, "a", "20"), (2, "e", "2"), (5, "f", "5x")]
    if isinstance(merged.hub, ServerMember) or not tracked:
        merged.hub.execute("alter table item drop column name", "update item set amount = '7' where id = 1")
        merged.sync()
        with pytest.raises(Exception, match="name"):
            device.execute("select name from item")
        device.execute("update item set amount = '30' where id = 2")
        both(merged, "id, amount")
