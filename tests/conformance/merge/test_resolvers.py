"""SQL Server's list of resolvers, at each kind of hub."""

from __future__ import annotations

from typing import Any

import pytest

from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.errors.publishing import ResolverRefused

TABLE = "create table {} (id integer primary key, name varchar(20), qty {})"
TRACKED = {"column_tracking": True}
CASES: dict[str, tuple[str, str, str, str, dict[str, Any]]] = {
    "high": ("maximum:qty", "integer", "9", "10", {}),
    "low": ("minimum:qty", "integer", "10", "9", {}),
    "first": ("priority-column:qty", "numeric(10, 2)", "1.50", "1.60", {}),
    "later": ("later-wins:qty", "timestamp", "'2026-01-02 23:00:00'", "'10000-01-02 04:00:00'", {}),
    "earlier": ("earlier-wins:qty", "date", "'2026-01-02'", "'2026-01-01'", {}),
}
"""By table: the resolver, the type, the hub's value, and the subscriber's, which wins against the priorities."""


def begin(merged: Merge, definitions: dict[str, str], row: str, **articles: Any) -> None:
    statements = [TABLE.format(table, type_) for table, type_ in definitions.items()]
    merged.begin(*statements, *(f"insert into {table} values ({row})" for table in definitions), **articles)


def test_the_row_with_the_value_that_wins_is_kept_whole(merged: Merge) -> None:
    articles = {table: {"resolver": case[0]} | case[4] for table, case in CASES.items()}
    begin(merged, {table: case[1] for table, case in CASES.items()}, "1, 'first', null", **articles)
    for table, (_, _, hubs, subscribers, _) in CASES.items():
        merged.hub.execute(f"update {table} set name = 'hub', qty = {hubs}")
        merged.subscribers[0].execute(f"update {table} set name = 'sub', qty = {subscribers}")
    merged.settle()

    assert {table: merged.hub.rows(table, "name") for table in CASES} == {table: [("sub",)] for table in CASES}
    merged.require_equal(*CASES, columns="id, name")
    assert {kind for kind, *_ in merged.conflicts()} == {ConflictType.UPDATE_CONFLICT}
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.exhaustive
def test_a_delete_or_no_value_is_left_to_the_priorities(merged: Merge) -> None:
    begin(merged, {"high": "integer"}, "1, 'first', 5", high={"resolver": "maximum:qty"})
    merged.hub.execute("update high set qty = 5, name = 'hub'")
    merged.subscribers[0].execute("delete from high")
    merged.settle()

    assert merged.hub.rows("high", "id, name") == [(1, "hub")]
    merged.require_equal("high", columns="id, name, qty")


def test_numbers_are_averaged_where_both_changed_them(merged: Merge) -> None:
    begin(merged, {"mean": "integer"}, "1, 'first', 10", mean=TRACKED | {"resolver": "averaging:qty"})
    merged.hub.execute("insert into mean (id, name, qty) values (2, 'first', 10)")
    merged.settle()
    merged.hub.execute("update mean set qty = 20", "update mean set name = 'hub'")
    merged.subscribers[0].execute("update mean set qty = 41 where id = 1", "update mean set name = 'sub' where id = 2")
    merged.settle()

    assert merged.hub.rows("mean", "id, name, qty") == [(1, "hub", 31), (2, "hub", 20)]
    merged.require_equal("mean", columns="id, name, qty")
    assert all(summary.is_quiet for summary in merged.settle())


def test_texts_are_merged_publishers_first(merged: Merge) -> None:
    begin(merged, {"notes": "text"}, "1, 'first', 'seen'", notes=TRACKED | {"resolver": "merge-text:qty:; "})
    merged.hub.execute("update notes set qty = qty || ' hub'")
    for number, subscriber in enumerate(merged.subscribers):
        subscriber.execute(f"update notes set qty = qty || ' sub {number}'")
    merged.settle()

    assert merged.hub.rows("notes", "qty") == [("seen hub; sub 0; sub 1",)]
    merged.require_equal("notes", columns="id, qty")
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.parametrize("tracking", [{}, TRACKED], ids=["rows", "columns"])
def test_changes_of_a_download_only_article_are_undone(merged: Merge, tracking: dict[str, bool]) -> None:
    begin(merged, {"price": "integer"}, "1, 'first', 5", price=tracking | {"resolver": "download-only"})
    merged.hub.execute("insert into price (id, qty) values (2, 6)", "insert into price (id, qty) values (3, 7)")
    merged.settle()
    merged.hub.execute("update price set qty = 8 where id = 3")
    merged.subscribers[0].execute(
        "update price set qty = -1 where id = 1",
        "delete from price where id = 2",
        "update price set name = 'sub' where id = 3",
        "insert into price (id, qty) values (4, 9)",
    )
    merged.settle()

    assert merged.hub.rows("price", "id, name, qty") == [(1, "first", 5), (2, None, 6), (3, None, 8)]
    merged.require_equal("price", columns="id, name, qty")
    failed = (ConflictType.UPLOAD_INSERT_FAILED, ConflictType.UPLOAD_DELETE_FAILED, ConflictType.UPLOAD_UPDATE_FAILED)
    assert sorted(kind for kind, *_ in merged.conflicts()) == sorted((*failed, ConflictType.UPLOAD_UPDATE_FAILED))
    assert all(summary.is_quiet for summary in merged.settle())


