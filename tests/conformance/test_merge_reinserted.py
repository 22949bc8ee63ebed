"""A row that is deleted and inserted again: one row within a transaction of a server, two rows otherwise."""

from __future__ import annotations

import pytest

from builders.merge.merged_databases import Member, Merge, ServerMember

CUSTOMER = "create table customer (id integer primary key, name varchar(20))"
ORDERS = (
    "create table orders (id integer primary key, customer_id integer references customer (id) "
    "deferrable initially deferred, note varchar(20))"
)
ROWS = ("insert into customer values (1, 'Bob'), (2, 'Eve')", "insert into orders values (10, 1, 'of Bob')")
COLUMNS = {"customer": "id, name", "orders": "id, customer_id, note"}


def begin(merged: Merge) -> None:
    merged.begin(CUSTOMER, ORDERS, *ROWS, customer={}, orders={})


def server_of(merged: Merge) -> Member:
    found = [each for each in merged.members if isinstance(each, ServerMember)]
    if not found:
        pytest.skip("triggers of files know no transaction")
    return found[0]


def require_quiet(merged: Merge) -> None:
    merged.settle()
    for table, columns in COLUMNS.items():
        merged.require_equal(table, columns=f"{columns}, cast(rowguid as varchar(36))")
    assert all(summary.is_quiet for summary in merged.settle())


def test_a_transaction_that_inserts_a_row_again_changes_it(merged: Merge) -> None:
    begin(merged)
    server = server_of(merged)
    # The hub's foreign key is checked at the end of a transaction, and a subscriber's that was made for a file is not.
    key = 1 if server is merged.hub else 2
    rowguid = server.rowguid("customer", key)
    deletion = f"delete from customer where id = {key}"
    server.execute("begin", deletion, f"insert into customer (id, name) values ({key}, 'x')", "commit")

    assert server.rowguid("customer", key) == rowguid
    require_quiet(merged)
    assert (key, "x") in merged.hub.rows("customer", "id, name")
    assert merged.hub.rows("orders", "id, customer_id, note") == [(10, 1, "of Bob")]
    assert merged.conflicts() == []


def test_a_later_transaction_inserts_another_row(merged: Merge) -> None:
    begin(merged)
    server = server_of(merged)
    rowguid = server.rowguid("customer", 2)
    server.execute(
        "begin",
        "delete from customer where id = 2",
        "commit",
        "insert into customer (id, name) values (2, 'another')",
        "begin",
        "savepoint undone",
        "delete from customer where id = 2",
        "rollback to undone",
        "insert into customer (id, name) values (3, 'more')",
        "commit",
    )

    assert server.rowguid("customer", 2) != rowguid
    require_quiet(merged)
    assert merged.conflicts() == []
