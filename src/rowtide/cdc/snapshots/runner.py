"""Carries out requests for snapshots beside capture, in threads, in the process that holds the lake (SQL Server has
none: its capture begins with the next change).

A snapshot begins with a mark in the log. Once no older transaction can be in the log as committed but invisible, its
chunks are read, each in a transaction snapshot of its own. After the last one a second mark covers it: whatever a chunk
saw has committed below. Between the two marks the change table has what chunks may or may not have, and counts.
Nothing of capture waits for any of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Connection, Engine, func

from rowtide.agents.loop import pauses_s
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_lease import SharedLease
from rowtide.cdc.published import ENABLED, RecordedInstance, read_instances, read_publication
from rowtide.cdc.recorded_snapshots import (
    RecordedSnapshot,
    SnapshotDefinition,
    SnapshotState,
    read_snapshots,
)
from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest, list_requests, note
from rowtide.cdc.snapshots.chunk_copies import (
    BaseAltered,
    ChunkCopier,
    ChunkReport,
    CopiedSoFar,
    CopyOutdated,
    as_copied,
    captured_numbers,
    ensure_base,
    find_copied,
    remove_void,
)
from rowtide.cdc.snapshots.copies import TableCopy
from rowtide.cdc.snapshots.progress import SnapshotProgress
from rowtide.cdc.snapshots.snapshots_table import SnapshotsTable
from rowtide.cdc.snapshots.throttle import CopyInterrupted
from rowtide.copying.chunks import Key
from rowtide.copying.errors import CopiedTableDropped
from rowtide.copying.present_tables import PresentTable
from rowtide.copying.source import PostgresCopySource
from rowtide.copying.visibility import TransactionSnapshot, format_snapshot
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.errors import translated
from rowtide.delta.commits import Committer
from rowtide.log.announcements import Announcement
from rowtide.log.errors import LeaseLost
from rowtide.log.postgres.control import announce_step

log = logging.getLogger("rowtide.snapshots")

THREAD = "rowtide-snapshot"
WORKERS = 2
CHUNK_BYTES = 256 * 1024 * 1024
"""Of a table, as the server stores it: so much is repeated after a kill."""
CHUNK_S = 10
"""At a limited rate, a chunk takes about so long: a transaction snapshot that lives long holds back vacuum."""
POLL_S = 1.0
_STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """How tables are divided, and how many chunks are copied at once."""

    chunk_bytes: int = CHUNK_BYTES
    workers: int = WORKERS


USUAL_LIMITS = CopyLimits()


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Snapshots whose log mark is set, and which wait for transactions of a moment after it."""

    begin: CommitLsn
    earlier: TransactionSnapshot
    copies: tuple[TableCopy, ...]


