"""Filters over several joins: rows that follow rows that follow others, at both kinds of hub."""

from __future__ import annotations

import pytest

from builders.merge.merged_databases import PUBLICATION, Member, Merge
from rowtide.merge.articles import Partition
from rowtide.merge.errors.publishing import FilterRefused, JoinFilterRefused, MergeArticleUnknown

EMPLOYEE = (
    "create table employee (id integer primary key, manager_id integer references employee (id), region varchar(9))"
)
CUSTOMER = "create table customer (id integer primary key, employee_id integer references employee (id))"
ORDERS = "create table orders (id integer primary key, customer_id integer references customer (id))"
PRODUCT = "create table product (id integer primary key, name varchar(9))"
LINE = (
    "create table line (id integer primary key, order_id integer references orders (id), "
    "product_id integer references product (id), sample_of integer references customer (id))"
)
ROWS = (
    "insert into employee values (1, null, 'north'), (2, 1, null), (3, 2, null), (4, null, 'south'), (5, 5, null)",
    "insert into customer values (10, 3), (20, 4), (30, 5)",
    "insert into orders values (100, 10), (200, 20), (300, 30)",
    "insert into product values (7, 'a'), (8, 'b'), (9, 'c')",
    "insert into line values (1000, 100, 7, null), (2000, 200, 8, null), (3000, 300, 9, null), (3001, null, 9, 20)",
)
FOLLOWING = (
    ("employee", "employee", "employee.manager_id = parent.id"),
    ("customer", "employee", "customer.employee_id = employee.id"),
    ("orders", "customer", "orders.customer_id = customer.id"),
    ("line", "orders", "line.order_id = orders.id"),
    ("product", "line", "line.product_id = product.id"),
)
TABLES = ("employee", "customer", "orders", "product", "line")


def begin(merged: Merge, *joins: tuple[str, str, str], rows: tuple[str, ...] = ROWS) -> None:
    """Employees by region or under such, their customers, these' orders, the lines, and the lines' products."""
    merged.hub.execute(EMPLOYEE, CUSTOMER, ORDERS, PRODUCT, LINE, *rows)
    merged.merge.add_publication(PUBLICATION)
    for table in TABLES:
        merged.merge.add_article(PUBLICATION, table, where="region = host_name()" if table == "employee" else None)
    for child, parent, condition in joins or FOLLOWING:
        merged.merge.add_filter(PUBLICATION, child, parent, condition)
    for subscriber, region in zip(merged.subscribers, ("north", "south"), strict=True):
        merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition(region))


def held(member: Member) -> list[list[int]]:
    return [[row[0] for row in member.rows(table, "id")] for table in TABLES]


def require_settled(merged: Merge, *expected: list[list[int]]) -> None:
    """The subscribers have the expected rows, the hub knows of no others, and nothing more moves."""
    merged.settle()
    assert [held(subscriber) for subscriber in merged.subscribers] == list(expected)
    assert all(summary.is_quiet for summary in merged.settle())
    for subscriber in merged.subscribers:
        assert all(row.is_equal for row in merged.merge.validate(PUBLICATION, subscriber.url, checksum=True))


NORTH: list[list[int]] = [[1, 2, 3], [10], [100], [7], [1000]]
SOUTH: list[list[int]] = [[4], [20], [200], [8], [2000]]
NOTHING: list[list[int]] = [[], [], [], [], []]


@pytest.mark.exhaustive
def test_subscribers_begin_with_what_they_reach(merged: Merge) -> None:
    begin(merged)

    require_settled(merged, NORTH, SOUTH)


