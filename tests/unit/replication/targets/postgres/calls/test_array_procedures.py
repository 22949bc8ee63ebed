"""Array procedures: their names are nobody else's, `golden/array_procedures.sql` has what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.golden import read_sections
from builders.replication.articles import article
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.targets.postgres.calls import array_procedures
from rowtide.replication.targets.postgres.calls.array_procedures import array_call, name_of
from rowtide.replication.targets.postgres.calls.procedures import OPERATIONS
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable

GOLDEN = Path(__file__).with_name("golden") / "array_procedures.sql"
INSERT, UPDATE, DELETE = OPERATIONS
ORDERS = article(
    source_table(
        [("id", "integer"), ("at", "timestamp(3) with time zone"), ("tags", "text[]"), ("area", "box")],
        schema="sales",
        name="orders",
    )
)
PAIRS = article(source_table([("a", "integer"), ("b", "integer")], name="pairs", key=("b", "a")))


def creation(made: Article, operation: Operation) -> str | None:
    """Return the statement that makes a procedure; others set the path that it keeps, and say whose it is."""
    statements = array_procedures.creations(made, operation, WrittenTable())
    return next((one for one in statements if one.startswith("create")), None)


CASES: dict[str, Callable[[], str | None]] = {
    "insert": lambda: creation(ORDERS, INSERT),
    "insert, call": lambda: array_call(ORDERS, INSERT),
    "SCALL update": lambda: creation(ORDERS, UPDATE),
    "delete, composite key": lambda: creation(PAIRS, DELETE),
}


@pytest.mark.parametrize("case", CASES)
def test_the_procedure_is_the_golden_one(case: str) -> None:
    assert CASES[case]() == read_sections(GOLDEN)[case]


def test_nothing_is_made_for_an_update_of_nothing_but_a_key() -> None:
    assert creation(PAIRS, UPDATE) is None


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_name_is_that_of_a_single_call_of_another_table(operation: Operation) -> None:
    named_alike = article(source_table([("id", "integer")], schema="array", name="orders"))

    assert name_of(ORDERS, operation) != named_alike.generated_procedure(operation)


def test_long_name_is_cut_and_ends_with_part_of_the_article_id() -> None:
    long = replace(ORDERS, insert_procedure="sp_MSins_" + "ä" * 27)
    name = name_of(long, INSERT)

    assert len(name.encode()) <= 63
    assert name.endswith("ä_1f2e3d4c")
