"""Subscribers that begin with the files of a snapshot, prepared for their partition."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merge_interruptions import Cut, Cutter, interrupted
from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.core.formats import FormatNewer
from rowtide.merge.articles import Partition
from rowtide.merge.errors.subscribing import SnapshotDamaged, SnapshotOutdated, SnapshotUnfit, SubscriberHasTable
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.publishing.requests import NewMergeSubscription
from rowtide.merge.publishing.snapshot_delivery import subscribe_from_snapshot
from rowtide.merge.publishing.snapshots import FileKind

CUSTOMER = "create table customer (id integer primary key, region varchar(5), boss integer references customer (id))"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note text)"
ROWS = (
    "insert into customer values (2, 'n', null), (1, 'n', 2), (3, 's', null)",
    "insert into orders values (10, 1, 'first'), (20, 2, 'é'), (30, 3, null)",
)
COLUMNS = {"customer": "id, region, boss", "orders": "id, customer_id, note"}


def publish(merged: Merge) -> None:
    """Publish customers of a region, with their orders, and subscribe the second subscriber as usual."""
    merged.hub.execute(CUSTOMER, ORDERS, *ROWS)
    merge = merged.merge
    merge.add_publication(PUBLICATION)
    merge.add_article(PUBLICATION, "customer", where="region = host_name()")
    merge.add_article(PUBLICATION, "orders")
    merge.add_filter(PUBLICATION, "orders", "customer", "orders.customer_id = customer.id")
    merge.add_subscription(PUBLICATION, merged.subscribers[1].url, partition=Partition("n"))


def subscribe(merged: Merge, folder: Path, **options: Any) -> None:
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url, snapshot=folder, **options)


def require_same(merged: Merge) -> None:
    """Both subscribers have the partition's rows, and nothing moves any more."""
    merged.settle()
    for table, columns in COLUMNS.items():
        assert merged.subscribers[0].rows(table, columns) == merged.subscribers[1].rows(table, columns)
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_subscriber_begins_with_files_and_gets_the_rest(merged: Merge, tmp_path: Path) -> None:
    publish(merged)
    merged.hub.execute("update orders set note = 'seen' where id = 20")
    merged.sync(1)
    written = merged.merge.make_snapshot(PUBLICATION, tmp_path / "north", partition=Partition("n"))
    merged.hub.execute(
        "update customer set region = 'n' where id = 3",
        "delete from orders where id = 10",
        "insert into orders (id, customer_id) values (11, 1)",
    )
    merged.subscribers[1].execute("update orders set note = 'device' where id = 20")
    merged.sync(1)
    subscribe(merged, tmp_path / "north")

    assert written.rows == 4
    assert merged.subscribers[0].rows("orders", COLUMNS["orders"]) == [(10, 1, "first"), (20, 2, "seen")]
    assert merged.sync(0).download.total.moved == 5
    merged.subscribers[0].execute("update orders set note = 'own' where id = 11")
    require_same(merged)
    assert merged.hub.execute("select note from orders where id = 11") == [("own",)]
    [(boss,)] = merged.subscribers[0].execute("select boss from customer where id = 1")
    assert boss == 2


@pytest.mark.parametrize(
    ("commit", "is_before"),
    [
        pytest.param(commit, is_before, marks=[pytest.mark.exhaustive] * ((commit, is_before) != (3, True)))
        for commit in range(1, 8)
        for is_before in (True, False)
    ],
)
def test_a_cut_delivery_continues_with_the_next_file(
    merged: Merge, tmp_path: Path, commit: int, *, is_before: bool
) -> None:
    publish(merged)
    merged.merge.make_snapshot(PUBLICATION, tmp_path / "north", partition=Partition("n"))
    url = merged.subscribers[0].url
    with open_node(merged.hub.url) as hub, open_node(url) as node, suppress(Cut):
        cut = interrupted(node, Cutter(commit, is_before=is_before))
        subscribe_from_snapshot(hub, cut, NewMergeSubscription(PUBLICATION, address(url)), tmp_path / "north")
    copied: list[tuple[str, int]] = []
    if not merged.subscribers[0].execute(_subscribed(merged)):
        subscribe(merged, tmp_path / "north", on_progress=lambda article, rows: copied.append((article, rows)))
        assert copied == [("customer", 2), ("orders", 2)]

    merged.hub.execute("update orders set note = 'later'")
    require_same(merged)


