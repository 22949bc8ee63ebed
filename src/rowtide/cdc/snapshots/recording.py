"""What is recorded of snapshots: their states in the lake, reports in their requests, and both as a copy ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, func

from rowtide.cdc.lake_lease import SharedLease
from rowtide.cdc.published import SNAPSHOTS, system_table_path
from rowtide.cdc.recorded_snapshots import TABLE, RecordedSnapshot, SnapshotState, encode_definition
from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest, list_requests, note
from rowtide.cdc.snapshots import chunk_copies
from rowtide.cdc.snapshots.table_copy import SnapshotProgress, TableCopy
from rowtide.cdc.system_tables import rows_of
from rowtide.copying.errors import CopiedTableDropped
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.errors import translated
from rowtide.delta.errors import AppendNotFound
from rowtide.delta.writing.commits import Committer
from rowtide.events import catalogue as events
from rowtide.events.event import emit
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable, append_small


@dataclass(slots=True)
class SnapshotsTable:
    """Writes the table of one lake, under one source's identity."""

    lake: str
    source_id: str
    lease: SharedLease
    committer: Committer
    _last: int | None = None

    def _open(self) -> int:
        """Create the table if it is not there; return the number of its last event."""
        tables.ensure_table(self._path, SNAPSHOTS, identity=self._identity, before_commit=self.lease.require)
        table = SmallTable.open(self._path)
        return table.read_latest_cycle() if table is not None else 0

    def record(self, snapshots: Sequence[RecordedSnapshot]) -> None:
        """Append the present states of snapshots as events, all at once. Raises `LeaseLost`."""
        if not snapshots:
            return
        self.lease.require()
        failpoint("snapshot_event.before")
        while True:
            number = (self._open() if self._last is None else self._last) + 1
            rows = rows_of(SNAPSHOTS, [self._row(number, one) for one in snapshots])
            try:
                is_new = append_small(self.committer, rows, self._path, identity=self._identity, cycle=number)
            except AppendNotFound:
                is_new = False
            if is_new:
                self._last = number
                break
            # Another process held the lake in between, or the reply to this one's commit was lost.
            self.lease.require()
            self._last = None
        failpoint("snapshot_event.after")

    def _row(self, number: int, snapshot: RecordedSnapshot) -> dict[str, object]:
        return {
            "cycle": number,
            "snapshot": snapshot.number,
            "capture_instance": snapshot.capture_instance,
            "member_id": snapshot.member_id,
            "state": snapshot.state.value,
            "begin_lsn": snapshot.begin.value,
            "covered_lsn": snapshot.covered.value if snapshot.covered is not None else None,
            "is_whole": snapshot.is_whole,
            "definition": encode_definition(snapshot.definition),
            "recorded_at": datetime.now(UTC),
            "token": self.lease.token,
            "host": tables.host_name(),
        }

    @property
    def _path(self) -> str:
        return system_table_path(self.lake, TABLE)

    @property
    def _identity(self) -> str:
        return f"{self.source_id}:{TABLE}"


class RequestReports:
    """Reads and writes requests on one connection, which is opened when it is needed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def list_open(self) -> Sequence[SnapshotRequest]:
        """Return the requests that are still to be carried out."""
        with translated():
            return list_requests(self._connect(), only_open=True)

    def note_planned(self, copy: TableCopy) -> None:
        """Note that a copy has begun."""
        self._note(copy, state=RequestState.COPYING.value, began_at=func.now())

    def note_again(self, copy: TableCopy, outcome: str) -> None:
        """Note that a copy begins again."""
        state = RequestState.REQUESTED.value
        self._note(copy, state=state, outcome=outcome, chunks=0, copied_rows=0, copied_bytes=0)

    def note_progress(self, copy: TableCopy, report: SnapshotProgress) -> None:
        """Note how far a copy is, and what it waits for."""
        self._note(copy, **_progress_values(report), outcome=copy.message)

    def finish(
        self,
        request: SnapshotRequest,
        state: RequestState,
        outcome: str | None = None,
        report: SnapshotProgress | None = None,
    ) -> None:
        """Note that nothing is left to be done for a request."""
        values = _progress_values(report) if report is not None else {}
        values |= {"state": state.value, "outcome": outcome, "finished_at": func.now()}
        # The request is only a report; the lake has the snapshot's state by now. After a crash, a repeat finds it there
        # and ends the request.
        failpoint("snapshot_request.before")
        with translated():
            note(self._connect(), request.request_id, **values)
        failpoint("snapshot_request.after")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _note(self, copy: TableCopy, **values: object) -> None:
        if copy.snapshot is not None:
            definition = copy.snapshot.definition
            values = {
                "snapshot": copy.snapshot.number,
                "of_chunks": definition.of_chunks,
                "estimated_rows": definition.rows,
                "estimated_bytes": definition.size,
                **values,
            }
        with translated():
            note(self._connect(), copy.request.request_id, **values)

    def _connect(self) -> Connection:
        if self._connection is None:
            # Autocommit: an open transaction would hold back vacuum as long as copies run.
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection


def _progress_values(report: SnapshotProgress) -> dict[str, object]:
    return {
        "chunks": report.chunks,
        "copied_rows": report.rows,
        "copied_bytes": report.size,
        "rows_a_second": report.rows_a_second,
    }


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
        emit(events.CopyFailed(copy.instance.capture_instance, error))
        self.end(copy, state, str(error))

    def end(self, copy: TableCopy, state: RequestState, outcome: str) -> None:
        """Void a snapshot, and end its request."""
        # The lake first: if the request ended while its snapshot is still planned, its rows would count.
        self._void(copy)
        self._reports.finish(copy.request, state, outcome)
        self._drop(copy)
        self._on_report(replace(copy.report(), message=outcome, is_finished=True))

    def _void(self, copy: TableCopy) -> None:
        """Cancel a snapshot in the lake, and remove its rows."""
        copy.throttle.set(None, is_stopped=True)
        # Wait for the threads, because one that still writes a chunk would add files after their removal.
        wait(copy.running.values())
        copy.running.clear()
        if copy.snapshot is not None:
            self._void_recorded(copy.snapshot)

    def _void_recorded(self, snapshot: RecordedSnapshot) -> None:
        self._snapshots.record([replace(snapshot, state=SnapshotState.CANCELLED)])
        chunk_copies.remove_void(self._snapshots.lake, [snapshot], self._snapshots.lease)

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
