"""The context of a run of capture or of the jobs, created at its start and passed as a whole.

A new option of a run is a field here. An agent within the run gets the context with its own `stop` and watchers, by
`dataclasses.replace`. `Capture` and `SnapshotRunner` get the values that they need, not the context; a value that only
one function needs is an argument of that function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from rowtide.agents.loop import OnRetry, ignore
from rowtide.cdc.capture.capture import CycleReport
from rowtide.cdc.ddl.retyping import WidenedTable
from rowtide.cdc.scans.pace import USUAL, CaptureOptions
from rowtide.cdc.snapshots.table_copy import SnapshotProgress
from rowtide.cdc.widening_removal import MendedTable
from rowtide.core.values import frozen
from rowtide.events.catalogue import (
    ColumnsWidened,
    CopyAdvanced,
    CyclePublished,
    RowsCaptured,
    TableMended,
)
from rowtide.events.event import emit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@frozen
class CaptureWatchers:
    """Called from the threads of a run: at each cycle, at each retry, as the copy of a table advances, before a table
    gets wider types, and as one is mended.
    """

    on_cycle: Callable[[CycleReport], None] = ignore
    on_retry: OnRetry = ignore
    on_snapshot: Callable[[SnapshotProgress], None] = ignore
    on_widened: Callable[[WidenedTable], None] = ignore
    on_mended: Callable[[MendedTable], None] = ignore


@frozen
class CaptureContext:
    """One run on one database; `stop` ends it. With `has_run`, outages are waited out from the beginning.

    `make_spark` is called when Spark is needed.
    """

    url: str
    make_spark: Callable[[], SparkSession]
    stop: threading.Event = field(default_factory=threading.Event)
    watchers: CaptureWatchers = field(default_factory=CaptureWatchers)
    options: CaptureOptions = USUAL
    has_run: bool = False
    copies_tables: bool = True
    """Whether snapshots that are requested are copied beside capture."""


def emitting(watchers: CaptureWatchers) -> CaptureWatchers:
    """Return watchers that emit an event for each report, and pass it on. Retries are events already: `run_agent`."""

    def on_cycle(report: CycleReport) -> None:
        for one in report.changes:
            emit(RowsCaptured(one.capture_instance, one.inserts, one.updates, one.deletes))
        emit(_published(report))
        watchers.on_cycle(report)

    def on_snapshot(report: SnapshotProgress) -> None:
        emit(_copied(report))
        watchers.on_snapshot(report)

    def on_widened(table: WidenedTable) -> None:
        names, types = zip(*table.columns, strict=True)
        emit(ColumnsWidened(table.capture_instance, table.path, names, types, table.size, table.is_rewritten))
        watchers.on_widened(table)

    def on_mended(table: MendedTable) -> None:
        files = table.files, table.read_bytes, table.written_bytes
        emit(TableMended(table.capture_instance, table.path, table.was_marked, *files))
        watchers.on_mended(table)

    return CaptureWatchers(on_cycle, watchers.on_retry, on_snapshot, on_widened, on_mended)


def _published(report: CycleReport) -> CyclePublished:
    return CyclePublished(
        cycle=report.cycle,
        lsn=report.to_position,
        instances=report.instances,
        transactions=report.figures.tran_count,
        rows=report.figures.command_count,
        seconds=report.seconds,
        is_heartbeat=report.is_heartbeat,
    )


def _copied(report: SnapshotProgress) -> CopyAdvanced:
    return CopyAdvanced(
        instance=report.capture_instance,
        chunks=report.chunks,
        of_chunks=report.of_chunks,
        rows=report.rows,
        estimated_rows=report.estimated_rows,
        size_bytes=report.size,
        rows_per_second=report.rows_a_second,
        remaining_s=report.remaining_s,
        message=report.message,
        is_finished=report.is_finished,
    )
