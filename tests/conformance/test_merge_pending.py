"""What is pending for a synchronisation, counted and judged without writing anything."""

from __future__ import annotations

from builders.merged_databases import PUBLICATION, FileMember, Member, Merge
from rowtide.merge.articles import Partition
from rowtide.merge.nodes.connecting import address
from rowtide.merge.session.pending import PendingChanges

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


def test_pending_changes_are_counted_in_each_direction(merged: Merge) -> None:
    merged.begin(ITEM, ROWS, item={})
    device = merged.subscribers[0]
    merged.settle(1)
    merged.hub.execute("update item set qty = 1 where id = 1", "insert into item (id, name) values (4, 'd')")
    device.execute("delete from item where id = 2", "update item set qty = 5 where id = 3")
    before = [metadata(member) for member in merged.members]
    listed = list(merged.merge.list_pending(PUBLICATION, device.url))

    assert counts(listed) == [("upload", "item", 1, 1, None), ("download", "item", 2, 0, None)]
    assert [metadata(member) for member in merged.members] == before
    summary = merged.sync(0)
    assert (summary.upload.total.moved, summary.download.total.moved) == (2, 2)
    assert merged.merge.list_pending(PUBLICATION, device.url) == []


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
