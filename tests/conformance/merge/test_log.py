"""Triggers append to a log: nobody sees whether the agent has applied it before it reads, or reads what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, cast

import psycopg
import pytest

from builders.merge.merge_interruptions import nothing_applied_ahead
from builders.merge.merged_databases import FileMember, Member, Merge
from rowtide.merge.articles import Partition
from rowtide.merge.nodes.connecting import open_node

CUSTOMER = "create table customer (id integer primary key, name varchar(20), qty integer)"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id), note varchar(20))"
COLUMNS = "id, name, qty"
TRACKING = pytest.mark.parametrize("tracking", [False, True], ids=["rows", "columns"])


@pytest.fixture(params=["applied before", "read beside"])
def _applying(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have all of it applied ahead, or nothing."""
    with nothing_applied_ahead() if request.param == "read beside" else nullcontext():
        yield


def count(member: Member, table: str) -> int:
    prefix = "" if isinstance(member, FileMember) else "rowtide_merge."
    return int(member.execute(f'select count(*) from {prefix}"{table}"')[0][0])


@TRACKING
@pytest.mark.usefixtures("_applying")
def test_all_kinds_of_changes_arrive_once(merged: Merge, tracking: bool) -> None:  # noqa: FBT001 - given by pytest
    rows = "insert into customer values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)"
    merged.begin(CUSTOMER, rows, customer={"column_tracking": tracking})
    merged.hub.execute(
        "update customer set qty = 10 where id = 1",
        "update customer set name = 'x' where id = 1",
        "delete from customer where id = 2",
        "insert into customer (id, name) values (5, 'e')",
        "update customer set qty = 5 where id = 5",
    )
    merged.subscribers[0].execute(
        "update customer set qty = 30 where id = 3",
        "delete from customer where id = 4",
        "insert into customer (id, name) values (6, 'f'), (7, 'g')",
        "delete from customer where id = 7",
    )
    merged.settle()

    assert merged.hub.rows("customer", COLUMNS) == [(1, "x", 10), (3, "c", 30), (5, "e", 5), (6, "f", None)]
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


@TRACKING
@pytest.mark.usefixtures("_applying")
def test_a_row_that_was_put_back_is_new_in_all_columns(merged: Merge, tracking: bool) -> None:  # noqa: FBT001 - as above
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1)", customer={"column_tracking": tracking})
    rowguid = merged.hub.rowguid("customer", 1)
    merged.hub.execute(
        "update customer set qty = 2 where id = 1",
        "delete from customer where id = 1",
        f"insert into customer (id, name, qty, rowguid) values (1, 'a', 9, '{rowguid}')",
    )
    merged.subscribers[0].execute("update customer set name = 'mine' where id = 1")
    merged.settle()

    # What the subscriber changed, it changed of the row that is gone: the columns have nothing to be merged with.
    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS) == [(1, "a", 9)]
    assert len(merged.conflicts()) == 1
    assert all(summary.is_quiet for summary in merged.settle())


@pytest.mark.exhaustive
@pytest.mark.usefixtures("_applying")
def test_both_ends_change_different_columns_in_turn(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1)", customer={"column_tracking": True})
    for turn in range(3):
        merged.hub.execute(f"update customer set qty = {turn} where id = 1")
        merged.subscribers[0].execute(f"update customer set name = 'turn {turn}' where id = 1")
        merged.settle()
        assert merged.hub.rows("customer", COLUMNS) == [(1, f"turn {turn}", turn)]
        merged.require_equal("customer", columns=COLUMNS)

    assert merged.conflicts() == []


@pytest.mark.usefixtures("_applying")
def test_additions_of_both_ends_add_up(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 100)", customer={"resolver": "additive:qty"})
    for _ in range(2):
        merged.hub.execute("update customer set qty = qty + 5", "update customer set qty = qty + 5")
        for subscriber in merged.subscribers:
            subscriber.execute("update customer set qty = qty + 1", "update customer set qty = qty - 3")
        merged.settle()

    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS) == [(1, "a", 112)]


