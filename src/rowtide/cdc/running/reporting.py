"""What a run of capture reports, as events."""

from __future__ import annotations

from rowtide.cdc.capture.capture import CycleReport
from rowtide.cdc.ddl.retyping import WidenedTable
from rowtide.cdc.mending.requests import MendedTable
from rowtide.cdc.running.context import Watchers
from rowtide.cdc.snapshots.copies import SnapshotProgress
from rowtide.events.catalogue import ColumnsWidened, CopyAdvanced, CyclePublished, TableMended
from rowtide.events.emission import emit


def emitting(watchers: Watchers) -> Watchers:
    """Return watchers that emit an event for each report, and pass it on. Retries are events already: `run_agent`."""

    def on_cycle(report: CycleReport) -> None:
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

    return Watchers(on_cycle, watchers.on_retry, on_snapshot, on_widened, on_mended)


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