class SnapshotRunner:
    """The snapshots of one lake. `step` does what is due, in one thread; chunks are copied by threads of its own."""

    def __init__(
        self,
        engine: Engine,
        url: str,
        snapshots: SnapshotsTable,
        epoch: int,
        *,
        limits: CopyLimits = USUAL_LIMITS,
        on_report: Callable[[SnapshotProgress], None] = lambda _report: None,
    ) -> None:
        """`epoch` is that of the log's positions."""
        self._engine = engine
        self._source = PostgresCopySource(engine, url)
        self._snapshots = snapshots
        self._lake = snapshots.lake
        self._lease: SharedLease = snapshots.lease
        self._committer: Committer = snapshots.committer
        self._epoch = epoch
        self._limits = limits
        self._on_report = on_report
        self._connection: Connection | None = None
        self._pool = ThreadPoolExecutor(limits.workers, THREAD)
        self._sessions = threading.Semaphore(limits.workers)
        self._copies: dict[int, TableCopy] = {}
        self._beginnings: list[_Beginning] = []
        self._reported_at = 0.0
        self._is_open = False
        self._begins_again = False
        self._awaited: CommitLsn | None = None
        self._idle_since: float | None = None

    @property
    def awaited(self) -> CommitLsn | None:
        """The LSN that has to be published so that covered snapshots can be read; None if there is none."""
        return self._awaited

    def was_idle_since(self, moment: float) -> bool:
        """Return whether a look at all requests that began after a moment of the monotonic clock found nothing to do.

        Paused snapshots, and those of instances that capture does not have, are not waited for.
        """
        return self._idle_since is not None and self._idle_since >= moment

    def step(self) -> bool:
        """Look at the requests, and do what is due; return whether anything is being done.

        Raises `LeaseLost`, and errors of the server and of the lake as a whole.
        """
        began = time.monotonic()
        self._begins_again = False
        if not self._is_open:
            self._open()
        with translated():
            requests = list_requests(self._connect(), only_open=True)
        self._follow(requests)
        self._collect()
        self._begin(requests)
        self._plan_due()
        self._schedule()
        self._cover()
        self._report()
        is_copying = any(not copy.request.is_paused or copy.running for copy in self._copies.values())
        is_working = is_copying or self._begins_again or bool(self._beginnings)
        self._idle_since = None if is_working else began
        return is_working

    def wait(self, seconds: float) -> None:
        """Wait until a chunk is copied, at most so long."""
        running = [future for copy in self._copies.values() for future in copy.running.values()]
        if running:
            wait(running, timeout=seconds, return_when=FIRST_COMPLETED)
        else:
            time.sleep(seconds)

    def close(self) -> None:
        """Leave what is being copied: a later run continues. Returns when no thread is left."""
        for copy in self._copies.values():
            copy.throttle.set(None, is_stopped=True)
        self._pool.shutdown()
        for copy in self._copies.values():
            copy.session.close()
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection; the next step opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection

    def _open(self) -> None:
        """Remove what snapshots that were cancelled left, and publish up to those that are covered."""
        recorded = read_snapshots(self._lake)
        for snapshots in recorded.values():
            void = [one for one in snapshots if one.state is SnapshotState.CANCELLED]
            if void:
                remove_void(self._lake, void, self._lease)
        covered = [one.covered for found in recorded.values() for one in found if one.covered is not None]
        published = read_publication(self._lake)
        if covered and (published is None or published.lsn is None or published.lsn < max(covered)):
            self._publish_up_to(max(covered))
        self._is_open = True

    def _follow(self, requests: Sequence[SnapshotRequest]) -> None:
        """Do as requests say by now: go on at a rate, pause, or end."""
        present = {request.request_id: request for request in requests}
        for request_id, copy in list(self._copies.items()):
            request = present.get(request_id)
            copy.request = request if request is not None else replace(copy.request, is_cancelled=True)
            is_stopped = copy.request.is_cancelled or copy.request.is_paused
            copy.throttle.set(copy.request.rows_per_second, is_stopped=is_stopped)
            if copy.request.is_cancelled and not copy.running:
                self._end(copy, RequestState.CANCELLED, copy.request.outcome or "cancelled")
            elif copy.request.is_paused and not copy.running and copy.opened is not None:
                self._begin_again(copy, "it was paused, and has no key to continue from")

    def _begin(self, requests: Sequence[SnapshotRequest]) -> None:
        """Take up requests that are not worked on; of an instance's, one at a time."""
        busy = {copy.request.member_id for copy in self._copies.values()}
        new: list[SnapshotRequest] = []
        for request in requests:
            if request.is_cancelled and request.request_id not in self._copies:
                new.append(request)
            elif not (request.is_paused or request.request_id in self._copies or request.member_id in busy):
                new.append(request)
                busy.add(request.member_id)
        if not new:
            return
        instances, recorded = self._read_instances(), read_snapshots(self._lake)
        fresh: list[TableCopy] = []
        for request in new:
            found = instances.get(request.capture_instance)
            last = _find_last(recorded.get(request.member_id, ()), request.request_id)
            if request.is_cancelled:
                self._cancel(request, last)
                continue
            if found is None or found.instance.member_id != request.member_id or found.state != ENABLED:
                # Capture has not come so far, or the instance is suspended.
                continue
            copy = TableCopy(request, found.instance)
            if last is not None and last.state is SnapshotState.COVERED:
                copy.plan(last, find_copied(self._lake, last))
                self._finish_covered(copy)
            elif last is not None and last.state is SnapshotState.PLANNED:
                self._resume(copy, last)
            else:
                fresh.append(copy)
        if fresh:
            begin = CommitLsn.of(self._epoch, self._source.mark())
            earlier = self._source.take_snapshot()
            self._copies.update((copy.request.request_id, copy) for copy in fresh)
            self._beginnings.append(_Beginning(begin, earlier, tuple(fresh)))

    def _resume(self, copy: TableCopy, planned: RecordedSnapshot) -> None:
        """Go on with a snapshot that an earlier run has planned."""
        self._copies[copy.request.request_id] = copy
        if planned.begin.epoch != self._epoch or planned.definition.visible is not None:
            copy.snapshot = planned
            self._begin_again(copy, "the session that read its rows has ended")
        else:
            copy.plan(planned, find_copied(self._lake, planned))

    def _plan_due(self) -> None:
        """Plan the snapshots that no longer wait for transactions."""
        for beginning in list(self._beginnings):
            copies = [copy for copy in beginning.copies if copy.request.request_id in self._copies]
            unfinished = self._source.find_unfinished(beginning.earlier)
            for copy in copies:
                copy.message = f"it waits for {', '.join(unfinished)}" if unfinished else None
            if unfinished:
                continue
            self._beginnings.remove(beginning)
            recorded = read_snapshots(self._lake)
            planned: list[tuple[TableCopy, RecordedSnapshot]] = []
            with ThreadPoolExecutor(self._limits.workers, THREAD) as pool:
                definitions = list(pool.map(self._try_planning, copies))
            for copy, made in zip(copies, definitions, strict=True):
                if isinstance(made, RowtideError):
                    self._fail(copy, made)
                elif made is None:
                    self._beginnings.append(replace(beginning, copies=(copy,)))
                else:
                    number = _next_number(recorded.get(copy.request.member_id, ()))
                    planned.append((copy, _describe(copy, number, beginning.begin, made)))
            self._snapshots.record([snapshot for _, snapshot in planned])
            for copy, snapshot in planned:
                copy.plan(snapshot, CopiedSoFar())
                self._note(copy, state=RequestState.COPYING, began_at=func.now())

    def _try_planning(self, copy: TableCopy) -> SnapshotDefinition | RowtideError | None:
        """Return how a table is copied; None if a session for it is not free. In a thread."""
        instance, request = copy.instance, copy.request
        try:
            ensure_base(self._lake, instance, self._lease)
            numbers = captured_numbers(instance)
            present = self._source.find_present(instance.source_id, numbers)
            if present is None:
                return CopiedTableDropped(instance.source_id)
            table = as_copied(instance, present, request.condition)
            if not table.key_columns:
                return self._open_whole(copy)
            bounds = self._source.find_bounds(table, self._choose_chunk_bytes(present, request.rows_per_second))
            return _define(request, present, tuple(bounds), None)
        except LeaseLost:
            raise
        except RowtideError as error:
            return error

    def _open_whole(self, copy: TableCopy) -> SnapshotDefinition | None:
        """Open the one session that reads a table without key; few at a time, since each holds back vacuum."""
        if not self._sessions.acquire(blocking=False):
            return None
        copy.session.callback(self._sessions.release)
        numbers = captured_numbers(copy.instance)
        opened = copy.session.enter_context(self._source.open_present(copy.instance.source_id, numbers))
        copy.opened = opened
        return _define(copy.request, opened.present, (), format_snapshot(opened.snapshot))

    def _choose_chunk_bytes(self, present: PresentTable, rows_per_second: int | None) -> int:
        if rows_per_second is None or not present.rows:
            return self._limits.chunk_bytes
        row_bytes = max(present.size // present.rows, 1)
        return max(min(self._limits.chunk_bytes, row_bytes * rows_per_second * CHUNK_S), row_bytes)

    def _schedule(self) -> None:
        """Give chunks to threads that are free."""
        free = self._limits.workers - sum(len(copy.running) for copy in self._copies.values())
        now = time.monotonic()
        for copy in self._copies.values():
            while free > 0 and copy.remaining and not copy.throttle.is_stopped and now >= copy.not_before:
                number = copy.remaining.popleft()
                copy.running[number] = self._pool.submit(self._copy_chunk, copy, number)
                free -= 1

    def _copy_chunk(self, copy: TableCopy, number: int) -> ChunkReport:
        """Copy a chunk, in a thread."""
        assert copy.snapshot is not None

        def take(rows: int) -> None:
            copy.take(number, rows)

        copier = ChunkCopier(self._lake, copy.instance, copy.snapshot, self._committer, self._lease, take)
        if copy.opened is not None:
            return copier.copy(number, copy.opened)
        with self._source.open_present(copy.instance.source_id, captured_numbers(copy.instance)) as opened:
            return copier.copy(number, opened)

    def _collect(self) -> None:
        """Take what threads have done."""
        for copy in list(self._copies.values()):
            for number, future in copy.pop_ended():
                if copy.request.request_id in self._copies:
                    self._take_result(copy, number, future)

    def _take_result(self, copy: TableCopy, number: int, future: Future[ChunkReport]) -> None:
        try:
            copy.note_copied(future.result())
        except CopyInterrupted:
            copy.note_failed(number, copy.message, pause=False)
        except BaseAltered:
            copy.note_failed(number, None, pause=False)
            self._follow_instance(copy)
        except CopyOutdated:
            self._begin_again(copy, "the table was altered")
        except CopiedTableDropped as error:
            self._fail(copy, error)
        except LeaseLost:
            raise
        except RowtideError as error:
            if error.remedy is not Remedy.RETRY:
                self._fail(copy, error)
            elif copy.opened is not None:
                self._begin_again(copy, str(error))
            else:
                copy.note_failed(number, str(error), pause=True)

    def _follow_instance(self, copy: TableCopy) -> None:
        """Take an instance's definition as capture has it by now."""
        found = self._read_instances().get(copy.instance.capture_instance)
        if found is not None and found.instance.member_id == copy.instance.member_id:
            copy.instance = found.instance

    def _read_instances(self) -> Mapping[str, RecordedInstance]:
        publication = read_publication(self._lake)
        return read_instances(self._lake, publication.cycle) if publication is not None else {}

    def _cover(self) -> None:
        """End the snapshots whose chunks are all copied."""
        copied = [copy for copy in self._copies.values() if copy.is_copied]
        ready = [copy for copy in copied if self._is_current(copy)]
        if not ready:
            return
        covered = CommitLsn.of(self._epoch, self._source.mark())
        for copy in ready:
            assert copy.snapshot is not None
            copy.snapshot = replace(copy.snapshot, state=SnapshotState.COVERED, covered=covered)
        self._snapshots.record([copy.snapshot for copy in ready if copy.snapshot is not None])
        self._publish_up_to(covered)
        for copy in ready:
            self._finish_covered(copy)

    def _is_current(self, copy: TableCopy) -> bool:
        """Return whether the table is still the one that was copied; otherwise it is copied again, or not at all."""
        assert copy.snapshot is not None
        present = self._source.find_present(copy.instance.source_id, captured_numbers(copy.instance))
        if present is None:
            self._fail(copy, CopiedTableDropped(copy.instance.source_id))
        elif present.generation != copy.snapshot.definition.generation:
            self._begin_again(copy, "the table was altered")
        else:
            return True
        return False

    def _publish_up_to(self, covered: CommitLsn) -> None:
        """Let capture publish an LSN at or above one: without changes it would not for minutes."""
        # First, so that capture knows when it reads the heartbeat.
        self._awaited = covered
        with translated(), self._engine.begin() as connection:
            connection.execute(announce_step(Announcement.HEARTBEAT, ""))

    def _finish_covered(self, copy: TableCopy) -> None:
        report = copy.report()
        self._finish(copy.request, RequestState.FINISHED, None, report)
        self._drop(copy)
        self._on_report(replace(report, message="all rows are copied", is_finished=True))

    def _begin_again(self, copy: TableCopy, reason: str) -> None:
        """Void a snapshot; its request is taken up anew."""
        self._void(copy)
        self._drop(copy)
        self._begins_again = True
        message = f"it begins again: {reason}"
        self._note(copy, state=RequestState.REQUESTED, outcome=message, chunks=0, copied_rows=0, copied_bytes=0)
        self._on_report(replace(copy.report(), message=message))

    def _fail(self, copy: TableCopy, error: RowtideError) -> None:
        state = RequestState.CANCELLED if isinstance(error, CopiedTableDropped) else RequestState.FAILED
        log.warning("snapshot_failed: %s: %s", copy.instance.capture_instance, error)
        self._end(copy, state, str(error))

    def _end(self, copy: TableCopy, state: RequestState, outcome: str) -> None:
        self._void(copy)
        self._finish(copy.request, state, outcome)
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
        remove_void(self._lake, [snapshot], self._lease)

    def _cancel(self, request: SnapshotRequest, last: RecordedSnapshot | None) -> None:
        """Cancel what no copy works on."""
        if last is not None and last.state is SnapshotState.PLANNED:
            self._void_recorded(last)
        self._finish(request, RequestState.CANCELLED, "cancelled")

    def _drop(self, copy: TableCopy) -> None:
        copy.session.close()
        self._copies.pop(copy.request.request_id, None)

    def _finish(
        self,
        request: SnapshotRequest,
        state: RequestState,
        outcome: str | None,
        report: SnapshotProgress | None = None,
    ) -> None:
        values = _progress_values(report) if report is not None else {}
        failpoint("snapshot_request.before")
        with translated():
            note(
                self._connect(),
                request.request_id,
                **values | {"state": state.value, "outcome": outcome, "finished_at": func.now()},
            )
        failpoint("snapshot_request.after")

    def _note(self, copy: TableCopy, **values: object) -> None:
        if copy.snapshot is not None:
            values = {
                "snapshot": copy.snapshot.number,
                "of_chunks": copy.snapshot.definition.of_chunks,
                "estimated_rows": copy.snapshot.definition.rows,
                "estimated_bytes": copy.snapshot.definition.size,
                **values,
            }
        with translated():
            note(self._connect(), copy.request.request_id, **values)

    def _report(self) -> None:
        if time.monotonic() < self._reported_at + POLL_S:
            return
        self._reported_at = time.monotonic()
        for copy in self._copies.values():
            report = copy.report()
            if copy.running or report != copy.reported:
                copy.reported = report
                self._note(copy, **_progress_values(report), outcome=copy.message)
                self._on_report(report)


class SnapshotThread:
    """A runner in a thread of its own."""

    def __init__(self, runner: SnapshotRunner) -> None:
        self._runner = runner
        self._wake = threading.Event()
        self._is_over = False
        self._thread: Future[None] | None = None

    @contextmanager
    def running(self) -> Iterator[SnapshotThread]:
        """Run the thread during the block; at its end, chunks that are being copied are left."""
        with ThreadPoolExecutor(1, f"{THREAD}s") as pool:
            self._thread = pool.submit(self._run)
            try:
                yield self
            finally:
                self._is_over = True
                self._wake.set()
                wait([self._thread])

    @property
    def awaited(self) -> CommitLsn | None:
        """The LSN that has to be published so that covered snapshots can be read; None if there is none."""
        return self._runner.awaited

    def was_idle_since(self, moment: float) -> bool:
        """Return whether all requests were looked at since a moment, and nothing is to be done; look at them now."""
        self._wake.set()
        return self._runner.was_idle_since(moment)

    def verify(self) -> None:
        """Raise the error that has ended the thread."""
        if self._thread is not None and self._thread.done():
            self._thread.result()

    def _run(self) -> None:
        pauses = pauses_s()
        try:
            while not self._is_over:
                try:
                    if self._runner.step():
                        self._runner.wait(_STEP_S)
                    else:
                        self._wait(POLL_S)
                    pauses = pauses_s()
                except LeaseLost as error:
                    log.warning("snapshots_end: %s", error)
                    return
                except RowtideError as error:
                    if error.remedy is not Remedy.RETRY:
                        raise
                    log.warning("snapshots_retry: %s", error)
                    self._runner.disconnect()
                    self._wait(next(pauses))
        finally:
            self._runner.close()

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()


def _find_last(snapshots: Sequence[RecordedSnapshot], request_id: int) -> RecordedSnapshot | None:
    return next((one for one in reversed(snapshots) if one.definition.request_id == request_id), None)


def _next_number(snapshots: Sequence[RecordedSnapshot]) -> int:
    return max((one.number for one in snapshots), default=0) + 1


def _define(
    request: SnapshotRequest, present: PresentTable, bounds: tuple[Key, ...], visible: str | None
) -> SnapshotDefinition:
    return SnapshotDefinition(
        request.request_id, request.condition, bounds, visible, present.generation, present.rows or 0, present.size
    )


def _describe(copy: TableCopy, number: int, begin: CommitLsn, definition: SnapshotDefinition) -> RecordedSnapshot:
    instance: Instance = copy.instance
    return RecordedSnapshot(
        number=number,
        capture_instance=instance.capture_instance,
        member_id=instance.member_id,
        state=SnapshotState.PLANNED,
        begin=begin,
        covered=None,
        is_whole=copy.request.condition is None,
        definition=definition,
    )


def _progress_values(report: SnapshotProgress) -> dict[str, object]:
    return {
        "chunks": report.chunks,
        "copied_rows": report.rows,
        "copied_bytes": report.size,
        "rows_a_second": report.rows_a_second,
    }