def test_rows_of_an_upload_only_article_go_up_and_stay_there(merged: Merge) -> None:
    begin(merged, {"measured": "integer"}, "1, 'hub', 5", measured={"resolver": "upload-only"})
    assert [subscriber.rows("measured") for subscriber in merged.subscribers] == [[], []]
    for number, subscriber in enumerate(merged.subscribers, 2):
        subscriber.execute(f"insert into measured (id, name, qty) values ({number}, 'sub', 1)")
    merged.settle()
    merged.subscribers[0].execute("delete from measured")
    assert not merged.merge.list_unsent(PUBLICATION, merged.subscribers[0].url)
    merged.subscribers[1].execute("update measured set qty = 2")
    merged.settle()

    assert merged.hub.rows("measured", "id, name, qty") == [(1, "hub", 5), (2, "sub", 1), (3, "sub", 2)]
    assert [subscriber.rows("measured", "id") for subscriber in merged.subscribers] == [[], [(3,)]]
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.exhaustive
@pytest.mark.parametrize(("tracking", "kept"), [({}, "sub"), (TRACKED, "hub")], ids=["rows", "columns"])
def test_device_wins_once_in_an_upload_only_article(merged: Merge, tracking: dict[str, bool], kept: str) -> None:
    begin(merged, {"measured": "integer"}, "1, 'hub', 5", measured=tracking | {"resolver": "upload-only"})
    device = merged.subscribers[0]
    device.execute("insert into measured (id, name, qty) values (2, 'sub', 1)")
    merged.settle()
    merged.hub.execute("update measured set name = 'hub', qty = 7 where id = 2")
    for qty in (2, 3):
        device.execute(f"update measured set qty = {qty}")
        merged.settle()

    assert merged.hub.rows("measured", "id, name, qty") == [(1, "hub", 5), (2, kept, 3)]
    assert device.rows("measured", "id, name, qty") == [(2, "sub", 3)]
    assert len(merged.conflicts()) == 1
    assert all(summary.is_quiet for summary in merged.settle())


def test_what_the_hub_notes_of_uploaded_rows_is_kept(merged: Merge) -> None:
    begin(merged, {"measured": "integer"}, "1, 'hub', 5", measured=TRACKED | {"resolver": "upload-only"})
    first = merged.subscribers[0]
    first.execute("insert into measured (id, name, qty) values (2, 'sub', 1)")
    merged.settle()
    merged.hub.execute("update measured set name = 'noted' where id = 2")
    # By requests, an acknowledgement comes one synchronisation later.
    merged.settle(3)
    merged.merge.cleanup()
    assert list(merged.merge.read_table("MSmerge_contents").rows) == []
    first.execute("update measured set qty = 2")
    assert merged.sync(0).upload.total.updates == 1
    first.execute("update measured set qty = 3")
    assert merged.sync(0).upload.total.updates == 1

    assert merged.hub.rows("measured", "id, name, qty") == [(1, "hub", 5), (2, "noted", 3)]
    assert merged.conflicts() == []


@pytest.mark.parametrize("tracking", [{}, TRACKED], ids=["rows", "columns"])
def test_what_both_ends_made_alike_is_no_conflict_later(merged: Merge, tracking: dict[str, bool]) -> None:
    begin(merged, {"measured": "integer"}, "1, 'hub', 5", measured=tracking | {"resolver": "upload-only"})
    device = merged.subscribers[0]
    device.execute("insert into measured (id, name, qty) values (2, 'sub', 1)")
    merged.settle()
    for member in (merged.hub, device):
        member.execute("update measured set qty = 7 where id = 2")
    merged.settle()
    device.execute("update measured set qty = 8")
    merged.settle()

    assert merged.hub.rows("measured", "id, name, qty") == [(1, "hub", 5), (2, "sub", 8)]
    assert merged.conflicts() == []


@pytest.mark.exhaustive
def test_reinitialising_leaves_an_upload_only_article_as_it_is(merged: Merge) -> None:
    begin(merged, {"measured": "integer"}, "1, 'hub', 5", measured={"resolver": "upload-only"})
    device = merged.subscribers[0]
    device.execute("insert into measured (id, qty) values (2, 1)")
    merged.settle()
    device.execute("insert into measured (id, qty) values (3, 2)")
    merged.merge.reinitialize(PUBLICATION, device.url)
    device.execute("update measured set qty = 4 where id = 2")
    merged.settle()

    assert device.rows("measured", "id, qty") == [(2, 4), (3, 2)]
    assert merged.hub.rows("measured", "id, qty") == [(1, 5), (2, 4), (3, 2)]


@pytest.mark.parametrize(
    ("resolver", "reason"),
    [
        ("maximum:name", "type"),
        ("additive:name", "type"),
        ("averaging:qty", "--column-tracking"),
        ("merge-text:name", "--column-tracking"),
        ("merge-text:qty", "type"),
    ],
)
def test_a_resolver_that_does_not_fit_the_article_is_refused(merged: Merge, resolver: str, reason: str) -> None:
    merged.hub.execute(TABLE.format("plain", "integer"))
    merged.merge.add_publication(PUBLICATION)

    with pytest.raises(ResolverRefused, match=reason):
        merged.merge.add_article(PUBLICATION, "plain", resolver=resolver)