@pytest.mark.usefixtures("_applying")
def test_rows_come_into_partitions_and_leave_them(merged: Merge) -> None:
    merged.hub.execute(CUSTOMER, ORDERS, "insert into customer values (1, 'north', 1), (2, 'south', 2)")
    merged.hub.execute("insert into orders values (10, 1, 'n'), (20, 2, 's')")
    merged.merge.add_publication("shop")
    merged.merge.add_article("shop", "customer", where="name = host_name()")
    merged.merge.add_article("shop", "orders")
    merged.merge.add_filter("shop", "orders", "customer", "orders.customer_id = customer.id")
    north: dict[str, Any] = {"partition": Partition("north")}
    merged.merge.add_subscription("shop", merged.subscribers[0].url, **north)
    merged.hub.execute(
        "update customer set name = 'south' where id = 1",
        "update customer set name = 'north' where id = 2",
        "insert into orders (id, customer_id, note) values (21, 2, 'new')",
    )
    merged.sync()
    subscriber = merged.subscribers[0]
    assert [row[0] for row in subscriber.rows("orders", "id")] == [20, 21]
    assert [row[0] for row in subscriber.rows("customer", "id")] == [2]

    merged.hub.execute("delete from orders where id = 20", "update orders set note = 'old' where id = 21")
    merged.sync()
    assert subscriber.rows("orders", "id, note") == [(21, "old")]
    assert merged.sync().is_quiet


def test_sync_empties_the_log_and_leaves_one_contents_row(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1)", customer={})
    for member in merged.members[:2]:
        member.execute(*(f"update customer set qty = {turn} where id = 1" for turn in range(5)))
        assert count(member, "MSmerge_log") == 5
    merged.settle()

    assert [count(member, "MSmerge_log") for member in merged.members[:2]] == [0, 0]
    assert [count(member, "MSmerge_contents") for member in merged.members[:2]] == [1, 1]


def test_what_is_undone_is_not_logged(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1)", customer={})
    merged.hub.execute("begin", "update customer set qty = 2", "rollback")

    assert count(merged.hub, "MSmerge_log") == 0
    assert merged.sync().is_quiet


def test_applying_the_log_twice_is_applying_it_once(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1)", customer={})
    merged.subscribers[0].execute("update customer set qty = 2", "insert into customer (id) values (2)")
    with open_node(merged.subscribers[0].url) as node:
        node.apply_log()
        node.apply_log()
    assert count(merged.subscribers[0], "MSmerge_log") == 0
    merged.settle()

    merged.require_equal("customer", columns=COLUMNS)


def test_what_is_applied_ahead_is_not_applied_once_more(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1)", customer={})
    for member in merged.members[:2]:
        member.execute("update customer set qty = 2")
        with open_node(member.url) as node, node.changes.enumerating() as enumeration:
            assert not cast("Any", enumeration).is_beside


@pytest.mark.usefixtures("_applying")
def test_closing_a_generation_applies_what_it_sees(merged: Merge) -> None:
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1)", customer={})
    for member in merged.members[:2]:
        member.execute("update customer set qty = 2")
        with open_node(member.url) as node, node.changes.enumerating():
            member.execute("update customer set qty = 3")
            assert count(member, "MSmerge_log") == 1
    merged.settle()

    merged.require_equal("customer", columns=COLUMNS)
    assert merged.sync().is_quiet


@pytest.mark.usefixtures("_applying")
def test_who_began_first_and_commits_last_is_not_missed(merged: Merge) -> None:
    """On PostgreSQL its number is below that of a change which was sent already."""
    if isinstance(merged.hub, FileMember):
        pytest.skip("one writer at a time has a SQLite file: who begins first commits first")
    merged.begin(CUSTOMER, "insert into customer values (1, 'a', 1), (2, 'b', 1)", customer={})
    with psycopg.connect(merged.hub.url) as early:
        early.execute("update customer set qty = 2 where id = 2")
        merged.hub.execute("update customer set qty = 3 where id = 1")
        merged.sync()
        early.execute("update customer set qty = 4 where id = 1")
    merged.settle()

    merged.require_equal("customer", columns=COLUMNS)
    assert merged.hub.rows("customer", COLUMNS) == [(1, "a", 4), (2, "b", 2)]
