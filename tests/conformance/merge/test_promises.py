"""What subscribers may do with rows at the edge of their partition (partition options), on both kinds of hub."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.merge.articles import Partition, PartitionOptions
from rowtide.merge.errors.publishing import JoinFilterRefused
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.session.hub.hub_receiver import HubReceiver
from rowtide.merge.session.pairing import pair
from rowtide.merge.session.receiver import Attempt
from rowtide.merge.versions.changes import Row, RowChange
from rowtide.merge.versions.comparison import Lineage, NodeChange

TABLES = (
    "create table customer (id integer primary key, region varchar(9), name varchar(9), code integer unique)",
    "create table orders (id integer primary key, customer_id integer, note varchar(9))",
)
ROWS = (
    "insert into customer values (1, 'north', 'a', 11), (2, 'south', 'b', 12)",
    "insert into orders values (10, 1, 'n'), (20, 2, 's')",
)
FOLLOWS = "orders.customer_id = customer.id"


def begin(merged: Merge, partition_options: PartitionOptions, *, realigns: bool = True, **options: Any) -> None:
    merged.hub.execute(*TABLES, *ROWS)
    merged.merge.add_publication(PUBLICATION, allow_partition_realignment=realigns)
    options |= {"partition_options": partition_options}
    merged.merge.add_article(PUBLICATION, "customer", where="region = host_name()", **options)
    merged.merge.add_article(PUBLICATION, "orders", **options)
    merged.merge.add_filter(PUBLICATION, "orders", "customer", FOLLOWS, unique_key=True)
    for subscriber, region in zip(merged.subscribers, ("north", "south"), strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(region))


@pytest.mark.parametrize("tracking", [False, True], ids=["rows", "columns"])
def test_a_broken_promise_is_refused_and_undone(merged: Merge, *, tracking: bool) -> None:
    begin(merged, PartitionOptions.UNMOVED, compensate_for_errors=True, column_tracking=tracking)
    device = merged.subscribers[0]
    device.execute(
        "update customer set region = 'south' where id = 1",
        "update orders set customer_id = 2 where id = 10",
        "insert into orders (id, customer_id) values (11, 1)",
    )
    merged.settle()

    assert device.rows("customer", "id, region") == [(1, "north")]
    assert device.rows("orders", "id, customer_id") == [(10, 1), (11, 1)]
    assert merged.hub.rows("customer", "id, region") == [(1, "north"), (2, "south")]
    assert {reason for _, reason, *_ in merged.conflicts()} == {"RT-8040"}
    assert len(merged.conflicts()) == 2
    assert all(summary.is_quiet for summary in merged.settle())


class Undone(Exception):
    """Undoes a transaction."""


def test_rows_move_by_the_columns_that_decide_alone(merged: Merge) -> None:
    begin(merged, PartitionOptions.UNMOVED)
    url = merged.subscribers[0].url
    with open_node(merged.hub.url) as hub, open_node(url) as device:
        pairing = pair(hub, device, PUBLICATION, address(url))
        at_hub, articles = pairing.at_hub, {article.nickname: article for article in pairing.articles}
        customer = next(article for article in pairing.articles if article.name == "customer")
        key = merged.hub.rowguid("customer", 1)

        def refused(
            row: Row | None, filters: Mapping[int, RowFilter] = pairing.filters, rowguid: str = key
        ) -> list[str]:
            receiver = HubReceiver(
                hub, at_hub, at_hub.nickname, "field", {}, is_upload=True, articles=articles, filters=filters
            )
            made = NodeChange(at_hub.nickname, 5)
            change = RowChange(rowguid, Lineage.of([made]).encode(), made.encode(), None, row)
            with suppress(Undone), hub.transaction():
                (received,) = receiver.receive([(customer, [change])], Attempt.FIRST)
                raise Undone
            return [each.refusal.error.code for each in received.refused]

        assert refused(("1", "south", "a", "11"), pairing.filters) == ["RT-8040"]
        assert refused(("1", "north", "new", "11"), pairing.filters) == refused(None, pairing.filters) == []
        assert refused(("1", "south", "a", "11"), {}) == []
        assert refused(("9", "south", "new", "19"), pairing.filters, str(uuid4())) == []


@pytest.mark.exhaustive
def test_other_columns_and_the_hub_are_free(merged: Merge) -> None:
    begin(merged, PartitionOptions.UNMOVED)
    merged.subscribers[0].execute("update customer set name = 'x'", "update orders set note = 'x'")
    merged.settle()
    merged.hub.execute("update customer set region = 'south' where id = 1")
    merged.settle()

    assert merged.conflicts() == []
    assert merged.subscribers[0].rows("orders", "id") == []
    assert merged.subscribers[1].rows("orders", "id, note") == [(10, "x"), (20, "s")]


@pytest.mark.exhaustive
def test_refused_moves_are_kept_until_they_are_taken_back(merged: Merge) -> None:
    begin(merged, PartitionOptions.UNMOVED)
    merged.subscribers[0].execute("update customer set region = 'east', name = 'x'")
    assert merged.sync(0).upload.total.refused == 1
    assert merged.hub.rows("customer", "id, name")[0] == (1, "a")

    merged.subscribers[0].execute("update customer set region = 'north'")
    merged.settle()
    assert merged.hub.rows("customer", "id, name")[0] == (1, "x")


def test_shared_partitions_have_several_subscribers(merged: Merge) -> None:
    begin(merged, PartitionOptions.SHARED, compensate_for_errors=True)
    merged.merge.drop_subscription(PUBLICATION, merged.subscribers[1].url)
    merged.subscribers[1].execute("drop table orders", "drop table customer")
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[1].url, partition=Partition("north"))
    merged.subscribers[0].execute(
        "update customer set name = 'x'", "insert into orders (id, customer_id) values (12, 2), (13, 1)"
    )
    merged.settle()

    for subscriber in merged.subscribers:
        assert subscriber.rows("customer", "id, name") == [(1, "x")]
        assert subscriber.rows("orders", "id") == [(10,), (13,)]
    assert {reason for _, reason, *_ in merged.conflicts()} == {"RT-8027"}


def test_partitions_apart_need_one_filter_by_a_unique_key(merged: Merge) -> None:
    merged.hub.execute(*TABLES)
    merged.merge.add_publication(PUBLICATION)
    apart: dict[str, Any] = {"partition_options": PartitionOptions.SHARED}
    merged.merge.add_article(PUBLICATION, "customer", where="region = host_name()", **apart)
    merged.merge.add_article(PUBLICATION, "orders", **apart)

    def refused(reason: str, child: str, parent: str, condition: str, **options: Any) -> None:
        with pytest.raises(JoinFilterRefused, match=reason):
            merged.merge.add_filter(PUBLICATION, child, parent, condition, **options)

    refused("needs --unique-key", "orders", "customer", FOLLOWS)
    refused("equates a whole", "orders", "customer", "orders.note = customer.name", unique_key=True)
    refused("equates a whole", "orders", "customer", f"{FOLLOWS} or orders.note = 'x'", unique_key=True)
    refused("one filter", "customer", "orders", "customer.id = orders.id", unique_key=True)
    merged.merge.add_filter(
        PUBLICATION, "orders", "customer", "orders.note = 'x' and customer.code = orders.id", unique_key=True
    )
    refused("already", "orders", "customer", FOLLOWS, unique_key=True)


def test_rows_that_leave_stay_without_realignment(merged: Merge) -> None:
    begin(merged, PartitionOptions.OVERLAPPING, realigns=False)
    north, south = merged.subscribers
    merged.hub.execute("update customer set region = 'south' where id = 1")
    merged.settle()
    assert (north.rows("customer", "id"), north.rows("orders", "id")) == ([(1,)], [(10,)])
    assert (south.rows("customer", "id"), south.rows("orders", "id")) == ([(1,), (2,)], [(10,), (20,)])

    merged.hub.execute("update customer set name = 'hub' where id = 1", "update orders set note = 'hub' where id = 20")
    north.execute("update orders set note = 'north' where id = 10")
    merged.settle()
    assert north.rows("customer", "id, region, name") == [(1, "north", "a")]
    for member in (merged.hub, south):
        assert member.rows("orders", "id, note") == [(10, "north"), (20, "hub")]

    merged.hub.execute("update customer set region = 'north' where id = 1")
    merged.settle()
    assert north.rows("customer", "id, region, name") == [(1, "north", "hub")]
    assert len(south.rows("customer")) == 2
    assert all(summary.is_quiet for summary in merged.settle())
