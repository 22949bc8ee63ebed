"""The statements in the place of procedures, and which are run; `golden/statements.sql` holds what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.golden import read_sections
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.targets.postgres.calls.procedures import call
from rowtide.replication.targets.postgres.calls.statements import statement

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
CASES = {
    **{
        f"{operation.name.lower()}, {name}": statement(made, operation)
        for name, made in STATED.items()
        for operation in (INSERT, UPDATE, DELETE)
    },
    "insert, no key": statement(article(EVENTS, insert="SQL", update="NONE", delete="NONE"), INSERT),
    "update, chosen columns": statement(CHOSEN, UPDATE),
    "truncate": statement(STATED["odd names"], Operation.TRUNCATE),
}


@pytest.mark.parametrize("case", CASES)
def test_the_statement_is_the_golden_one(case: str) -> None:
    assert CASES[case] == read_sections(GOLDEN)[case]


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
def test_for_every_other_format_the_procedure_is_called(operation: Operation, command: str) -> None:
    made = {
        INSERT: article(ORDERS, insert=command if operation is INSERT else "SQL"),
        UPDATE: article(ORDERS, update=command if operation is UPDATE else "SQL"),
        DELETE: article(ORDERS, delete=command if operation is DELETE else "SQL"),
    }[operation]
    assert statement(made, operation) == call(made, operation)


@pytest.mark.parametrize("delete", ["CALL", "XCALL my_delete", "SQL"])
def test_a_truncate_is_a_statement_whatever_deletes_are(delete: str) -> None:
    assert (
        statement(article(ORDERS, delete=delete), Operation.TRUNCATE)
        == 'select rowtide_subscriber."sp_MStruncate"(\'"sales"."orders"\')'
    )