def _subscribed(merged: Merge) -> str:
    prefix = "" if "sqlite" in merged.subscribers[0].url else "rowtide_merge."
    return f'select 1 from {prefix}"sysmergepublications"'


def test_another_snapshot_replaces_a_cut_delivery(merged: Merge, tmp_path: Path) -> None:
    publish(merged)
    merged.merge.make_snapshot(PUBLICATION, tmp_path / "old", partition=Partition("n"))
    url = merged.subscribers[0].url
    request = NewMergeSubscription(PUBLICATION, address(url))
    with open_node(merged.hub.url) as hub, open_node(url) as node, pytest.raises(Cut):
        subscribe_from_snapshot(hub, interrupted(node, Cutter(3, is_before=False)), request, tmp_path / "old")
    merged.hub.execute("delete from orders where id = 20")
    merged.merge.make_snapshot(PUBLICATION, tmp_path / "new", partition=Partition("n"))
    subscribe(merged, tmp_path / "new")

    assert merged.subscribers[0].rows("orders", "id") == [(10,)]
    require_same(merged)


def test_a_snapshot_older_than_a_purge_is_refused(merged: Merge, tmp_path: Path) -> None:
    publish(merged)
    merged.merge.make_snapshot(PUBLICATION, tmp_path / "north", partition=Partition("n"))
    for note in ("a", "b", "c"):
        merged.hub.execute(f"update orders set note = '{note}'")
        merged.sync(1)
    merged.merge.cleanup()

    with pytest.raises(SnapshotOutdated, match="removed the metadata"):
        subscribe(merged, tmp_path / "north")
    merged.merge.make_snapshot(PUBLICATION, tmp_path / "north", partition=Partition("n"))
    subscribe(merged, tmp_path / "north")
    require_same(merged)


def test_files_that_do_not_fit_are_refused(merged: Merge, tmp_path: Path) -> None:
    publish(merged)
    written = merged.merge.make_snapshot(PUBLICATION, tmp_path / "north", partition=Partition("n"))
    with pytest.raises(SnapshotUnfit, match="host_name"):
        subscribe(merged, tmp_path / "north", partition=Partition("s"))
    with pytest.raises(SnapshotUnfit, match="No such file"):
        subscribe(merged, tmp_path / "south")
    manifest = tmp_path / "north" / "snapshot.json"
    described = json.loads(manifest.read_text())
    newer = {"number": 2, "least_reader": 2, "least_writer": 2}
    for changed, error in (({"format": newer, "more": 1}, FormatNewer), ({"format": None}, SnapshotUnfit)):
        manifest.write_text(json.dumps(described | changed))
        with pytest.raises(error, match="format"):
            subscribe(merged, tmp_path / "north")
    manifest.write_text(json.dumps(described))
    orders = next(file for file in written.files if (file.article, file.kind) == ("orders", FileKind.ROWS))
    path = tmp_path / "north" / orders.name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"x")
    with pytest.raises(SnapshotDamaged, match="contents"):
        subscribe(merged, tmp_path / "north")
    path.write_bytes(content)
    with pytest.raises(SubscriberHasTable):
        merged.merge.add_subscription(PUBLICATION, merged.subscribers[0].url, partition=Partition("n"))
    subscribe(merged, tmp_path / "north")

    require_same(merged)


def test_snapshots_are_made_and_used_by_commands(merged: Merge, tmp_path: Path) -> None:
    publish(merged)
    db = ("--db", merged.hub.url)
    made = rowtide("merge", "snapshot", PUBLICATION, "--host-name", "n", "--to", str(tmp_path / "north"), *db)
    added = rowtide(
        *("merge", "add-subscription", PUBLICATION, "--subscriber", merged.subscribers[0].url),
        *("--snapshot", str(tmp_path / "north"), *db),
    )

    assert (made.code, added.code) == (0, 0), (made.errors, added.errors)
    assert "Wrote 4 rows in 4 files" in made.errors
    require_same(merged)
