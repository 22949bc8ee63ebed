"""What is asked of a publisher and made at a subscriber for a snapshot; `golden/snapshots.sql` is what is expected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.golden import read_sections
from builders.replication.articles import ANOTHER_ID, article
from rowtide.copying.chunks import Chunk, CopyForm, copying, copying_row, halving, locating, locking, sampling
from rowtide.databases.source_table import TableKind
from rowtide.replication.articles.articles import GeneratedColumn, as_copied
from rowtide.replication.snapshot.table_details import ForeignKey, TableDetails, UniqueConstraint
from rowtide.replication.subscription_settings import IfExists
from rowtide.replication.targets.postgres.schema.tables import clear_tables, constrain, create_table

GOLDEN = Path(__file__).with_name("golden") / "snapshots.sql"
ORDERS = article(
    source_table(
        [("id", "integer"), ("customer", "character varying(20)"), ("note", "text")], schema="sales", name="orders"
    )
)
LINES = article(
    source_table(
        [("line", "integer"), ("it's 100%", "numeric(10,2)"), ("of_order", "bigint"), ("with_order", "bigint")],
        schema="sales",
        name="lines",
        key=("of_order", "line"),
        source_id=16390,
    ),
    article_id=ANOTHER_ID,
)
PARTS = article(source_table(name="parts", kind=TableKind.PARTITIONED), update="SCALL")
FILTERED = article(source_table([("id", "integer"), ("kind", "text")], name="kinds"), where="kind <> 'x'")
NOTHING = TableDetails({}, (), (), ())
ORDER_DETAILS = TableDetails(
    {"note": 'pg_catalog."C"'},
    (GeneratedColumn(4, "length", "integer", "length(note)"),),
    (UniqueConstraint("one_customer", ("customer", "id"), "UNIQUE (customer, id)", is_deferrable=False),),
    (),
)
LINE_DETAILS = TableDetails(
    {},
    (),
    (),
    (
        ForeignKey("to_order", ("of_order",), ORDERS.source_id, ("id",)),
        ForeignKey("to_note", ("with_order",), ORDERS.source_id, ("note",)),
        ForeignKey("to_others", ("with_order",), 99, ("id",)),
    ),
)
MIDDLE = Chunk(ANOTHER_ID, 1, ("5", "it's \\ 1"), ("9", "2"))
CASES: dict[str, Callable[[], str]] = {
    "table": lambda: create_table(ORDERS, ORDER_DETAILS),
    "table, composite key": lambda: create_table(LINES, LINE_DETAILS),
    "constraints": lambda: ";\n".join(text for _, text in constrain([(ORDERS, ORDER_DETAILS), (LINES, LINE_DETAILS)])),
    "truncate": lambda: "; ".join(clear_tables([ORDERS, LINES], IfExists.TRUNCATE, are_referenced=False)),
    "drop": lambda: "; ".join(clear_tables([ORDERS, LINES], IfExists.DROP, are_referenced=False)),
    "delete": lambda: "; ".join(clear_tables([ORDERS, LINES], IfExists.DELETE, are_referenced=True)),
    "lock": lambda: locking(as_copied(ORDERS)),
    "lock, partitioned": lambda: locking(as_copied(PARTS)),
    "sample": lambda: sampling(as_copied(LINES), 12.5, 4),
    "copy, all": lambda: copying(as_copied(ORDERS), Chunk("", 0, None, None)),
    "copy, chunk": lambda: copying(as_copied(LINES), MIDDLE),
    "copy, but for rows": lambda: copying(as_copied(LINES), MIDDLE, CopyForm.CSV, but_for=[("6", "1"), ("6", "it's")]),
    "copy, one row": lambda: copying_row(as_copied(LINES), ("6", "it's"), {"line", "of_order"}, CopyForm.CSV),
    "copy, half": lambda: halving(as_copied(LINES), MIDDLE),
    "copy, filtered": lambda: copying(as_copied(FILTERED), Chunk("", 0, None, ("7",))),
    "locate": lambda: locating(as_copied(LINES)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_statement_is_the_golden_one(case: str) -> None:
    assert CASES[case]().strip("\n") == read_sections(GOLDEN)[case]


def test_every_golden_section_is_compared() -> None:
    assert list(read_sections(GOLDEN)) == list(CASES)


@pytest.mark.parametrize("if_exists", [IfExists.FAIL, IfExists.KEEP])
def test_tables_that_are_kept_are_not_touched(if_exists: IfExists) -> None:
    assert clear_tables([ORDERS], if_exists, are_referenced=True) == []


def test_tables_that_others_reference_are_not_truncated() -> None:
    deletes = clear_tables([ORDERS, LINES], IfExists.DELETE, are_referenced=True)

    assert clear_tables([ORDERS, LINES], IfExists.TRUNCATE, are_referenced=True) == deletes
    assert len(deletes) == 2


@pytest.mark.parametrize("if_exists", IfExists)
def test_no_tables_are_cleared_by_no_statement(if_exists: IfExists) -> None:
    assert clear_tables([], if_exists, are_referenced=False) == []


def test_foreign_key_to_filtered_rows_is_left_out() -> None:
    filtered = replace(ORDERS, filter_clause="id > 1")

    assert constrain([(filtered, NOTHING), (LINES, LINE_DETAILS)]) == []
