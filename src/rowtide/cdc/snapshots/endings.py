"""How snapshots end: covered, void, or to begin again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import replace

from rowtide.cdc.recorded_snapshots import RecordedSnapshot, SnapshotState
from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest
from rowtide.cdc.snapshots.chunk_copies import remove_void
from rowtide.cdc.snapshots.copies import TableCopy
from rowtide.cdc.snapshots.progress import SnapshotProgress
from rowtide.cdc.snapshots.request_reports import RequestReports
from rowtide.cdc.snapshots.snapshots_table import SnapshotsTable
from rowtide.copying.errors import CopiedTableDropped
from rowtide.core.errors import RowtideError

log = logging.getLogger("rowtide.snapshots")


class SnapshotEndings:
    """Ends copies, and takes them out of those that are worked on, which are known by their requests.

    `begins_again` is set when a request is to be taken up again.
    """

    def __init__(
        self,
        copies: dict[int, TableCopy],
        snapshots: SnapshotsTable,
        reports: RequestReports,
        on_report: Callable[[SnapshotProgress], None],
    ) -> None:
        self.begins_again = False
        self._copies = copies
        self._snapshots = snapshots
        self._reports = reports
        self._on_report = on_report

    def finish(self, copy: TableCopy) -> None:
        """End a snapshot that is covered."""
        report, outcome = copy.report(), _describe_lacking(copy.lacking)
        self._reports.finish(copy.request, RequestState.FINISHED, outcome, report)
        self._drop(copy)
        self._on_report(replace(report, message=outcome or "all rows are copied", is_finished=True))

    def begin_again(self, copy: TableCopy, reason: str) -> None:
        """Void a snapshot; its request is taken up again."""
        self._void(copy)
        self._drop(copy)
        self.begins_again = True
        message = f"it begins again: {reason}"
        self._reports.note_again(copy, message)
        self._on_report(replace(copy.report(), message=message))

    def fail(self, copy: TableCopy, error: RowtideError) -> None:
        """End a snapshot that cannot be made."""
        state = RequestState.CANCELLED if isinstance(error, CopiedTableDropped) else RequestState.FAILED
        log.warning("snapshot_failed: %s: %s", copy.instance.capture_instance, error)
        self.end(copy, state, str(error))

    def end(self, copy: TableCopy, state: RequestState, outcome: str) -> None:
        """Void a snapshot, and end its request."""
        self._void(copy)
        self._reports.finish(copy.request, state, outcome)
        self._drop(copy)
        self._on_report(replace(copy.report(), message=outcome, is_finished=True))

    def _void(self, copy: TableCopy) -> None:
        """Cancel a snapshot in the lake, and remove its rows."""
        copy.throttle.set(None, is_stopped=True)
        wait(copy.running.values())
        copy.running.clear()
        if copy.snapshot is not None:
            self._void_recorded(copy.snapshot)

    def _void_recorded(self, snapshot: RecordedSnapshot) -> None:
        self._snapshots.record([replace(snapshot, state=SnapshotState.CANCELLED)])
        remove_void(self._snapshots.lake, [snapshot], self._snapshots.lease)

    def cancel(self, request: SnapshotRequest, last: RecordedSnapshot | None) -> None:
        """Cancel what no copy works on."""
        if last is not None and last.state is SnapshotState.PLANNED:
            self._void_recorded(last)
        self._reports.finish(request, RequestState.CANCELLED, "cancelled")

    def _drop(self, copy: TableCopy) -> None:
        copy.session.close()
        self._copies.pop(copy.request.request_id, None)


def _describe_lacking(rows: int) -> str | None:
    """Return what a complete snapshot lacks."""
    return f"{rows} rows lack values that could not be copied, marked in __$absent_mask" if rows else None
