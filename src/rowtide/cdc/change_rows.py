"""The DataFrames of one scan cycle: rows of change tables, and the cycle's transactions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.cdc.definitions import Instance
from rowtide.cdc.expressions import IMAGE, ROW_VERSION, change_row, record_row
from rowtide.cdc.lake_tables import LSN_TIME_MAPPING, arrow_schema
from rowtide.cdc.planning import CyclePlan, InstanceWork, Slice
from rowtide.core.lsn import Position
from rowtide.core.tables import TableShape
from rowtide.log.entries import Segment
from rowtide.log.membership import Heartbeat
from rowtide.log.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORD = (
    "commit_lsn bigint, commit_time timestamp, xid bigint, origin string, seqval bigint, operation tinyint, "
    "table_id int, image tinyint, before array<string>, after array<string>, absent binary, payload string"
)
"""`core.records.RECORD` in Spark's words; given, so that no job reads it from the files."""

_ONE_FILE_ROWS = 250_000


def changes(
    spark: SparkSession, store: Store, work: InstanceWork, from_position: Position, to_position: Position
) -> DataFrame:
    """Return the change table rows of an instance in [from, to), typed, in `change_columns`' order."""
    low = max(from_position.value, work.tenure.begin.value + 1)
    parts = [_slice_changes(spark, store, work, piece, low, to_position.value) for piece in work.slices]
    rows = reduce(lambda one, other: one.unionAll(other), parts)
    is_small = sum(piece.rows for piece in work.slices) <= _ONE_FILE_ROWS
    return rows.coalesce(1) if is_small else rows


def transactions(spark: SparkSession, store: Store, plan: CyclePlan, last_time_us: int | None) -> DataFrame:
    """Return the transactions with captured changes: start_lsn, tran_end_time, tran_id, tran_commit_time.

    Commit times are not monotone: `tran_end_time` is their running maximum in LSN order, on from `last_time_us`.
    """
    tables = sorted({piece.version.table_id for work in plan.work for piece in work.slices})
    lsns = ", ".join(str(lsn.value) for lsn in plan.event_lsns)
    conditions = [f"table_id in ({', '.join(map(str, tables))})"] if tables else []
    conditions += [f"commit_lsn in ({lsns})"] if lsns else []
    from pyspark.sql import functions

    records = _read(spark, store, plan.segments, plan.from_position.value, plan.to_position.value)
    grouped = records.where(" or ".join(conditions) or "false").groupBy("commit_lsn")
    floor = "null" if last_time_us is None else f"timestamp_micros({last_time_us})"
    running = "max(tran_commit_time) over (order by start_lsn)"
    return (
        grouped.agg(functions.min("commit_time"), functions.min("xid"))
        .toDF("start_lsn", "tran_commit_time", "tran_id")
        .selectExpr("*", f"greatest({running}, cast({floor} as timestamp)) as tran_end_time")
    )


def dummy_transaction(spark: SparkSession, heartbeat: Heartbeat) -> DataFrame:
    """Return the row that stands for a range without changes, in `transactions`' columns: tran_id 0."""
    time = heartbeat.committed_at
    row = {"start_lsn": heartbeat.commit_lsn.value, "tran_commit_time": time, "tran_id": 0, "tran_end_time": time}
    return spark.createDataFrame(pa.Table.from_pylist([row], schema=arrow_schema(LSN_TIME_MAPPING, *row)))


def _slice_changes(
    spark: SparkSession, store: Store, work: InstanceWork, piece: Slice, low: int, high: int
) -> DataFrame:
    records = _read(spark, store, piece.segments, low, high).where(f"table_id = {piece.version.table_id}")
    return as_change_rows(records, work.tenure.instance, piece.version.shape)


def as_change_rows(records: DataFrame, instance: Instance, shape: TableShape) -> DataFrame:
    """Return the change table rows of log records of one shape, in `change_columns`' order."""
    versions = records.selectExpr(*record_row(instance, shape)).selectExpr(*ROW_VERSION)
    return versions.selectExpr(*IMAGE).selectExpr(*change_row(instance, shape))


def _read(spark: SparkSession, store: Store, segments: Sequence[Segment], low: int, high: int) -> DataFrame:
    """Read the records with low <= commit_lsn < high; unfiltered where the segments hold no others.

    An LSN in the plan is new text in each cycle, for which Spark generates and compiles code anew.
    """
    records = spark.read.schema(_RECORD).parquet(*(store.url(segment.path) for segment in segments))
    if any(segment.first.value < low for segment in segments):
        records = records.where(f"commit_lsn >= {low}")
    if any(segment.last.value >= high for segment in segments):
        records = records.where(f"commit_lsn < {high}")
    return records
