"""The procedures as a DBA at the subscriber reads them; `golden/procedures.sql` holds what is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.golden import read_sections
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.databases.postgres.owner_functions import Owner
from rowtide.replication.articles.articles import Article
from rowtide.replication.targets.postgres.calls.procedures import call, creations, key_of, parameters_of, source
from rowtide.replication.targets.postgres.calls.written_table import ColumnEquality, Writer, WrittenTable


def creation(made: Article, operation: Operation) -> str | None:
    """Return the statement that makes a procedure; others set the path that it keeps, and say whose it is."""
    statements = creations(made, operation, WrittenTable())
    return next((one for one in statements if one.startswith("create")), None)


GOLDEN = Path(__file__).with_name("golden") / "procedures.sql"
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
PAIRS = source_table([("a", "integer"), ("b", "integer")], schema="sales", name="pairs", key=("b", "a"))
ODD = source_table(
    [('it\'s "the" $1', "text"), ("$$ $body$", "text"), ("c1", 'public."Größe"')],
    schema="Sales:eu",
    name='100% "O\'Brien" $body$',
    key=('it\'s "the" $1', "c1"),
)
NINE = source_table([(f"col{number}", "integer") for number in range(1, 10)], name="nine", key=("col9",))
EVENTS = source_table([("at", "timestamp with time zone"), ("what", "jsonb")], name="events", key=())

CASES: dict[str, Callable[[], str | None]] = {
    "insert": lambda: creation(article(ORDERS), INSERT),
    "insert, no key": lambda: creation(article(EVENTS, update="NONE", delete="NONE"), INSERT),
    "insert, chosen columns": lambda: creation(article(ORDERS, columns=("id", "note")), INSERT),
    "SCALL update": lambda: creation(article(ORDERS), UPDATE),
    "SCALL update, composite key": lambda: creation(article(LINES), UPDATE),
    "SCALL update, nothing but a key": lambda: creation(article(PAIRS), UPDATE),
    "SCALL update, nine columns": lambda: creation(article(NINE), UPDATE),
    "SCALL update, odd names": lambda: creation(article(ODD), UPDATE),
    "MCALL update": lambda: creation(article(ORDERS, update="MCALL"), UPDATE),
    "MCALL update, nothing but a key": lambda: creation(article(PAIRS, update="MCALL"), UPDATE),
    "CALL update": lambda: creation(article(ORDERS, update="CALL"), UPDATE),
    "CALL update, composite key": lambda: creation(article(LINES, update="CALL"), UPDATE),
    "XCALL update": lambda: creation(article(ORDERS, update="XCALL"), UPDATE),
    "XCALL update, composite key": lambda: creation(article(LINES, update="XCALL"), UPDATE),
    "CALL delete": lambda: creation(article(ORDERS), DELETE),
    "CALL delete, composite key": lambda: creation(article(LINES), DELETE),
    "CALL delete, odd names": lambda: creation(article(ODD), DELETE),
    "XCALL delete": lambda: creation(article(ORDERS, delete="XCALL"), DELETE),
    "XCALL delete, composite key": lambda: creation(article(LINES, delete="XCALL"), DELETE),
}


@pytest.mark.parametrize("case", CASES)
def test_the_procedure_is_the_golden_one(case: str) -> None:
    assert CASES[case]() == read_sections(GOLDEN)[case]


def test_every_golden_section_is_compared() -> None:
    assert list(read_sections(GOLDEN)) == list(CASES)


@pytest.mark.parametrize("operation", [INSERT, UPDATE, DELETE])
def test_no_procedure_for_sql_none_or_custom_commands(
    operation: Operation,
) -> None:
    for made in (
        article(ORDERS, insert="SQL", update="SQL", delete="SQL"),
        article(ORDERS, insert="NONE", update="NONE", delete="NONE"),
        article(ORDERS, insert="CALL my_insert", update="MCALL my_update", delete="XCALL my_delete"),
    ):
        assert creation(made, operation) is None


def test_procedure_has_the_name_stored_with_its_article() -> None:
    text = creation(article(ORDERS, taken=["sp_MSins_salesorders"]), INSERT)
    assert text is not None
    assert text.startswith('create or replace procedure "rowtide_subscriber"."sp_MSins_salesorders_1f2e3d4c"(')


COLUMNS = [("c1", "integer"), ("c2", "integer"), ("c3", "character varying(20)")]
OLD_COLUMNS = [(f"old_{name}", type_text) for name, type_text in COLUMNS]
OLD_KEY, BITMAP = ("pkc1", "integer"), ("bitmap", "bytea")


@pytest.mark.parametrize(
    ("made", "operation", "parameters"),
    [
        (article(ORDERS), INSERT, COLUMNS),
        (article(ORDERS, insert="SQL"), INSERT, COLUMNS),
        (article(ORDERS, update="CALL"), UPDATE, [*COLUMNS, OLD_KEY]),
        (article(ORDERS, update="SQL"), UPDATE, [*COLUMNS, OLD_KEY]),
        (article(ORDERS, update="SCALL"), UPDATE, [*COLUMNS, OLD_KEY, BITMAP]),
        (article(ORDERS, update="MCALL"), UPDATE, [*COLUMNS, OLD_KEY, BITMAP]),
        (article(ORDERS, update="XCALL"), UPDATE, [*OLD_COLUMNS, *COLUMNS]),
        (article(ORDERS, delete="CALL"), DELETE, [OLD_KEY]),
        (article(ORDERS, delete="SQL"), DELETE, [OLD_KEY]),
        (article(ORDERS, delete="XCALL"), DELETE, OLD_COLUMNS),
        (article(LINES), DELETE, [("pkc1", "bigint"), ("pkc2", "integer")]),
    ],
)
def test_parameters_are_the_documented_ones_in_order(
    made: Article, operation: Operation, parameters: Sequence[tuple[str, str]]
) -> None:
    assert list(parameters_of(made, operation)) == parameters


@pytest.mark.parametrize(
    ("made", "operation", "name", "parameters"),
    [
        (
            article(LINES),
            UPDATE,
            '"rowtide_subscriber"."sp_MSupd_saleslines"',
            "$1::integer, $2::numeric(10,2), $3::bigint, $4::bigint, $5::integer, $6::bytea",
        ),
        (article(LINES), DELETE, '"rowtide_subscriber"."sp_MSdel_saleslines"', "$1::bigint, $2::integer"),
    ],
)
def test_a_call_names_its_procedure_and_the_published_types(
    made: Article, operation: Operation, name: str, parameters: str
) -> None:
    assert call(made, operation) == f"call {name}({parameters})"


@pytest.mark.parametrize(
    ("made", "operation", "arguments", "key"),
    [
        (article(LINES), INSERT, [b"7", b"1.5", b"100"], "of_order = 100, line = 7"),
        (article(LINES), UPDATE, [b"8", None, None, b"100", b"7", b"\\x01"], "of_order = 100, line = 7"),
        (article(LINES, update="CALL"), UPDATE, [b"8", b"1", b"200", b"100", b"7"], "of_order = 100, line = 7"),
        (article(LINES, update="SQL"), UPDATE, [b"8", b"1", b"200", b"100", b"7"], "of_order = 100, line = 7"),
        (article(LINES, update="XCALL"), UPDATE, [b"7", b"1", b"100", b"8", b"2", b"200"], "of_order = 100, line = 7"),
        (article(LINES), DELETE, [b"100", b"7"], "of_order = 100, line = 7"),
        (article(LINES, delete="XCALL"), DELETE, [b"7", b"1", b"100"], "of_order = 100, line = 7"),
        (article(ORDERS), DELETE, ["é".encode()], "id = é"),
        (article(ORDERS), DELETE, [None], "id = NULL"),
        (article(ORDERS), DELETE, [b"\xff"], "id = \N{REPLACEMENT CHARACTER}"),
        (article(EVENTS, update="NONE", delete="NONE"), INSERT, [b"now", b"{}"], ""),
        (article(ORDERS), Operation.TRUNCATE, [], "any"),
    ],
)
def test_the_key_of_a_call_is_its_rows_before_the_change(
    made: Article, operation: Operation, arguments: Sequence[bytes | None], key: str
) -> None:
    assert key_of(made, operation, arguments) == key


def test_a_procedure_says_whose_it_is() -> None:
    made = article(ORDERS)
    assert creations(made, INSERT, WrittenTable())[-1] == (
        f'comment on procedure "rowtide_subscriber"."sp_MSins_salesorders" is \'rowtide: article {made.article_id}\''
    )


def test_keys_are_compared_by_the_operators_of_their_index() -> None:
    table = WrittenTable(None, {"id": ColumnEquality("operator(public.=)", "public.citext")})

    assert 't."id" operator(public.=) pkc1::public.citext;' in source(article(ORDERS), DELETE, table)


def test_a_table_of_another_role_has_no_procedures() -> None:
    owner = Owner(16384, "app", is_trusted=False, is_held=True)
    table = WrittenTable(Writer(owner, owner.executing, owner.querying, is_other=True))

    assert creations(article(ORDERS), INSERT, table) == []
