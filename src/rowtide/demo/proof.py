"""Compare, row by row, a table's initial state plus captured changes with the source. In Spark, set-based."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.demo.errors import RowsDiffer
from rowtide.demo.reading import changes_of
from rowtide.demo.workload import KEYS, NULL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDER = "struct(`__$start_lsn`, `__$seqval`, `__$operation`)"
_IS_PRESENT = "`__$operation` in (2, 4)"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result for one table: the source's rows, and the number of rows on one side only (0: equal)."""

    table: str
    rows: int
    different_rows: int


def require_equal(comparisons: Sequence[Comparison]) -> None:
    """Raise `RowsDiffer` unless every table is equal."""
    different = [f"{found.different_rows} rows of {found.table}" for found in comparisons if found.different_rows]
    if different:
        raise RowsDiffer(", ".join(different))


def compare_tables(spark: SparkSession, lake: str, initial: Path, final: Path) -> Iterator[Comparison]:
    """Compare each table of the workload: `initial` plus all changes with `final`.

    Both folders have the tables as `Workload.copy_tables` wrote them.
    """
    for table, key in KEYS.items():
        changes = changes_of(spark, lake, table)
        columns = [(name, kind) for name, kind in changes.dtypes if not name.startswith("__$")]
        before, after = (_read_copy(spark, folder / f"{table}.csv", columns) for folder in (initial, final))
        expected = _replay(before, changes, key) if key is not None else _accumulate(before, changes)
        yield _compare(table, expected, after)


def _compare(table: str, expected: DataFrame, source: DataFrame) -> Comparison:
    """Compare multisets: rows with the number of `times` each is expected, and the source's rows."""
    columns = source.columns
    sides = expected.selectExpr(*columns, "times", "0L as present").unionAll(
        source.selectExpr(*columns, "-1L as times", "1L as present")
    )
    totals = sides.groupBy(*columns).sum("times", "present").toDF(*columns, "times", "present")
    found = totals.selectExpr("sum(present) as rows", "sum(abs(times)) as different").first()
    assert found is not None
    return Comparison(table, found["rows"] or 0, found["different"] or 0)


def _read_copy(spark: SparkSession, file: Path, columns: Sequence[tuple[str, str]]) -> DataFrame:
    texts = ", ".join(f"{name} string" for name, _ in columns)
    rows = spark.read.schema(texts).csv(
        file.as_uri(), header=True, escape='"', nullValue=NULL, emptyValue="", mode="FAILFAST"
    )
    return rows.selectExpr(*(f"cast({name} as {kind}) as {name}" for name, kind in columns))


def _replay(initial: DataFrame, changes: DataFrame, key: str) -> DataFrame:
    """Apply changes by key: the last change of a key replaces its row."""
    from pyspark.sql import functions

    columns = initial.columns
    version = functions.expr(f"max_by(struct(`__$operation`, {', '.join(columns)}), {_ORDER})")
    last = changes.groupBy(key).agg(version.alias("version")).select("version.*")
    untouched = initial.join(functions.broadcast(last.select(key)), key, "left_anti")
    return untouched.select(*columns).unionAll(last.where(_IS_PRESENT).select(*columns)).selectExpr("*", "1L as times")


def _accumulate(initial: DataFrame, changes: DataFrame) -> DataFrame:
    """Apply changes without a key, to a multiset: new versions are added, old ones subtracted."""
    columns = initial.columns
    versions = changes.selectExpr(*columns, f"if({_IS_PRESENT}, 1L, -1L) as times")
    return initial.selectExpr(*columns, "1L as times").unionAll(versions)
