"""Articles are added, dropped, filtered and changed while there are subscribers, who follow."""

from __future__ import annotations

from typing import Any

import pytest

from builders.merge.merged_databases import PUBLICATION, Merge
from rowtide.merge.articles import Partition
from rowtide.merge.errors.publishing import MergeArticleExists
from rowtide.merge.errors.subscribing import PartitionValueMissing, SubscriberHasTable

CUSTOMER = "create table customer (id integer primary key, region varchar(10), name varchar(10))"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note varchar(10))"
CUSTOMERS = "insert into customer (id, region, name) values (1, 'n', 'a'), (2, 's', 'b')"
ORDERED = "insert into orders (id, customer_id, note) values (1, 1, 'x'), (2, 2, 'y')"
PARTITIONS = [{"partition": Partition(region)} for region in ("n", "s")]


def rest(merged: Merge) -> None:
    merged.settle(2)
    for subscriber in merged.subscribers:
        assert all(one.is_equal for one in merged.merge.validate(PUBLICATION, subscriber.url, checksum=True))
    assert all(summary.is_quiet for summary in merged.settle(1))


def begin(merged: Merge, *, options: dict[str, Any] | None = None) -> None:
    merged.hub.execute(ORDERS.replace("orders", "later").replace(" references customer (id)", ""))
    merged.begin(CUSTOMER, CUSTOMERS, customer=options or {})


def test_an_article_is_added_and_dropped_while_subscribed(merged: Merge) -> None:
    begin(merged)
    device = merged.subscribers[0]
    device.execute("insert into customer (id, name) values (3, 'device')")
    merged.hub.execute(ORDERS, ORDERED, "insert into customer (id, name) values (4, 'hub')")
    merged.hub.execute("insert into orders (id, customer_id) values (4, 4)")
    merged.merge.add_article(PUBLICATION, "orders")
    merged.sync()
    assert device.rows("orders", "id, customer_id, note") == [(1, 1, "x"), (2, 2, "y"), (4, 4, None)]
    device.execute("insert into orders (id, customer_id, note) values (3, 3, 'mine')")
    rest(merged)
    merged.require_equal("orders", columns="id, customer_id, note")

    device.execute("update orders set note = 'last' where id = 1")
    merged.merge.drop_article(PUBLICATION, "orders")
    with pytest.raises(MergeArticleExists, match="once all subscribers"):
        merged.merge.add_article(PUBLICATION, "orders")
    merged.settle(1)
    assert merged.hub.rows("orders", "id, note")[0] == (1, "last")
    assert device.rows("orders", "id, note")[0] == (1, "last")
    device.execute("update orders set note = 'alone' where id = 1")
    rest(merged)
    assert merged.hub.rows("orders", "id, note")[0] == (1, "last")
    merged.merge.add_article(PUBLICATION, "orders")
    with pytest.raises(SubscriberHasTable):
        merged.sync()


def test_an_added_article_has_the_rows_of_its_partition(merged: Merge) -> None:
    merged.begin(CUSTOMER, CUSTOMERS, subscriber_options=PARTITIONS, customer={"where": "region = host_name()"})
    merged.hub.execute(ORDERS, ORDERED)
    merged.merge.add_article(PUBLICATION, "orders", where="note = host_name()")
    merged.merge.add_filter(PUBLICATION, "orders", "customer", "orders.customer_id = customer.id")
    merged.sync(0)
    assert merged.subscribers[0].rows("orders", "id") == [(1,)]
    merged.hub.execute("update customer set region = 'n' where id = 2", "update orders set note = 's' where id = 1")
    rest(merged)
    assert [each.rows("orders", "id") for each in merged.subscribers] == [[(1,), (2,)], [(1,)]]


def test_a_changed_filter_moves_rows_without_a_new_start(merged: Merge) -> None:
    merged.begin(
        CUSTOMER, ORDERS, CUSTOMERS, ORDERED, subscriber_options=PARTITIONS, customer={"where": "region = host_name()"}
    )
    merged.subscribers[0].execute("insert into customer (id, region) values (3, 'n')")
    merged.merge.change_article(PUBLICATION, "customer", where="region <> host_name()")
    merged.settle(2)
    assert [each.rows("customer", "id") for each in merged.subscribers] == [[(2,)], [(1,), (3,)]]
    merged.merge.add_article(PUBLICATION, "orders")
    merged.settle(1)
    merged.merge.add_filter(PUBLICATION, "orders", "customer", "orders.customer_id = customer.id")
    rest(merged)
    assert [each.rows("orders", "id") for each in merged.subscribers] == [[(2,)], [(1,)]]


def test_a_first_filter_asks_for_a_value_of_all_subscriptions(merged: Merge) -> None:
    begin(merged)
    with pytest.raises(PartitionValueMissing):
        merged.merge.add_article(PUBLICATION, "later", where="note = host_name()")
    merged.merge.add_article(PUBLICATION, "later", where="note = 'all'")
    merged.hub.execute("insert into later (id, note) values (1, 'all'), (2, 'none')")
    rest(merged)
    assert merged.subscribers[0].rows("later", "id") == [(1,)]


@pytest.mark.exhaustive
def test_resolver_and_tracking_change_while_subscribed(merged: Merge) -> None:
    begin(merged)
    merged.settle(1)
    device = merged.subscribers[0]
    device.execute("update customer set name = 'device' where id = 1")
    merged.hub.execute("update customer set region = 'hub' where id = 1")
    merged.merge.change_article(PUBLICATION, "customer", column_tracking=True)
    merged.settle(1)
    # What was changed before counts as changed in all columns.
    assert len(merged.conflicts()) == 1

    device.execute("update customer set name = 'device' where id = 2")
    merged.hub.execute("update customer set region = 'hub' where id = 2")
    rest(merged)
    assert device.rows("customer", "id, region, name")[1] == (2, "hub", "device")

    device.execute("update customer set name = 'mine' where id = 2")
    merged.hub.execute("update customer set name = 'ours' where id = 2")
    merged.merge.change_article(PUBLICATION, "customer", resolver="subscriber-wins", column_tracking=False)
    rest(merged)
    assert merged.hub.rows("customer", "id, name")[1] == (2, "mine")
