"""Values from one lake type in another, asked of Spark: all in one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.cdc.ddl.type_changes import convert, is_misfit
from rowtide.databases.postgres.values import lake_type
from rowtide.lake.session import pinned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FITTING = [
    ("70000", "int", "bigint", "70000"),
    ("7", "bigint", "smallint", "7"),
    ("1.50", "decimal(9,2)", "numeric(5,1)", "1.5"),
    ("2.00", "decimal(9,2)", "integer", "2"),
    ("0.5", "double", "real", "0.5"),
    ("1", "int", "boolean", "true"),
    ("2026-01-02 00:00:00", "timestamp_ntz", "date", "2026-01-02"),
    ("2026-01-02", "date", "timestamp with time zone", "2026-01-02 00:00:00"),
    ("70000", "int", "text", "70000"),
    ("2026-01-02 03:04:05.5", "timestamp", "text", "2026-01-02 03:04:05.5+00"),
    ("12", "string", "integer", "12"),
    ("yes", "string", "boolean", "true"),
    ("2026-01-02", "string", "date", "2026-01-02"),
    ("\\xff00", "string", "bytea", "FF00"),
]
"""A value as text, its lake type, the type in the source by now, and the value in that."""
MISFITTING = [
    ("70000", "int", "smallint"),
    ("1.55", "decimal(9,2)", "numeric(5,1)"),
    ("2.50", "decimal(9,2)", "integer"),
    ("0.1", "double", "real"),
    ("2", "int", "boolean"),
    ("2026-01-02 03:00:00", "timestamp_ntz", "date"),
    ("a", "string", "integer"),
    ("a", "string", "boolean"),
    ("ff00", "string", "bytea"),
    ("2026-01-02", "date", "integer"),
    ("true", "boolean", "date"),
]


def test_values_that_fit_are_the_same_in_the_other_type(spark: SparkSession) -> None:
    pairs = [(f"cast('{_escaped(text)}' as {old})", old, lake_type(new)) for text, old, new, _ in FITTING]
    shown = [_shown(convert(value, old, new), new.name) for value, old, new in pairs]
    misfits = [is_misfit(value, old, new) for value, old, new in pairs]
    row = pinned(spark).range(1).selectExpr(*shown, *misfits).first()
    assert row is not None
    assert list(row[: len(pairs)]) == [wanted for *_, wanted in FITTING]
    assert list(row[len(pairs) :]) == [False] * len(pairs)


def test_values_that_would_not_be_the_same_do_not_fit(spark: SparkSession) -> None:
    misfits = [is_misfit(f"cast('{text}' as {old})", old, lake_type(new)) for text, old, new in MISFITTING]
    nulls = [is_misfit(f"cast(null as {old})", old, lake_type(new)) for _, old, new in MISFITTING]
    row = pinned(spark).range(1).selectExpr(*misfits, *nulls).first()
    assert row is not None
    assert list(row) == [True] * len(misfits) + [False] * len(nulls)


def test_a_binary_value_is_written_as_the_source_writes_it(spark: SparkSession) -> None:
    row = pinned(spark).range(1).selectExpr(convert("X'FF00'", "binary", lake_type("text"))).first()
    assert row is not None
    assert row[0] == "\\xff00"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\")


def _shown(value: str, type_name: str) -> str:
    return f"hex({value})" if type_name == "binary" else f"cast({value} as string)"
