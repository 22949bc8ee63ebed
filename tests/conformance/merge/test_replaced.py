"""REPLACE in SQLite files: the row with the same key is updated, other displaced rows are deleted, children stay."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from builders.merge.merged_databases import FileMember, Merge
from rowtide.merge.nodes.connecting import open_node

CUSTOMER = "create table customer (id integer primary key, email varchar(20) unique, name varchar(20))"
ORDERS = (
    "create table orders (id integer primary key, customer_id integer references customer (id) {action}, "
    "note varchar(20))"
)
ITEM = (
    "create table item (order_id integer references orders (id) on delete cascade, number integer, label varchar(20), "
    "primary key (order_id, number))"
)
ROWS = (
    "insert into customer values (1, 'e1', 'a'), (2, 'e2', 'b'), (3, 'e3', 'c')",
    "insert into orders values (10, 1, 'n'), (20, 2, 'm')",
    "insert into item values (10, 1, 'x'), (20, 1, 'y')",
)
COLUMNS = {"customer": "id, email, name", "orders": "id, customer_id, note", "item": "order_id, number, label"}
ACTIONS = pytest.mark.parametrize("action", ["", "on delete cascade", "on delete set null"])
FOREIGN_KEYS = pytest.mark.parametrize("foreign_keys", ["off", "on"])
RECURSIVE = pytest.mark.parametrize("recursive", ["off", "on"])
REPLACING = pytest.mark.parametrize(
    "statement",
    [
        "insert or replace into customer (id, email, name) values (1, 'e1', 'A2')",
        "replace into customer (id, name, email) values (1, 'A2', 'e1')",
        "insert into customer (id, email, name) values (1, 'e1', 'A2') on conflict (id) do update set name = 'A2'",
    ],
)


def begin(
    merged: Merge, action: str = "", *, foreign_keys: str = "off", recursive: str = "off", **customer: Any
) -> FileMember:
    """Publish customers with orders and items; return a file whose program has some settings."""
    merged.begin(CUSTOMER, ORDERS.format(action=action), ITEM, *ROWS, customer=customer, orders={}, item={})
    program = next(each for each in merged.members if isinstance(each, FileMember))
    program.execute(f"pragma foreign_keys = {foreign_keys}", f"pragma recursive_triggers = {recursive}")
    return program


def require(merged: Merge, **rows: list[Any]) -> None:
    """All nodes have some rows, or the same, there are no conflicts, and nothing is to be moved."""
    merged.settle()
    for table, columns in COLUMNS.items():
        merged.require_equal(table, columns=f"{columns}, cast(rowguid as varchar(36))")
        if table in rows:
            assert merged.hub.rows(table, columns) == rows[table]
    assert merged.conflicts() == []
    assert all(summary.is_quiet for summary in merged.settle())


@ACTIONS
@FOREIGN_KEYS
@RECURSIVE
@REPLACING
def test_a_replaced_row_is_updated_and_keeps_its_children(
    merged: Merge, action: str, foreign_keys: str, recursive: str, statement: str
) -> None:
    program = begin(merged, action, foreign_keys=foreign_keys, recursive=recursive)
    program.execute(
        "insert into orders (id, customer_id, note) values (11, 1, 'never sent')",
        "insert into item (order_id, number, label) values (11, 1, 'nor this')",
        "update orders set note = 'nor that' where id = 10",
    )
    rowguid = program.rowguid("customer", 1)
    program.execute(statement)

    assert program.rowguid("customer", 1) == rowguid
    require(
        merged,
        customer=[(1, "e1", "A2"), (2, "e2", "b"), (3, "e3", "c")],
        orders=[(10, 1, "nor that"), (11, 1, "never sent"), (20, 2, "m")],
        item=[(10, 1, "x"), (11, 1, "nor this"), (20, 1, "y")],
    )


@RECURSIVE
def test_a_replaced_row_changes_the_columns_that_differ(merged: Merge, recursive: str) -> None:
    program = begin(merged, recursive=recursive, column_tracking=True)
    other = merged.hub if program is not merged.hub else merged.subscribers[0]
    other.execute("update customer set email = 'there' where id = 1")
    program.execute("insert or replace into customer (id, email, name) values (1, 'e1', 'here')")

    require(merged, customer=[(1, "there", "here"), (2, "e2", "b"), (3, "e3", "c")])


@RECURSIVE
def test_a_replaced_row_adds_what_it_added(merged: Merge, recursive: str) -> None:
    stock = "create table stock (id integer primary key, qty integer)"
    merged.begin(stock, "insert into stock values (1, 100)", stock={"resolver": "additive:qty"})
    program = next(each for each in merged.members if isinstance(each, FileMember))
    other = merged.hub if program is not merged.hub else merged.subscribers[0]
    program.execute(f"pragma recursive_triggers = {recursive}", "replace into stock (id, qty) values (1, 110)")
    other.execute("update stock set qty = qty + 1 where id = 1")
    merged.settle()

    assert merged.hub.rows("stock", "id, qty") == [(1, 111)]
    merged.require_equal("stock", columns="id, qty")


@RECURSIVE
@pytest.mark.parametrize(
    ("statement", "customers"),
    [
        ("update or replace customer set email = 'e3' where id = 1", [(1, "e3", "a"), (2, "e2", "b")]),
        (
            "replace into customer (id, email, name) values (4, 'e3', 'd')",
            [(1, "e1", "a"), (2, "e2", "b"), (4, "e3", "d")],
        ),
        ("replace into customer (id, email, name) values (1, 'e3', 'd')", [(1, "e3", "d"), (2, "e2", "b")]),
        ("update or replace customer set id = 2 where id = 3", [(1, "e1", "a"), (2, "e3", "c")]),
    ],
)
def test_other_displaced_rows_are_deleted(merged: Merge, recursive: str, statement: str, customers: list[Any]) -> None:
    program = begin(merged, recursive=recursive)
    rowguid = program.rowguid("customer", 2)
    program.execute(statement)

    assert program.rowguid("customer", 2) == rowguid
    require(merged, customer=customers)


@RECURSIVE
@pytest.mark.parametrize(
    "statement",
    [
        "insert or ignore into customer (id, email, name) values (1, 'e2', 'x')",
        "insert into customer (id, email, name) values (1, 'e1', 'x') on conflict do nothing",
        "insert or ignore into customer (id, email, name) select id, email, 'x' from customer",
        "update or ignore customer set id = 2 where id = 1",
    ],
)
def test_what_is_ignored_leaves_nothing_behind(merged: Merge, recursive: str, statement: str) -> None:
    program = begin(merged, recursive=recursive)
    program.execute(statement)

    assert program.execute("select count(*) from MSmerge_log") == [(0,)]
    assert merged.sync().is_quiet
    # Who has the key next is another row.
    rowguid = program.rowguid("customer", 3)
    program.execute(
        "insert or ignore into customer (id, email, name) values (3, 'e3', 'x')",
        "delete from customer where id = 3",
        "insert into customer (id, email, name) values (3, 'e3', 'another')",
    )
    assert program.rowguid("customer", 3) != rowguid
    require(merged, customer=[(1, "e1", "a"), (2, "e2", "b"), (3, "e3", "another")])


def test_children_whose_key_is_taken_stay_deleted(merged: Merge) -> None:
    """A program that knows what SQLite does writes them again; they, or others, may have got the same number."""
    program = begin(merged, "on delete cascade", foreign_keys="on")
    program.execute(
        "replace into customer (id, email, name) values (1, 'e1', 'A2')",
        "insert into orders (id, customer_id, note) values (10, 2, 'of another')",
    )

    require(merged, orders=[(10, 2, "of another"), (20, 2, "m")], item=[(20, 1, "y")])


def test_a_program_replaces_rows_within_its_triggers(merged: Merge) -> None:
    program = begin(merged, "on delete cascade", foreign_keys="on")
    program.execute(
        "create trigger of_program before insert on customer when new.id < 3 begin "
        "insert or ignore into customer (id, email, name) values (new.id + 100, new.email || '!', 'made'); end",
        "insert or replace into customer (id, email, name) values (1, 'e1', 'A2')",
    )
    if program is not merged.hub:
        require(merged, orders=[(10, 1, "n"), (20, 2, "m")])
    assert len({rowguid for (rowguid,) in program.rows("customer", "rowguid")}) == len(program.rows("customer")) == 4


def test_nothing_that_comes_back_is_missed_by_a_reader(merged: Merge) -> None:
    program = begin(merged, "on delete cascade", foreign_keys="on")
    with open_node(program.url) as node:
        program.execute("update orders set note = 'changed'", "replace into customer (id, name) values (1, 'A2')")
        with node.changes.previewing() as preview:
            assert preview is not None
    require(merged, orders=[(10, 1, "changed"), (20, 2, "changed")])


def test_programs_still_learn_what_is_refused(merged: Merge) -> None:
    program = begin(merged)
    with pytest.raises(sqlite3.IntegrityError, match=r"customer\.id"):
        program.execute("insert into customer (id, email) values (1, 'x')")
    with pytest.raises(sqlite3.IntegrityError, match="rowguid"):
        program.execute("update customer set rowguid = 'x' where id = 1")
    require(merged, customer=[(1, "e1", "a"), (2, "e2", "b"), (3, "e3", "c")])
