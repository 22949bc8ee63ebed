"""Subscribers that move to another partition, and what a subscriber has never uploaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from builders.commands.command_lines import rowtide, rowtide_process
from builders.merge.merged_databases import PUBLICATION, Member, Merge
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import Partition, PartitionOptions
from rowtide.merge.errors.nodes import SessionReplaced
from rowtide.merge.errors.publishing import MergePublicationUnknown
from rowtide.merge.errors.subscribing import PartitionUnused, PartitionValueMissing
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.publishing.partition_moves import move
from rowtide.merge.session.pairing import pair

CUSTOMER = "create table customer (id integer primary key, region varchar(10), name varchar(20))"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note varchar(20))"
ROWS = "insert into customer values (1, 'north', 'a'), (2, 'south', 'b'), (3, 'east', 'c')"
ORDER_ROWS = "insert into orders values (10, 1, 'n'), (20, 2, 's'), (30, 3, 'e')"
NORTH, SOUTH, EAST = (Partition(region) for region in ("north", "south", "east"))


def begin(merged: Merge, **options: Any) -> None:
    """Customers by region, with their orders: the first subscriber has the north, the second the south."""
    merged.hub.execute(CUSTOMER, ORDERS, ROWS, ORDER_ROWS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer", where="region = host_name()", **options)
    merged.merge.add_article(PUBLICATION, "orders")
    merged.merge.add_filter(PUBLICATION, "orders", "customer", "orders.customer_id = customer.id")
    for subscriber, partition in zip(merged.subscribers, (NORTH, SOUTH), strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=partition)


def ids(member: Member) -> list[list[int]]:
    return [[row[0] for row in member.rows(table, "id")] for table in ("customer", "orders")]


def test_a_subscriber_moves_and_loses_nothing(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    device.execute(
        "update customer set name = 'own' where id = 1",
        "insert into customer (id, region, name) values (4, 'north', 'new')",
        "insert into orders (id, customer_id, note) values (40, 4, 'new')",
    )
    summary = merged.merge.change_subscription(PUBLICATION, device.url, partition=SOUTH)

    assert (summary.download.total.inserts, summary.download.total.deletes) == (2, 4)
    assert ids(device) == [[2], [20]]
    assert merged.hub.rows("customer", "id, name") == [(1, "own"), (2, "b"), (3, "c"), (4, "new")]
    assert [each.host_name for each in merged.merge.status()] == ["south", "south"]
    merged.require_at_rest()


@pytest.mark.exhaustive
def test_a_subscriber_moves_back(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    merged.merge.change_subscription(PUBLICATION, device.url, partition=SOUTH)
    merged.hub.execute("update customer set name = 'x'", "update orders set note = 'y'")
    device.execute("update customer set name = 'z' where id = 2")
    merged.require_at_rest()
    merged.merge.change_subscription(PUBLICATION, device.url, partition=NORTH)

    assert ids(device) == [[1], [10]]
    merged.require_at_rest()


@pytest.mark.exhaustive
def test_a_row_written_during_the_move_leaves_once_uploaded(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    with open_node(merged.hub.url) as hub, open_node(device.url) as node:
        stale = pair(hub, node, PUBLICATION, address(device.url))
        move(hub, stale, EAST)
        # A synchronisation that began before the move would bring the old partition's rows.
        with pytest.raises(SessionReplaced):
            move(hub, stale, SOUTH)
    device.execute(
        "update customer set name = 'late' where id = 1", "insert into customer (id, region) values (5, 'north')"
    )
    merged.require_at_rest()

    assert ids(device) == [[3], [30]]
    assert merged.hub.rows("customer", "id, name") == [(1, "late"), (2, "b"), (3, "c"), (5, None)]


@pytest.mark.exhaustive
def test_a_move_takes_a_partition_that_has_one_subscriber(merged: Merge) -> None:
    begin(merged, partition_options=PartitionOptions.ONE_SUBSCRIBER)
    merged.merge.change_subscription(PUBLICATION, merged.subscribers[0].url, partition=SOUTH)

    assert [(each.subscriber, each.host_name) for each in merged.merge.status()] == [
        (address(merged.subscribers[0].url), "south")
    ]
    assert ids(merged.subscribers[0]) == [[2], [20]]


@pytest.mark.exhaustive
def test_a_move_without_its_value_or_a_filter_is_refused(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0].url
    with pytest.raises(PartitionValueMissing):
        merged.merge.change_subscription(PUBLICATION, device, partition=Partition(suser_name="north"))
    with pytest.raises(MergePublicationUnknown):
        merged.merge.change_subscription("other", device, partition=SOUTH)


@pytest.mark.exhaustive
def test_a_move_without_filters_is_refused(merged: Merge) -> None:
    merged.begin(CUSTOMER, customer={})
    with pytest.raises(PartitionUnused, match="RT-8060"):
        merged.merge.change_subscription(PUBLICATION, merged.subscribers[0].url, partition=SOUTH)


@pytest.mark.exhaustive
def test_a_move_cut_after_its_rows_were_marked_is_completed(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    with open_node(merged.hub.url) as hub, open_node(device.url) as node:
        move(hub, pair(hub, node, PUBLICATION, address(device.url)), SOUTH)
    # Those that are marked were not changed since: only the mark tells that they are to come.
    for commits in range(3, 7):
        assert merged.cut_sync(0, commits, is_before=False)
    merged.require_at_rest()

    assert ids(device) == [[2], [20]]


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_before", [True, False])
def test_a_move_cut_at_any_commit_is_completed(merged: Merge, is_before: bool) -> None:  # noqa: FBT001 - of the case
    begin(merged)
    for commits, (written, partition) in enumerate(cases(), 1):
        device = merged.subscribers[0]
        device.execute(f"update customer set name = 'cut {written}'")
        merged.hub.execute(f"update orders set note = 'cut {written}'")
        is_cut = merged.cut_sync(0, 2, is_before=is_before)
        with open_node(merged.hub.url) as hub, open_node(device.url) as node:
            move(hub, pair(hub, node, PUBLICATION, address(device.url)), partition)
        is_cut = merged.cut_sync(0, commits, is_before=is_before) or is_cut
        merged.require_at_rest()
        assert ids(device) == [[1], [10]] if partition == NORTH else [[2], [20]]
    assert is_cut


def cases() -> Iterator[tuple[int, Partition]]:
    for number in range(8):
        yield number, (SOUTH, NORTH)[number % 2]


def counts(merge: MergeReplication, subscriber: Member) -> Sequence[tuple[Any, ...]]:
    listed = merge.list_unsent(PUBLICATION, subscriber.url)
    return [(each.article, each.changes, each.deletes, each.refused) for each in listed]


def test_what_was_never_uploaded_is_counted(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    device = merged.subscribers[0]
    assert counts(merged.merge, device) == []
    merged.hub.execute("update customer set name = 'hub'")
    device.execute(
        "update customer set name = 'own' where id = 1",
        "insert into customer (id) values (7)",
        "delete from customer where id = 3",
    )
    assert counts(merged.merge, device) == [("customer", 2, 1, 0)]
    merged.sync()

    assert counts(merged.merge, device) == []
    merged.merge.drop_subscription(PUBLICATION, device.url)
    assert counts(merged.merge, device) == []


@pytest.mark.exhaustive
def test_dropping_asks_about_what_was_never_uploaded(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    device = merged.subscribers[0]
    device.execute("update customer set name = 'own' where id = 1", "delete from customer where id = 3")
    drop = ("merge", "drop-subscription", PUBLICATION, "--subscriber", device.url, "--db", merged.hub.url)
    declined = rowtide_process(*drop)

    assert (declined.code, len(merged.merge.status())) == (1, 2)
    assert "Lost: what was never uploaded: customer: 1 changed, 1 deleted" in declined.errors
    merged.sync()
    assert rowtide(*drop).code == 0
    gone = ("merge", "drop-subscription", PUBLICATION, "--subscriber", merged.subscribers[1].url, "--ignore-subscriber")
    ended = rowtide(*gone, "--yes", "--db", merged.hub.url)
    assert ended.code == 0
    assert "since its snapshot; how much is unknown" in ended.errors


@pytest.mark.exhaustive
def test_a_move_is_a_command(merged: Merge) -> None:
    begin(merged)
    words = ("merge", "change-subscription", PUBLICATION, "--subscriber", merged.subscribers[0].url)
    ended = rowtide(*words, "--host-name", "south", "--db", merged.hub.url)

    assert ended.code == 0, ended.errors
    assert ids(merged.subscribers[0]) == [[2], [20]]


@pytest.mark.exhaustive
def test_rows_that_the_hub_refused_count_as_not_uploaded(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    merged.hub.execute("create unique index name on customer (name)")
    device = merged.subscribers[0]
    device.execute("insert into customer (id, name) values (7, 'a')")
    merged.sync()

    assert counts(merged.merge, device) == [("customer", 0, 0, 1)]
    assert "1 refused by the publisher" in str(merged.merge.list_unsent(PUBLICATION, device.url)[0])


@pytest.mark.exhaustive
def test_changes_of_an_altered_table_are_unknown(merged: Merge) -> None:
    merged.begin(CUSTOMER, ROWS, customer={})
    device = merged.subscribers[0]
    device.execute("drop table customer")

    [unsent] = merged.merge.list_unsent(PUBLICATION, device.url)
    assert str(unsent) == "unknown changes of customer (it is not there)"
