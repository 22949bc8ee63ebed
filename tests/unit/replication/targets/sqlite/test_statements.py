"""The statements that stand in for procedures in a SQLite file; `golden/statements.sql` holds what is expected.

Behind each, a comment lists the places of its arguments in the call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.golden import read_sections
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.targets.sqlite.statements import bitmap_of, describe_key, split, statement

GOLDEN = Path(__file__).with_name("golden") / "statements.sql"
INSERT, UPDATE, DELETE, TRUNCATE = Operation.INSERT, Operation.UPDATE, Operation.DELETE, Operation.TRUNCATE

ORDERS = source_table(
    [("id", "integer"), ("quantity", "integer"), ("note", "character varying(20)")], schema="sales", name="orders"
)
LINES = source_table(
    [("line", "integer"), ("quantity", "numeric(10,2)"), ("of_order", "text")],
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
NINE = source_table([(f"col{number}", "integer") for number in range(1, 10)], name="nine", key=("col9",))
PAIRS = source_table([("a", "integer"), ("b", "integer")], schema="sales", name="pairs", key=("b", "a"))


def text_of(made: Article, operation: Operation, bitmap: bytes | None = None) -> str:
    chosen = statement(made, operation, bitmap)
    return f"{chosen.sql} -- {', '.join(str(parameter.place) for parameter in chosen.parameters)}".rstrip()


CASES: dict[str, Callable[[], str]] = {
    "insert": lambda: text_of(article(ORDERS), INSERT),
    "insert, chosen columns": lambda: text_of(article(ORDERS, columns=("id", "note")), INSERT),
    "SCALL update of one column": lambda: text_of(article(ORDERS), UPDATE, b"\\x02"),
    "SCALL update of all columns": lambda: text_of(article(ORDERS), UPDATE, b"\\x07"),
    "SCALL update of no column": lambda: text_of(article(ORDERS), UPDATE, b"\\x00"),
    "SCALL update of no column, nothing but a key": lambda: text_of(article(PAIRS), UPDATE, b"\\x00"),
    "SCALL update of the key, composite key": lambda: text_of(article(LINES), UPDATE, b"\\x04"),
    "SCALL update of the ninth column": lambda: text_of(article(NINE), UPDATE, b"\\x0001"),
    "SCALL update, odd names": lambda: text_of(article(ODD), UPDATE, b"\\x03"),
    "MCALL update of one column": lambda: text_of(article(LINES, update="MCALL"), UPDATE, b"\\x02"),
    "CALL update": lambda: text_of(article(LINES, update="CALL"), UPDATE),
    "SQL update": lambda: text_of(article(LINES, update="SQL"), UPDATE),
    "XCALL update": lambda: text_of(article(LINES, update="XCALL"), UPDATE),
    "CALL delete": lambda: text_of(article(LINES), DELETE),
    "SQL delete": lambda: text_of(article(LINES, delete="SQL"), DELETE),
    "XCALL delete": lambda: text_of(article(LINES, delete="XCALL"), DELETE),
    "truncate": lambda: text_of(article(ODD), TRUNCATE),
}


@pytest.mark.parametrize("case", CASES)
def test_the_statement_is_the_golden_one(case: str) -> None:
    assert CASES[case]() == read_sections(GOLDEN)[case]


def test_every_golden_section_is_compared() -> None:
    assert list(read_sections(GOLDEN)) == list(CASES)


def test_arguments_become_values_in_the_statements_order() -> None:
    chosen = statement(article(LINES), UPDATE, b"\\x06")

    assert chosen.bind([None, b"1.10", None, b"o7", b"3", b"\\x06"]) == ["1.10", None, "o7", 3]


@pytest.mark.parametrize(
    ("operation", "update", "expected"),
    [(UPDATE, "SCALL", b"\\x02"), (UPDATE, "MCALL", b"\\x02"), (UPDATE, "CALL", None), (INSERT, "SCALL", None)],
)
def test_the_bitmap_is_found_where_the_format_has_one(
    operation: Operation, update: str, expected: bytes | None
) -> None:
    assert bitmap_of(article(ORDERS, update=update), operation, [b"1", b"2", b"3", b"1", b"\\x02"]) == expected


@pytest.mark.parametrize(
    ("made", "operation", "arguments", "key"),
    [
        (article(LINES), INSERT, [b"3", b"1.10", b"o7"], "of_order = o7, line = 3"),
        (article(LINES), UPDATE, [None, b"2", None, b"o7", b"3", b"\\x02"], "of_order = o7, line = 3"),
        (article(LINES, update="XCALL"), UPDATE, [b"3", b"1", b"o7", b"4", b"1", b"o8"], "of_order = o7, line = 3"),
        (article(LINES), DELETE, [b"o7", b"3"], "of_order = o7, line = 3"),
        (article(LINES, delete="XCALL"), DELETE, [b"3", b"1", b"\xff"], "of_order = \ufffd, line = 3"),
        (article(LINES), TRUNCATE, [], "any"),
    ],
)
def test_the_key_that_a_call_is_about_is_reported(
    made: Article, operation: Operation, arguments: list[bytes | None], key: str
) -> None:
    assert describe_key(made, operation, arguments) == key


def test_a_truncate_alone_is_not_about_one_row() -> None:
    made = article(ORDERS, update="CALL")

    assert [statement(made, operation).is_for_one_row for operation in (INSERT, UPDATE, DELETE, TRUNCATE)] == [
        *[True] * 3,
        False,
    ]


TRIGGER = "create trigger t after insert on a begin insert into b values (';'); select 1; end"


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("select 1", ["select 1"]),
        ("select 1;;\n;select ';'; ", ["select 1", "select ';'"]),
        (f"select 1; {TRIGGER}; select 2", ["select 1", TRIGGER, "select 2"]),
        ("select 1; -- nothing; more\n", ["select 1", "-- nothing; more"]),
        ("", []),
    ],
)
def test_semicolons_within_a_statement_do_not_end_it(script: str, statements: list[str]) -> None:
    assert [statement.strip() for statement in split(script)] == statements