def test_all_below_a_row_that_moves_goes_with_it(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update employee set region = 'south' where id = 1")
    merged.settle()
    require_settled(merged, NOTHING, [[1, 2, 3, 4], [10, 20], [100, 200], [7, 8], [1000, 2000]])

    merged.hub.execute("update employee set region = 'north', manager_id = null where id = 2")
    require_settled(
        merged,
        [[2, 3], [10], [100], [7], [1000]],
        [[1, 4], [20], [200], [8], [2000]],
    )


@pytest.mark.exhaustive
def test_rows_move_in_the_middle_of_the_chain(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update customer set employee_id = 4 where id = 10")
    require_settled(merged, [[1, 2, 3], [], [], [], []], [[4], [10, 20], [100, 200], [7, 8], [1000, 2000]])
    merged.hub.execute("update orders set customer_id = 30 where id = 100")
    require_settled(merged, [[1, 2, 3], [], [], [], []], [[4], [10, 20], [200], [8], [2000]])
    merged.subscribers[1].execute("update customer set employee_id = null where id = 20")
    require_settled(merged, [[1, 2, 3], [], [], [], []], [[4], [10], [], [], []])


@pytest.mark.exhaustive
def test_rows_follow_others_than_their_references(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute("update line set product_id = 9 where id = 1000")

    require_settled(merged, [[1, 2, 3], [10], [100], [9], [1000]], SOUTH)


@pytest.mark.exhaustive
def test_a_row_with_two_parents_goes_with_the_last(merged: Merge) -> None:
    begin(merged, *FOLLOWING, ("line", "customer", "line.sample_of = customer.id"))
    south = [[4], [20], [200], [8, 9], [2000, 3001]]
    require_settled(merged, NORTH, south)

    merged.hub.execute("update line set order_id = 200 where id = 3001")
    merged.settle(1)
    merged.hub.execute("update line set sample_of = null where id = 3001")
    require_settled(merged, NORTH, south)

    merged.hub.execute("update orders set customer_id = null where id = 200")
    require_settled(merged, NORTH, [[4], [20], [], [], []])


def test_circles_of_rows_keep_nobody(merged: Merge) -> None:
    begin(merged)
    merged.hub.execute(
        "update employee set manager_id = 3 where id = 1", "update employee set region = null where id = 1"
    )

    require_settled(merged, NOTHING, SOUTH)

    merged.hub.execute("update employee set manager_id = 4 where id = 2")
    require_settled(merged, NOTHING, [[1, 2, 3, 4], [10, 20], [100, 200], [7, 8], [1000, 2000]])


@pytest.mark.exhaustive
def test_deleted_row_takes_what_followed_it(merged: Merge) -> None:
    rows = ("insert into employee values (1, null, 'north'), (2, 1, null)", "insert into customer values (10, 2)")
    merged.hub.execute("create table employee (id integer primary key, manager_id integer, region varchar(9))")
    merged.hub.execute("create table customer (id integer primary key, employee_id integer)", *rows)
    merged.merge.add_publication(PUBLICATION)
    merged.merge.add_article(PUBLICATION, "employee", where="region = host_name()")
    merged.merge.add_article(PUBLICATION, "customer")
    for child, parent, condition in FOLLOWING[:2]:
        merged.merge.add_filter(PUBLICATION, child, parent, condition)
    subscriber = merged.subscribers[0]
    merged.merge.add_subscription(PUBLICATION, subscriber.url, partition=Partition("north"))
    assert subscriber.rows("customer", "id") == [(10,)]

    merged.hub.execute("delete from employee where id = 1")
    merged.sync()

    assert (subscriber.rows("employee", "id"), subscriber.rows("customer", "id")) == ([], [])
    assert merged.hub.rows("customer", "id") == [(10,)]
    assert merged.sync().is_quiet


@pytest.mark.exhaustive
def test_uploaded_rows_go_when_their_parents_move(merged: Merge) -> None:
    begin(merged)
    merged.subscribers[0].execute(
        "insert into employee (id, manager_id) values (6, 3)",
        "insert into customer (id, employee_id) values (60, 6)",
        "insert into orders (id, customer_id) values (600, 60)",
        "insert into line (id, order_id) values (6000, 600)",
    )
    require_settled(merged, [[1, 2, 3, 6], [10, 60], [100, 600], [7], [1000, 6000]], SOUTH)

    merged.hub.execute("update employee set manager_id = null where id = 2")
    require_settled(merged, [[1], [], [], [], []], SOUTH)


@pytest.mark.exhaustive
def test_a_subscriber_moves_to_another_partition_whole(merged: Merge) -> None:
    begin(merged)
    first = merged.subscribers[0].url
    merged.merge.change_subscription(PUBLICATION, first, partition=Partition("south"))
    require_settled(merged, SOUTH, SOUTH)

    merged.merge.reinitialize(PUBLICATION, first, upload_first=True)
    merged.hub.execute("update customer set employee_id = 3 where id = 20")
    require_settled(merged, [[4], [], [], [], []], [[4], [], [], [], []])


def test_joins_are_listed_and_refused_with_reasons(merged: Merge) -> None:
    merged.hub.execute(EMPLOYEE, CUSTOMER, "create table parent (id integer primary key, up integer)")
    merged.merge.add_publication(PUBLICATION)
    for table in ("employee", "customer", "parent"):
        merged.merge.add_article(PUBLICATION, table)
    refused: list[tuple[type[Exception], str, str, str, str]] = [
        (JoinFilterRefused, "row filters", "customer", "employee", "customer.id = host_name()"),
        (FilterRefused, "table of this filter", "employee", "employee", "employee.id = boss.id"),
        (FilterRefused, "nothing", "customer", "employee", "customer.nothing = employee.id"),
        (JoinFilterRefused, "is called parent", "parent", "parent", "parent.up = parent.id"),
        (MergeArticleUnknown, "nothing", "customer", "nothing", "1 = 1"),
    ]
    for error, reason, child, parent, condition in refused:
        with pytest.raises(error, match=reason):
            merged.merge.add_filter(PUBLICATION, child, parent, condition)
    merged.merge.add_filter(PUBLICATION, *FOLLOWING[0])
    merged.merge.add_filter(PUBLICATION, *FOLLOWING[1])
    with pytest.raises(JoinFilterRefused, match="already"):
        merged.merge.add_filter(PUBLICATION, "customer", "employee", "customer.id = employee.id")

    with pytest.raises(JoinFilterRefused, match="parent"):
        merged.merge.drop_article(PUBLICATION, "employee")
    merged.merge.drop_article(PUBLICATION, "customer")
    merged.merge.drop_article(PUBLICATION, "employee")
