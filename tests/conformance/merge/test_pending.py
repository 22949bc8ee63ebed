"""What is pending for a synchronisation, counted and judged without writing anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from rowtide.core.errors import RowtideError
from rowtide.merge.articles import FilterType, Partition
from rowtide.merge.errors.publishing import MergedTableAltered
from rowtide.merge.nodes.connecting import address
from rowtide.merge.session.pending_changes import PendingChanges

ITEM = "create table item (id integer primary key, name varchar(20), qty integer)"
ROWS = "insert into item (id, name) values (1, 'a'), (2, 'b'), (3, 'c')"
METADATA = (
    "MSmerge_stored_contents",
    "MSmerge_stored_tombstone",
    "MSmerge_stored_genhistory",
    "MSmerge_stored_partition_mappings",
    "MSmerge_log",
    "sysmerge_stored_subscriptions",
)


def metadata(member: Member) -> list[object]:
    """Return what a member has stored of its changes and subscriptions."""
    prefix = "" if isinstance(member, FileMember) else "rowtide_merge."
    return [member.rows(f'{prefix}"{table}"') for table in METADATA]


def counts(listed: list[PendingChanges]) -> list[tuple[object, ...]]:
    return [
        (each.direction, each.article, each.pending_ins_and_upd, each.pending_deletes, each.conflicts)
        for each in listed
    ]


@pytest.mark.direct(reason="an acknowledgement by requests comes one synchronisation later: until then it is pending")
def test_pending_changes_are_counted_in_each_direction(merged: Merge) -> None:
    merged.begin(ITEM, ROWS, item={})
    device = merged.subscribers[0]
    merged.settle(1)
    merged.hub.execute("update item set qty = 1 where id = 1", "insert into item (id, name) values (4, 'd')")
    device.execute("delete from item where id = 2", "update item set qty = 5 where id = 3")
    before = [metadata(member) for member in merged.members]
    listed = list(merged.merge.list_pending(PUBLICATION, device.url))

    assert counts(listed) == [("upload", "item", 1, 1, None), ("download", "item", 2, 0, None)]
    assert {(each.publication, each.subscriber) for each in listed} == {(PUBLICATION, address(device.url))}
    assert {row.article for each in listed for row in each.rows} == {"item"}
    assert [metadata(member) for member in merged.members] == before
    summary = merged.sync(0)
    assert (summary.upload.total.moved, summary.download.total.moved) == (2, 2)
    assert merged.merge.list_pending(PUBLICATION, device.url) == []


@pytest.mark.direct(reason="an acknowledgement by requests comes one synchronisation later: until then it is pending")
def test_what_the_hub_has_for_a_missing_file_is_counted(merged: Merge) -> None:
    merged.begin(ITEM, ROWS, item={})
    merged.settle(1)
    merged.hub.execute("update item set qty = 1 where id = 1", "delete from item where id = 2")
    before = {each.subscriber: counts([each]) for each in merged.merge.list_pending(PUBLICATION)}
    device = next(each for each in merged.subscribers if isinstance(each, FileMember))
    path = Path(device.url.removeprefix("sqlite:///"))
    path.rename(path.with_suffix(".gone"))
    missed: dict[str, RowtideError] = {}
    listed = merged.merge.list_pending(PUBLICATION, on_unreachable=lambda name, error: missed.update({name: error}))
    path.with_suffix(".gone").rename(path)

    assert missed.keys() == {address(device.url)}
    assert {each.subscriber: counts([each]) for each in listed} == before
    assert before[address(device.url)] == [("download", "item", 1, 1, None)]


def test_a_dry_run_names_what_would_conflict(merged: Merge) -> None:
    merged.begin(ITEM, ROWS, item={})
    device = merged.subscribers[0]
    merged.settle(1)
    merged.hub.execute("update item set qty = 1", "delete from item where id = 3")
    device.execute(
        "update item set qty = 2 where id = 1",
        "delete from item where id = 2",
        "update item set qty = 2 where id = 3",
        "insert into item (id, name) values (9, 'new')",
    )
    before = [metadata(member) for member in merged.members]
    (upload, _) = merged.merge.list_pending(PUBLICATION, device.url, finds_conflicts=True)

    kinds = {row.conflict for row in upload.rows}
    assert kinds == {"update-update", "delete-update", "update-delete", None}
    assert upload.conflicts == 3
    assert [metadata(member) for member in merged.members] == before
    assert merged.sync(0).upload.total.conflicts == 3


SMALL = "create table item (id integer primary key, name varchar(20), qty integer)"
CHECKS = {
    "ServerMember": ["alter table item add constraint small check (qty < 100 and pg_backend_pid() > 0)"],
    "FileMember": [
        "create trigger small before insert on item when new.qty >= 100 begin select raise(abort, 'too many'); end"
    ],
}
"""What the hub refuses rows by that a subscriber takes."""


def test_a_dry_run_names_what_the_hub_would_refuse(merged: Merge) -> None:
    merged.begin(SMALL, ROWS, item={})
    device = merged.subscribers[0]
    merged.settle(1)
    merged.hub.execute(*CHECKS[type(merged.hub).__name__])
    merged.settle(1)
    merged.hub.execute("insert into item (id, name) values (7, 'hub')")
    device.execute(
        "insert into item (id, name, qty) values (8, 'refused', 100), (9, 'taken', 1)",
        "insert into item (id, name) values (7, 'device')",
    )
    before = [metadata(member) for member in merged.members]
    rows = merged.hub.rows("item")
    upload = merged.merge.list_pending(PUBLICATION, device.url, finds_conflicts=True)[0]

    assert (upload.pending_ins_and_upd, upload.conflicts, upload.refused) == (3, 1, 1)
    refused = {row.rowguid: row.refusal for row in upload.rows if row.refusal is not None}
    assert refused.keys() == {device.rowguid("item", 8)}
    assert {(row.article, row.rowguid): row.conflict for row in upload.rows if row.rowguid not in refused} == {
        ("item", device.rowguid("item", 7)): "insert-insert",
        ("item", device.rowguid("item", 9)): None,
    }
    assert [metadata(member) for member in merged.members] == before
    assert merged.hub.rows("item") == rows
    total = merged.sync(0).upload.total
    assert (total.conflicts, total.refused, total.inserts) == (1, 1, 1)


ORDERS = "create table orders (id integer primary key, customer varchar(20))"
LINES = "create table lines (id integer primary key, order_id integer references orders (id), qty integer)"


def test_a_dry_run_counts_conflicts_of_records(merged: Merge) -> None:
    """Neither row conflicts by itself: the hub has changed another row of the order than the subscriber."""
    hub, device = merged.hub, merged.subscribers[0]
    hub.execute(
        ORDERS,
        LINES,
        "insert into orders values (1, 'a'), (2, 'b')",
        "insert into lines values (1, 1, 1), (2, 1, 1), (3, 2, 1)",
    )
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "orders", record_conflict_detection=True, record_conflict_resolution=True)
    merged.merge.add_article(PUBLICATION, "lines")
    merged.merge.add_filter(PUBLICATION, "lines", "orders", "lines.order_id = orders.id", filter_type=FilterType.RECORD)
    for subscriber in merged.subscribers:
        merged.merge.add_subscription(PUBLICATION, subscriber.url)
    merged.settle(1)
    hub.execute("update lines set qty = 5 where id = 1")
    device.execute("update lines set qty = 7 where id in (2, 3)")
    before = [metadata(member) for member in merged.members]
    listed = merged.merge.list_pending(PUBLICATION, device.url, finds_conflicts=True)
    upload = next(each for each in listed if each.direction == "upload")

    kinds = {row.rowguid: row.conflict for row in upload.rows}
    assert kinds == {device.rowguid("lines", 2): "record", device.rowguid("lines", 3): None}
    assert [metadata(member) for member in merged.members] == before
    assert merged.sync(0).upload.total.conflicts == upload.conflicts == 1


@pytest.mark.direct(reason="an acknowledgement by requests comes one synchronisation later: until then it is pending")
def test_pending_changes_are_those_of_the_partition(merged: Merge) -> None:
    merged.begin(
        ITEM,
        ROWS,
        item={"where": "name = host_name()"},
        subscriber_options=[{"partition": Partition(name)} for name in ("a", "b")],
    )
    merged.settle(1)
    merged.hub.execute("update item set name = 'b' where id = 1", "update item set qty = 7 where id = 3")
    listed = merged.merge.list_pending(PUBLICATION)

    named = {(each.subscriber, each.pending_ins_and_upd, each.pending_deletes) for each in listed}
    urls = [address(subscriber.url) for subscriber in merged.subscribers]
    assert named == {(urls[0], 0, 1), (urls[1], 1, 0)}
    merged.settle(1)
    assert merged.merge.list_pending(PUBLICATION) == []


@pytest.mark.parametrize("at_hub", [True, False], ids=["hub", "subscriber"])
def test_a_table_that_is_gone_is_named(merged: Merge, *, at_hub: bool) -> None:
    merged.begin("create table thing (id integer primary key)", thing={})
    member = merged.hub if at_hub else merged.subscribers[0]
    member.execute("alter table thing rename to other")
    url = merged.subscribers[0].url
    for ask in (
        lambda: merged.merge.validate(PUBLICATION, url),
        lambda: merged.merge.list_pending(PUBLICATION, url),
        lambda: merged.merge.sync(PUBLICATION, url),
    ):
        with pytest.raises(MergedTableAltered, match="RT-8029: .*it is not there"):
            ask()
