"""Databases that have the tables and rows before they subscribe."""

from __future__ import annotations

from typing import Any

import pytest

from builders.commands.command_lines import rowtide, rowtide_process
from builders.merge.merged_databases import PUBLICATION, FileMember, Member, Merge
from builders.servers.copied_databases import copied_member
from rowtide.merge.articles import Partition
from rowtide.merge.errors.nodes import NodeCopied, NodeRestored
from rowtide.merge.errors.subscribing import SubscriberHasTable, TablesUnfit
from rowtide.merge.publishing.requests import Existing, ExistingRows

CUSTOMER = (
    "create table customer (id integer primary key, region varchar(10), name varchar(20), rate numeric(6,2))",
    (
        "insert into customer values (1, 'north', 'a', 1.50), (2, 'north', 'b', 2.00), (3, 'north', 'c', 3.25), "
        "(4, 'south', 'd', 4.00), (5, 'south', 'e', 5.00)"
    ),
)
ORDERS = (
    "create table orders (id integer primary key, customer_id integer references customer (id), note varchar(20))",
    "insert into orders values (10, 1, 'x'), (20, 2, 'y'), (40, 4, 'z')",
)
COLUMNS = {"customer": "id, region, name", "orders": "id, customer_id, note"}


def begin(merged: Merge, **options: Any) -> Member:
    """Make the tables at the hub and at the first subscriber, which differ then; return that."""
    device = merged.subscribers[0]
    for member in (merged.hub, device):
        member.execute(*CUSTOMER, *ORDERS)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer", **options)
    merged.merge.add_article(PUBLICATION, "orders")
    if options.get("where"):
        merged.merge.add_filter(PUBLICATION, "orders", "customer", "orders.customer_id = customer.id")
    merged.hub.execute(
        "update customer set name = 'hub' where id = 2",
        "insert into orders (id, customer_id, note) values (50, 3, 'h')",
    )
    device.execute(
        "update customer set name = 'own' where id = 2",
        "insert into customer (id, region, name) values (7, 'north', 'new')",
        "insert into orders (id, customer_id, note) values (70, 7, 'new')",
        "delete from orders where id = 10",
    )
    return device


def take_over(merged: Merge, existing: Existing, **options: Any) -> list[ExistingRows]:
    found: list[ExistingRows] = []
    url = merged.subscribers[0].url
    merged.merge.subscribe_existing(PUBLICATION, url, existing, on_existing=found.append, **options)
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[1].url, partition=options.get("partition"))
    return found


def test_a_prepared_subscriber_uploads_what_differs(merged: Merge) -> None:
    device = begin(merged)
    customer, orders = take_over(merged, Existing.KEEP)

    assert customer == ExistingRows("customer", 4, 1, 1, 0)
    assert orders == ExistingRows("orders", 2, 0, 1, 2)
    merged.require_at_rest()
    for table, columns in COLUMNS.items():
        merged.require_equal(table, columns=f"{columns}, cast(rowguid as varchar(36))")
    assert ("own",) in merged.hub.rows("customer", "name")
    assert [row[0] for row in device.rows("orders", "id")] == [10, 20, 40, 50, 70]
    assert merged.conflicts() == []

    device.execute("update customer set name = 'later' where id = 1")
    merged.hub.execute("update orders set note = 'later' where id = 20")
    merged.require_at_rest()
    assert ("later",) in merged.hub.rows("customer", "name")


@pytest.mark.exhaustive
def test_a_prepared_subscriber_is_overwritten(merged: Merge) -> None:
    device = begin(merged)
    take_over(merged, Existing.OVERWRITE)

    assert [row[0] for row in device.rows("orders", "id")] == [10, 20, 40, 50]
    assert ("hub",) in device.rows("customer", "name")
    assert len(device.rows("customer", "id")) == 5
    merged.require_at_rest()
    assert ("hub",) in merged.hub.rows("customer", "name")
    assert merged.conflicts() == []


@pytest.mark.exhaustive
def test_rows_that_are_absent_may_be_deletes(merged: Merge) -> None:
    begin(merged, column_tracking=True)
    take_over(merged, Existing.KEEP, absent_is_delete=True)

    merged.require_at_rest()
    assert [row[0] for row in merged.hub.rows("orders", "id")] == [20, 40, 70]
    assert merged.conflicts() == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("existing", list(Existing))
def test_a_prepared_subscriber_gets_its_partition(merged: Merge, existing: Existing) -> None:
    device = begin(merged, where="region = host_name()")
    device.execute("update customer set name = 'outside' where id = 5")
    customer, _ = take_over(merged, existing, partition=Partition("north"))

    assert customer == ExistingRows("customer", 2, 1, 3, 0)
    merged.require_at_rest()
    kept = existing is Existing.KEEP
    assert [row[0] for row in device.rows("customer", "id")] == [1, 2, 3, *([7] if kept else [])]
    assert merged.hub.rows("customer", "id, name")[4] == ((5, "outside") if kept else (5, "e"))


