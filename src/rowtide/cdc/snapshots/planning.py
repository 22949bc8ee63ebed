"""How snapshots begin and end: what they wait for, their chunks, and what requests and the lake record of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import numpy as np
from sqlalchemy import Connection, Engine, func

from rowtide.cdc.errors.capturing import CopyBroken
from rowtide.cdc.lake_lease import SharedLease
from rowtide.cdc.published import SNAPSHOTS, system_table_path
from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest, list_requests, note
from rowtide.cdc.snapshots import chunk_copies
from rowtide.cdc.snapshots.copies import SnapshotProgress, TableCopy
from rowtide.cdc.system_tables import (
    TABLE,
    RecordedSnapshot,
    SnapshotDefinition,
    SnapshotState,
    encode_definition,
    rows_of,
)
from rowtide.copying.chunks import Key, TransactionSnapshot, format_snapshot
from rowtide.copying.errors import CopiedTableDropped
from rowtide.copying.present_tables import PresentTable
from rowtide.copying.source import PostgresCopySource
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.delta.errors import AppendNotFound
from rowtide.delta.writing.commits import Committer
from rowtide.events import catalogue as events
from rowtide.events.event import emit, format_places
from rowtide.lake import tables
from rowtide.lake.tables import SmallTable, append_small
from rowtide.log.errors import LeaseLost


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
            # Another process had the lake in between, or this one did not learn of its own commit.
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
        # The request is only a report; what counts is recorded in the lake by now. A repeat finds the snapshot there,
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
            # No transaction stays open between two looks: it would hold back vacuum for as long as copies run.
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection


def _progress_values(report: SnapshotProgress) -> dict[str, object]:
    return {
        "chunks": report.chunks,
        "copied_rows": report.rows,
        "copied_bytes": report.size,
        "rows_a_second": report.rows_a_second,
    }


THREAD = "rowtide-snapshot-plan"


@frozen
class Beginning:
    """Snapshots whose log mark is set: what was visible before it, and which transactions ran after it.

    They wait for these transactions (None: no longer), and until `not_before` of the monotonic clock.
    """

    begin: CommitLsn
    before: TransactionSnapshot
    running: TransactionSnapshot | None
    copies: tuple[TableCopy, ...]
    not_before: float = 0.0


Planned: TypeAlias = "SnapshotDefinition | RowtideError | chunk_copies.CopyOutdated | None"
"""How a table is copied; None if a session for it is not free yet."""


@dataclass(slots=True)
class SnapshotPlanner:
    """Plans the snapshots of one lake. `epoch` is that of the log's positions."""

    source: PostgresCopySource
    lake: str
    lease: SharedLease
    epoch: int
    limits: chunk_copies.CopyLimits
    _sessions: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._sessions = threading.Semaphore(self.limits.workers)

    def begin(self, copies: Sequence[TableCopy]) -> Beginning:
        """Mark the log below snapshots."""
        # Two transaction snapshots around the mark: what the first sees is below it. What was running at the second may
        # be below it in the log and still invisible, so copying waits for that.
        before = self.source.take_snapshot()
        begin = CommitLsn.of(self.epoch, self.source.mark())
        return Beginning(begin, before, self.source.take_snapshot(), tuple(copies))

    def find_unfinished(self, beginning: Beginning) -> Sequence[str]:
        """Return the transactions that may be in the log as committed below the mark, but are still invisible."""
        return self.source.find_unfinished(beginning.running) if beginning.running is not None else ()

    def plan(self, beginning: Beginning, copies: Sequence[TableCopy]) -> Sequence[Planned]:
        """Return how tables are copied, in the order of the copies."""
        with ThreadPoolExecutor(self.limits.workers, THREAD) as pool:
            return list(pool.map(partial(self._try_planning, before=beginning.before), copies))

    def _try_planning(self, copy: TableCopy, before: TransactionSnapshot) -> Planned:
        """Return how a table is copied. In a thread.

        What has altered the table since `before` is recorded above the snapshot's LSN, though its rows are as of then.
        """
        instance, request = copy.instance, copy.request
        numbers = chunk_copies.captured_numbers(instance)
        try:
            chunk_copies.ensure_base(self.lake, instance, self.lease)
            present = self.source.find_present(instance.source_id, numbers)
            if present is None:
                return CopiedTableDropped(instance.source_id)
            table = chunk_copies.as_copied(instance, present, request.condition)
            # Without a key there are no ranges: the table is read by one session, whose transaction snapshot lasts for
            # the whole copy.
            if not table.key_columns:
                if not self._open_whole(copy):
                    return None
                assert copy.opened is not None
                present = copy.opened.present
            # Altered since the mark: the log will report that above the snapshot's LSN, so rows copied now would have
            # columns that readers do not expect at that LSN.
            if not before.sees(np.array(present.altered_by, np.int64)).all():
                return chunk_copies.CopyOutdated()
            if copy.opened is not None:
                return _define(request, present, (), format_snapshot(copy.opened.snapshot))
            chunk_bytes = self.limits.choose_chunk_bytes(present, request.rows_per_second)
            return _define(request, present, tuple(self.source.find_bounds(table, chunk_bytes)), None)
        except LeaseLost:
            raise
        except RowtideError as error:
            return error
        except Exception as error:  # noqa: BLE001 - the event has where
            # A fault of ours, or of a library: this copy fails, and the others are planned.
            emit(events.CopyBroken(instance.capture_instance, error, format_places(error)))
            return CopyBroken(instance.capture_instance, f"{type(error).__name__}: {error}")

    def _open_whole(self, copy: TableCopy) -> bool:
        """Open the one session that reads a table without key; few at a time, since each holds back vacuum."""
        if not self._sessions.acquire(blocking=False):
            return False
        copy.session.callback(self._sessions.release)
        numbers = chunk_copies.captured_numbers(copy.instance)
        opened = copy.session.enter_context(self.source.open_present(copy.instance.source_id, numbers))
        copy.opened = opened
        return True


def find_last(snapshots: Sequence[RecordedSnapshot], request_id: int) -> RecordedSnapshot | None:
    """Return the last snapshot that was made for a request, None if there is none."""
    return next((one for one in reversed(snapshots) if one.definition.request_id == request_id), None)


def _next_number(snapshots: Sequence[RecordedSnapshot]) -> int:
    return max((one.number for one in snapshots), default=0) + 1


def _define(
    request: SnapshotRequest, present: PresentTable, bounds: tuple[Key, ...], visible: str | None
) -> SnapshotDefinition:
    return SnapshotDefinition(
        request.request_id, request.condition, bounds, visible, present.generation, present.rows or 0, present.size
    )


def describe(
    copy: TableCopy, earlier: Sequence[RecordedSnapshot], begin: CommitLsn, definition: SnapshotDefinition
) -> RecordedSnapshot:
    """Return a planned snapshot of an instance that has had earlier ones."""
    instance = copy.instance
    return RecordedSnapshot(
        number=_next_number(earlier),
        capture_instance=instance.capture_instance,
        member_id=instance.member_id,
        state=SnapshotState.PLANNED,
        begin=begin,
        covered=None,
        is_whole=copy.request.condition is None,
        definition=definition,
    )


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
        # The lake first: a request that ended with its snapshot still planned would leave rows that count.
        self._void(copy)
        self._reports.finish(copy.request, state, outcome)
        self._drop(copy)
        self._on_report(replace(copy.report(), message=outcome, is_finished=True))

    def _void(self, copy: TableCopy) -> None:
        """Cancel a snapshot in the lake, and remove its rows."""
        copy.throttle.set(None, is_stopped=True)
        # A thread that still writes a chunk would add files after their removal.
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
