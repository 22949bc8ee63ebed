"""The change rows of one scan cycle, as DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from rowtide.cdc.capture.planning import InstanceWork, Slice
from rowtide.cdc.definitions import Instance
from rowtide.cdc.rows.expressions import row_stages
from rowtide.core.lsn import Position
from rowtide.core.tables import TableShape
from rowtide.lake.views import named
from rowtide.log.entries import Segment
from rowtide.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORD = (
    "commit_lsn bigint, commit_time timestamp, xid bigint, origin string, seqval bigint, operation tinyint, "
    "table_id int, image tinyint, before array<string>, after array<string>, absent binary, payload string"
)
"""`core.records.RECORD` as a Spark schema; given, so that no job reads it from the files."""

_ONE_FILE_ROWS = 250_000


def changes(
    spark: SparkSession, store: Store, work: InstanceWork, from_position: Position, to_position: Position
) -> DataFrame:
    """Return the change table rows of an instance in [from, to), typed, in `change_columns`' order."""
    low = max(from_position.value, work.lifetime.begin.value + 1)
    parts = [_slice_changes(spark, store, work, piece, low, to_position.value) for piece in work.slices]
    rows = reduce(lambda one, other: one.unionAll(other), parts)
    is_small = sum(piece.rows for piece in work.slices) <= _ONE_FILE_ROWS
    return rows.coalesce(1) if is_small else rows


def _slice_changes(
    spark: SparkSession, store: Store, work: InstanceWork, piece: Slice, low: int, high: int
) -> DataFrame:
    records = _read(spark, store, piece.segments, low, high).where(f"table_id = {piece.version.table_id}")
    return as_change_rows(records, work.lifetime.instance, piece.version.shape)


def as_change_rows(records: DataFrame, instance: Instance, shape: TableShape) -> DataFrame:
    """Return the change table rows of log records of one shape, in `change_columns`' order."""
    with named(records) as rows:
        # One statement: Spark analyses it once, where a DataFrame for each stage would be analysed by itself.
        return records.sparkSession.sql(reduce(_select_from, row_stages(instance, shape), rows))


def _select_from(rows: str, stage: Sequence[str]) -> str:
    source = rows if rows.isidentifier() else f"({rows})"
    return f"select {', '.join(stage)} from {source}"


def _read(spark: SparkSession, store: Store, segments: Sequence[Segment], low: int, high: int) -> DataFrame:
    """Read the records with low <= commit_lsn < high; without a filter if the segments hold no others.

    An LSN in the plan is new text in each cycle, for which Spark generates and compiles code again.
    """
    records = spark.read.schema(_RECORD).parquet(*(store.url(segment.path) for segment in segments))
    if any(segment.first.value < low for segment in segments):
        records = records.where(f"commit_lsn >= {low}")
    if any(segment.last.value >= high for segment in segments):
        records = records.where(f"commit_lsn < {high}")
    return records