@pytest.mark.exhaustive
def test_earlier_rowguids_of_a_file_are_replaced(merged: Merge) -> None:
    """As in a subscriber that was dropped: rows may have the rowguids of others by now."""
    device = merged.subscribers[0]
    merged.begin(*CUSTOMER, customer={})
    merged.merge.drop_subscription(PUBLICATION, device.url)
    merged.merge.drop_subscription(PUBLICATION, merged.subscribers[1].url)
    merged.subscribers[1].execute("drop table customer")
    device.execute("update customer set id = 99 where id = 1", "update customer set id = 1 where id = 2")
    take_over(merged, Existing.KEEP)

    merged.require_at_rest()
    assert [row[0] for row in merged.hub.rows("customer", "id")] == [1, 2, 3, 4, 5, 99]


@pytest.mark.exhaustive
def test_versions_of_other_subscribers_are_included(merged: Merge) -> None:
    device = merged.subscribers[0]
    merged.hub.execute(*CUSTOMER)
    device.execute(*CUSTOMER)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "customer")
    merged.merge.add_subscription(PUBLICATION, merged.subscribers[1].url)
    merged.subscribers[1].execute("update customer set name = 'other' where id in (1, 2)")
    merged.sync(1)
    device.execute("update customer set name = 'own' where id = 1")
    merged.merge.subscribe_existing(PUBLICATION, device.url, Existing.KEEP)

    merged.require_at_rest()
    assert sorted(row[0] for row in merged.hub.rows("customer", "name")) == ["b", "c", "d", "e", "own"]
    assert merged.conflicts() == []


@pytest.mark.exhaustive
def test_tables_that_do_not_fit_are_all_named(merged: Merge) -> None:
    device = begin(merged)
    device.execute("drop table orders", "drop table customer")
    device.execute(
        "create table customer (id integer, region varchar(10), name varchar(20), must integer not null)",
        "create table orders (id integer primary key, customer_id integer, note integer)",
    )
    with pytest.raises(TablesUnfit) as refused:
        merged.merge.compare_existing(PUBLICATION, device.url)
    said = str(refused.value)
    assert "column rate is missing" in said
    assert "column must" in said
    assert "the primary key is not (id)" in said
    assert "column note is integer" in said.lower()
    with pytest.raises(SubscriberHasTable):
        merged.merge.add_subscription(PUBLICATION, device.url)


@pytest.mark.exhaustive
def test_a_copied_subscriber_is_no_prepared_file(request: pytest.FixtureRequest, merged: Merge) -> None:
    merged.begin(*CUSTOMER, customer={})
    with copied_member(request, merged.subscribers[0]) as copy, pytest.raises((NodeCopied, NodeRestored)):
        merged.merge.subscribe_existing(PUBLICATION, copy.url, Existing.KEEP)


@pytest.mark.parametrize("before", [False, True])
def test_triggers_that_make_endless_traffic_are_named(merged: Merge, *, before: bool) -> None:
    """One that leaves the agent's writes out, as it is said, is not named, nor one that writes elsewhere."""
    for member in merged.members:
        member.execute(
            "create table item (id integer primary key, name varchar(20), touched integer)",
            "create table other (id integer primary key, item integer)",
            "insert into item values (1, 'a', 0)",
        )
        add_trigger(member, "other", "insert into other (item) values (new.id)", "new.id > 5")
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "item")
    touch = "update item set touched = touched + 1 where id = new.id"
    for device in merged.subscribers:
        add_trigger(device, "touch", touch, "old.touched = new.touched", before=before)
        (found,) = merged.merge.compare_existing(PUBLICATION, device.url)
        (trigger,) = found.rewriting
        assert trigger.name == "touch"
        exempt = f"old.touched = new.touched and {trigger.exemption}"
        device.execute(f"drop trigger touch{'' if isinstance(device, FileMember) else ' on item'}")
        add_trigger(device, "touch", touch, exempt, before=before)
        told: list[ExistingRows] = []
        merged.merge.subscribe_existing(PUBLICATION, device.url, Existing.OVERWRITE, on_existing=told.append)
        assert [rows.rewriting for rows in told] == [()]
    merged.hub.execute("update item set name = 'b'")
    merged.subscribers[0].execute("update item set name = 'c'")
    merged.settle()

    assert all(summary.is_quiet for summary in merged.settle())


def add_trigger(member: Member, name: str, work: str, condition: str, *, before: bool = False) -> None:
    """On a server it can be one that sets the new row before it is written."""
    if isinstance(member, FileMember):
        member.execute(f"create trigger {name} after update on item when {condition} begin {work}; end")
        return
    setting = "BEGIN -- as of now\n NEW.touched = old.touched + 1; return new; end"
    body = setting if before else f"begin {work}; return null; end"
    member.execute(
        f"create or replace function do_{name}() returns trigger language plpgsql as $${body}$$",
        f"create trigger {name} {'before' if before else 'after'} update on item for each row when ({condition}) "
        f"execute function do_{name}()",
    )


@pytest.mark.exhaustive
def test_overwriting_asks_first(merged: Merge) -> None:
    device = begin(merged)
    words = ("merge", "add-subscription", PUBLICATION, "--subscriber", device.url, "--existing", "overwrite")
    declined = rowtide_process(*words, "--db", merged.hub.url)

    assert (declined.code, merged.merge.status()[0].subscriber) == (1, None)
    assert "Lost: the subscriber's version of 3 rows" in declined.errors
    assert ("own",) in device.rows("customer", "name")
    accepted = rowtide(*words, "--yes", "--db", merged.hub.url)
    assert accepted.code == 0, accepted.errors
    assert "customer: 4 rows equal, 1 different, 1 only at the subscriber, 0 only at the publisher" in accepted.errors
