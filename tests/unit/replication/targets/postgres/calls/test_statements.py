"""The statements in the place of procedures, and which are run; `golden/statements.sql` holds what is expected."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.golden import read_sections
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.databases.postgres.owner_functions import Owner
from rowtide.replication.articles.articles import Article
from rowtide.replication.targets.postgres.calls.statements import (
    array_statement,
    copying,
    is_checked,
    is_executed,
    statement,
)
from rowtide.replication.targets.postgres.calls.written_table import ColumnEquality, Writer, WrittenTable

GOLDEN = Path(__file__).with_name("golden") / "statements.sql"
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE

ORDERS = source_table(
    [("id", "integer"), ("quantity", "integer"), ("note", "character varying(20)")], schema="sales", name="orders"
)
LINES = source_table(
    [("line", "integer"), ("quantity", "numeric(10,2)"), ("of_order", "bigint")],
    schema="sales",
    name="lines",
    key=("of_order", "line"),
)
ODD = source_table(
    [('it\'s "the" $1', "text"), ("100%", 'public."Größe"')],
    schema="Sales:eu",
    name='"O\'Brien"',
    key=('it\'s "the" $1',),
)
EVENTS = source_table([("at", "timestamp with time zone"), ("what", "jsonb")], name="events", key=())
STATED = {
    "orders": article(ORDERS, insert="SQL", update="SQL", delete="SQL"),
    "composite key": article(LINES, insert="SQL", update="SQL", delete="SQL"),
    "odd names": article(ODD, insert="SQL", update="SQL", delete="SQL"),
}
CHOSEN = article(ORDERS, columns=("id", "note"), update="SQL")
OWNER = Owner(16384, "app", is_trusted=False, is_held=True)
OTHERS = WrittenTable(
    Writer(OWNER, OWNER.executing, OWNER.querying, is_other=True),
    {"id": ColumnEquality("operator(public.=)", "integer")},
)


def stated(made: Article, operation: Operation, *arguments: bytes, table: WrittenTable = OTHERS) -> str:
    return statement(made, operation, [*arguments], table, is_edited=False)


CASES: dict[str, Callable[[], str]] = {
    **{
        f"{operation.name.lower()}, {name}": partial(stated, made, operation, table=WrittenTable())
        for name, made in STATED.items()
        for operation in (INSERT, UPDATE, DELETE)
    },
    "insert, no key": lambda: stated(article(EVENTS, insert="SQL", update="NONE", delete="NONE"), INSERT),
    "update, chosen columns": lambda: stated(CHOSEN, UPDATE),
    "truncate": lambda: stated(STATED["odd names"], Operation.TRUNCATE),
    "update by bitmap": lambda: stated(article(ORDERS), UPDATE, b"\\x06"),
    "update by bitmap, with key": lambda: stated(article(ORDERS), UPDATE, b"\\x03"),
    "custom procedure": lambda: stated(article(ORDERS, delete="XCALL my_delete"), DELETE),
    "many inserts": lambda: array_statement(article(ORDERS), INSERT, OTHERS),
    "many updates": lambda: array_statement(article(ORDERS), UPDATE, OTHERS),
    "many deletes": lambda: array_statement(article(LINES), DELETE, WrittenTable()),
    "copied rows": lambda: "\n".join(copying(article(ODD), "pg_temp.rows")),
}


@pytest.mark.parametrize("case", CASES)
def test_the_statement_is_the_golden_one(case: str) -> None:
    assert CASES[case]() == read_sections(GOLDEN)[case]


def test_every_golden_section_is_compared() -> None:
    assert list(read_sections(GOLDEN)) == list(CASES)


@pytest.mark.parametrize(
    ("operation", "command"),
    [
        (INSERT, "CALL"),
        (INSERT, "CALL my_insert"),
        (UPDATE, "CALL"),
        (UPDATE, "SCALL"),
        (UPDATE, "MCALL my_update"),
        (UPDATE, "XCALL"),
        (DELETE, "CALL"),
        (DELETE, "XCALL my_delete"),
    ],
)
def test_only_generated_calls_of_the_own_role_are_procedures(operation: Operation, command: str) -> None:
    made = {
        INSERT: article(ORDERS, insert=command if operation is INSERT else "SQL"),
        UPDATE: article(ORDERS, update=command if operation is UPDATE else "SQL"),
        DELETE: article(ORDERS, delete=command if operation is DELETE else "SQL"),
    }[operation]
    assert is_executed(made, operation, WrittenTable(), is_edited=False) is ("my_" in command)
    assert is_executed(made, operation, WrittenTable(), is_edited=True)
    assert is_executed(made, operation, OTHERS, is_edited=False)


@pytest.mark.parametrize(("delete", "is_called"), [("CALL", False), ("XCALL my_delete", True), ("SQL", False)])
def test_a_users_procedure_looks_for_its_rows_itself(delete: str, is_called: bool) -> None:  # noqa: FBT001
    assert is_checked(article(ORDERS, delete=delete), DELETE, is_edited=False) is not is_called
