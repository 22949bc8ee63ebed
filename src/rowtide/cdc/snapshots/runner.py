"""Carries out requests for snapshots beside capture, in threads, in the process that holds the lake (SQL Server has
none: its capture begins with the next change).

A snapshot begins with a mark in the log. Once no older transaction can be in the log as committed but invisible, its
chunks are read, each in a transaction snapshot of its own. After the last one a second mark covers it: whatever a chunk
saw has committed below. Between the two marks the change table has what chunks may or may not have, and counts. Capture
does not wait for any of this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sqlalchemy import Engine

from rowtide.cdc.errors.capturing import SnapshotCopyBroken
from rowtide.cdc.lake_lease import SharedLease
from rowtide.cdc.published import ENABLED, RecordedInstance, base_table_path, read_instances, read_publication
from rowtide.cdc.recorded_snapshots import RecordedSnapshot, SnapshotDefinition, SnapshotState, read_snapshots
from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest
from rowtide.cdc.snapshots import chunk_copies, planning, recording
from rowtide.cdc.snapshots.table_copy import CopyInterrupted, SnapshotProgress, TableCopy
from rowtide.copying.errors import CopiedTableDropped, CopiedTableUnreadable
from rowtide.copying.source import PostgresCopySource, RowNotCopied
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.errors import translated
from rowtide.delta.writing.commits import Committer
from rowtide.events import catalogue as events
from rowtide.events.event import emit, format_places, inheriting
from rowtide.log.errors import LeaseLost
from rowtide.log.membership import Announcement
from rowtide.log.postgres.control_table import announce_step

THREAD = "rowtide-snapshot"
POLL_S = 1.0
_PAUSED = "it was paused, and has no key to continue from"


class SnapshotRunner:
    """The snapshots of one lake. `step` does what is due, in one thread; chunks are copied by threads of its own."""

    def __init__(
        self,
        engine: Engine,
        url: str,
        snapshots: recording.SnapshotsTable,
        epoch: int,
        *,
        limits: chunk_copies.CopyLimits = chunk_copies.USUAL_LIMITS,
        on_report: Callable[[SnapshotProgress], None] = lambda _report: None,
    ) -> None:
        """`epoch` is that of the log's positions."""
        self._engine = engine
        self._source = PostgresCopySource(engine, url, lock_timeout_s=chunk_copies.LOCK_TIMEOUT_S)
        self._snapshots = snapshots
        self._lake = snapshots.lake
        self._lease: SharedLease = snapshots.lease
        self._committer: Committer = snapshots.committer
        self._epoch = epoch
        self._limits = limits
        self._on_report = on_report
        self._reports = recording.RequestReports(engine)
        self._pool = ThreadPoolExecutor(limits.workers, THREAD)
        self._planner = planning.SnapshotPlanner(self._source, snapshots.lake, snapshots.lease, epoch, limits)
        self._copies: dict[int, TableCopy] = {}
        self._endings = recording.SnapshotEndings(self._copies, snapshots, self._reports, on_report)
        self._beginnings: list[planning.Beginning] = []
        self._reported_at = 0.0
        self._covered_at = 0.0
        self._is_open = False
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
        self._endings.begins_again = False
        if not self._is_open:
            self._open()
        # First, so that a request that fails here is not open afterwards.
        self._collect()
        requests = self._reports.list_open()
        self._follow(requests)
        self._begin(requests)
        self._plan_due()
        self._schedule()
        self._cover()
        self._report()
        is_copying = any(not copy.request.is_paused or copy.running for copy in self._copies.values())
        is_working = is_copying or self._endings.begins_again or bool(self._beginnings)
        self._idle_since = None if is_working else began
        return is_working

    def wait(self, seconds: float) -> None:
        """Wait until a chunk is copied, or for a timeout."""
        running = [future for copy in self._copies.values() for future in copy.running.values()]
        if running:
            wait(running, timeout=seconds, return_when=FIRST_COMPLETED)
        else:
            time.sleep(seconds)

    def close(self) -> None:
        """Leave what is being copied: a later run continues. Returns when no thread is left."""
        self.reset()
        self._pool.shutdown()

    def reset(self) -> None:
        """Forget what is being done, after an error: the next step continues from what the lake has."""
        # All are stopped before the first is waited for, so that none continues reading.
        for copy in self._copies.values():
            copy.throttle.set(None, is_stopped=True)
        for copy in self._copies.values():
            wait(copy.running.values())
            copy.session.close()
        self._copies.clear()
        self._beginnings.clear()
        self._is_open = False
        self._reports.close()

    def _open(self) -> None:
        """Remove what snapshots that were cancelled left, and publish up to those that are covered."""
        recorded = read_snapshots(self._lake)
        for snapshots in recorded.values():
            void = [one for one in snapshots if one.state is SnapshotState.CANCELLED]
            if void:
                chunk_copies.remove_void(self._lake, void, self._lease)
        covered = [one.covered for found in recorded.values() for one in found if one.covered is not None]
        published = read_publication(self._lake)
        if covered and (published is None or published.lsn is None or published.lsn < max(covered)):
            self._publish_up_to(max(covered))
        self._is_open = True

    def _follow(self, requests: Sequence[SnapshotRequest]) -> None:
        """Do as requests say by now: continue at a rate, pause, or end."""
        present = {request.request_id: request for request in requests}
        for request_id, copy in list(self._copies.items()):
            request = present.get(request_id)
            copy.request = request if request is not None else replace(copy.request, is_cancelled=True)
            is_stopped = copy.request.is_cancelled or copy.request.is_paused
            copy.throttle.set(copy.request.rows_per_second, is_stopped=is_stopped)
            if copy.request.is_cancelled and not copy.running:
                self._endings.end(copy, RequestState.CANCELLED, copy.request.outcome or "cancelled")
            elif copy.request.is_paused and not copy.running and copy.opened is not None:
                self._endings.begin_again(copy, _PAUSED)

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
            last = planning.find_last(recorded.get(request.member_id, ()), request.request_id)
            if request.is_cancelled:
                self._endings.cancel(request, last)
                continue
            if found is None or found.instance.member_id != request.member_id or found.state != ENABLED:
                # Capture has not come so far, or the instance is suspended.
                continue
            copy = TableCopy(request, found.instance)
            if last is not None and last.state is SnapshotState.COVERED:
                copy.plan(last, chunk_copies.find_copied(self._lake, last))
                self._endings.finish(copy)
            elif last is not None and last.state is SnapshotState.PLANNED:
                self._resume(copy, last)
            else:
                fresh.append(copy)
        if fresh:
            self._beginnings.append(self._planner.begin(fresh))
            self._copies.update((copy.request.request_id, copy) for copy in fresh)

    def _resume(self, copy: TableCopy, planned: RecordedSnapshot) -> None:
        """Resume a snapshot that an earlier run has planned."""
        self._copies[copy.request.request_id] = copy
        # A table without a key is read as a whole in one transaction snapshot, which a later session cannot have.
        if planned.begin.epoch != self._epoch or planned.definition.visible is not None:
            copy.snapshot = planned
            self._endings.begin_again(copy, "the session that read its rows has ended")
        else:
            copy.plan(planned, chunk_copies.find_copied(self._lake, planned))

    def _plan_due(self) -> None:
        """Plan the snapshots that no longer wait for transactions."""
        for beginning in list(self._beginnings):
            copies = [copy for copy in beginning.copies if copy.request.request_id in self._copies]
            unfinished = self._planner.find_unfinished(beginning)
            for copy in copies:
                copy.message = f"it waits for {', '.join(unfinished)}" if unfinished else copy.message
            if not unfinished and time.monotonic() >= beginning.not_before:
                self._beginnings.remove(beginning)
                self._plan_all(replace(beginning, running=None), copies)

    def _plan_all(self, beginning: planning.Beginning, copies: Sequence[TableCopy]) -> None:
        recorded = read_snapshots(self._lake)
        planned: list[tuple[TableCopy, RecordedSnapshot]] = []
        for copy, made in zip(copies, self._planner.plan(beginning, copies), strict=True):
            copy.message = str(made) if isinstance(made, RowtideError) else None
            if isinstance(made, SnapshotDefinition):
                earlier = recorded.get(copy.request.member_id, ())
                planned.append((copy, planning.describe(copy, earlier, beginning.begin, made)))
            elif isinstance(made, chunk_copies.CopyOutdated):
                self._endings.begin_again(copy, "the table was altered")
            elif isinstance(made, RowtideError) and made.remedy is not Remedy.RETRY:
                self._endings.fail(copy, made)
            else:
                later = time.monotonic() + (chunk_copies.LOCK_TIMEOUT_S if made is not None else 0)
                self._beginnings.append(replace(beginning, copies=(copy,), not_before=later))
        self._snapshots.record([snapshot for _, snapshot in planned])
        for copy, snapshot in planned:
            copy.plan(snapshot, chunk_copies.CopiedSoFar())
            self._reports.note_planned(copy)

    def _schedule(self) -> None:
        """Give chunks to threads that are free."""
        free = self._limits.workers - sum(len(copy.running) for copy in self._copies.values())
        now = time.monotonic()
        for copy in self._copies.values():
            while free > 0 and copy.remaining and not copy.throttle.is_stopped and now >= copy.not_before:
                number = copy.remaining.popleft()
                copy.running[number] = self._pool.submit(inheriting(self._copy_chunk), copy, number)
                free -= 1

    def _copy_chunk(self, copy: TableCopy, number: int) -> chunk_copies.ChunkReport:
        """Copy a chunk, in a thread."""
        assert copy.snapshot is not None

        def take(rows: int) -> None:
            copy.take(number, rows)

        copier = chunk_copies.ChunkCopier(
            self._lake, copy.instance, copy.snapshot, self._committer, self._lease, take, self._limits.most_row_bytes
        )
        if copy.opened is not None:
            return copier.copy(number, copy.opened)
        open_present = partial(
            self._source.open_present, copy.instance.source_id, chunk_copies.captured_numbers(copy.instance)
        )
        with open_present() as opened, suppress(RowNotCopied):
            return copier.copy(number, opened, copy.partial.get(number, ()))
        with open_present() as opened:
            # In a new transaction, because the one in which a row was refused has failed.
            raise chunk_copies.PartialRowsFound(copier.find_partial_rows(number, opened))

    def _collect(self) -> None:
        """Take what threads have done."""
        for copy in list(self._copies.values()):
            for number, future in copy.pop_ended():
                if copy.request.request_id in self._copies:
                    self._take_result(copy, number, future)

    def _take_result(self, copy: TableCopy, number: int, future: Future[chunk_copies.ChunkReport]) -> None:
        try:
            copy.note_copied(future.result())
        except CopyInterrupted:
            if copy.opened is not None and not copy.request.is_cancelled:
                self._endings.begin_again(copy, _PAUSED)
            else:
                # A cancelled copy ends when requests are processed next.
                copy.note_failed(number, None, pause=False)
        except chunk_copies.BaseAltered as altered:
            self._look_again(copy)
            self._repeat(copy, number, str(altered), pause=False)
        except chunk_copies.CopyOutdated:
            self._endings.begin_again(copy, "the table was altered")
        except chunk_copies.PartialRowsFound as found:
            self._note_partial(copy, number, found)
        except RowNotCopied as refused:
            # Of a table without a key, by which the row would be found.
            table = f"{copy.instance.source_schema}.{copy.instance.source_table}"
            self._endings.fail(copy, CopiedTableUnreadable(table, str(refused)))
        except CopiedTableDropped as error:
            self._endings.fail(copy, error)
        except LeaseLost:
            raise
        except RowtideError as error:
            if error.remedy is not Remedy.RETRY:
                self._endings.fail(copy, error)
            else:
                self._repeat(copy, number, str(error), pause=True)
        except Exception as error:  # noqa: BLE001 - the event has where
            # An unexpected error ends this copy, but not capture.
            emit(events.CopyBroken(copy.instance.capture_instance, error, format_places(error)))
            self._endings.fail(
                copy, SnapshotCopyBroken(copy.instance.capture_instance, f"{type(error).__name__}: {error}")
            )

    def _note_partial(self, copy: TableCopy, number: int, found: chunk_copies.PartialRowsFound) -> None:
        """Copy a chunk again, without the values that are refused."""
        copy.partial[number] = found.rows
        for row in found.rows:
            emit(events.RowCopiedInPart(copy.instance.capture_instance, tuple(sorted(row.lacking))))
        # None: the row was changed meanwhile.
        self._repeat(copy, number, str(found), pause=not found.rows)

    def _repeat(self, copy: TableCopy, number: int, reason: str, *, pause: bool) -> None:
        """Copy a chunk again; all of it where one session had to read the whole table."""
        if copy.opened is not None:
            self._endings.begin_again(copy, reason)
        else:
            copy.note_failed(number, reason, pause=pause)

    def _look_again(self, copy: TableCopy) -> None:
        """Read an instance's definition and base table again, which capture may have changed."""
        self._committer.forget(base_table_path(self._lake, copy.instance.capture_instance))
        found = self._read_instances().get(copy.instance.capture_instance)
        if found is not None and found.instance.member_id == copy.instance.member_id:
            copy.instance = found.instance

    def _read_instances(self) -> Mapping[str, RecordedInstance]:
        publication = read_publication(self._lake)
        return read_instances(self._lake, publication.cycle) if publication is not None else {}

    def _cover(self) -> None:
        """End the snapshots whose chunks are all copied; of many small ones, several at once."""
        copied = [copy for copy in self._copies.values() if copy.is_copied]
        are_more_to_come = any(copy.running for copy in self._copies.values())
        if are_more_to_come and time.monotonic() < self._covered_at + POLL_S:
            return
        ready = [copy for copy in copied if self._is_current(copy)]
        if not ready:
            return
        # The mark is written after the last chunk was read, so every change that a chunk may have seen lies below its
        # LSN, and the base is used only when the lake has all of them.
        covered = CommitLsn.of(self._epoch, self._source.mark())
        for copy in ready:
            assert copy.snapshot is not None
            copy.snapshot = replace(copy.snapshot, state=SnapshotState.COVERED, covered=covered)
        self._snapshots.record([copy.snapshot for copy in ready if copy.snapshot is not None])
        self._publish_up_to(covered)
        self._covered_at = time.monotonic()
        for copy in ready:
            self._endings.finish(copy)

    def _is_current(self, copy: TableCopy) -> bool:
        """Return whether the table is still the one that was copied; otherwise it is copied again, or not at all."""
        assert copy.snapshot is not None
        present = self._source.find_present(copy.instance.source_id, chunk_copies.captured_numbers(copy.instance))
        if present is None:
            self._endings.fail(copy, CopiedTableDropped(copy.instance.source_id))
        elif present.generation != copy.snapshot.definition.generation:
            self._endings.begin_again(copy, "the table was altered")
        else:
            return True
        return False

    def _publish_up_to(self, covered: CommitLsn) -> None:
        """Let capture publish an LSN at or above one; without changes it would publish nothing for minutes."""
        # Set before the mark is written, so that capture knows it when it reads the heartbeat.
        self._awaited = covered
        with translated(), self._engine.begin() as connection:
            connection.execute(announce_step(Announcement.HEARTBEAT, ""))

    def _report(self) -> None:
        if time.monotonic() < self._reported_at + POLL_S:
            return
        self._reported_at = time.monotonic()
        for copy in self._copies.values():
            report = copy.report()
            if copy.running or report != copy.reported:
                copy.reported = report
                self._reports.note_progress(copy, report)
                self._on_report(report)
