"""Running capture: the lake lease, the log reader's process, and capture's loop (SQL Server: the capture job)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from rowtide.agents.log_reader_process import LogReaderProcess
from rowtide.agents.loop import Agent, run_agent
from rowtide.cdc.capture.appends import Widening
from rowtide.cdc.capture.capture import Capture, CycleOptions, CycleReport
from rowtide.cdc.cleanup.housekeeping import Housekeeping
from rowtide.cdc.definitions import READER, list_enabled, read_source, read_widened, require_complete
from rowtide.cdc.enabling.joining import LostKeys, join_new_tables, joining
from rowtide.cdc.errors.capturing import ChangeTableLost, RelationChanged
from rowtide.cdc.errors.jobs import ScanRunning
from rowtide.cdc.jobs.administration import read_parameters
from rowtide.cdc.jobs.definitions import JobParameters, JobType, new_parameters
from rowtide.cdc.lake_lease import LAKE, LakeLease, SharedLease
from rowtide.cdc.published import list_table_paths
from rowtide.cdc.running.context import CaptureContext
from rowtide.cdc.running.scan_recorder import ScanRecorder
from rowtide.cdc.running.threads import LakeUpkeep, SnapshotThread
from rowtide.cdc.scans.pace import LONGEST_REST_S, MANY_ROWS, Scan, ScanLimits, ScanPace
from rowtide.cdc.snapshots.recording import SnapshotsTable
from rowtide.cdc.snapshots.runner import SnapshotRunner
from rowtide.cdc.system_tables import SystemTables
from rowtide.cdc.widening_removal import Mending
from rowtide.core.errors import RowtideError
from rowtide.core.tables import Widened
from rowtide.databases.postgres.catalogue import read_server_identity
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.delta.writing.commits import Committer
from rowtide.lake.session import require_reachable, spark_loss_named
from rowtide.log.errors import LeaseHeld
from rowtide.log.postgres import slot
from rowtide.log.postgres.control_table import mark_log, mark_target
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.postgres.provenance import verify_provenance, verify_seen_slot
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_own_manifest, open_store
from rowtide.storage.places import is_object_url
from rowtide.storage.store import read_traffic

IDLE_S = 0.1
POLL_IDLE_S = 0.02
"""The idle interval of a single poll, which only waits until its log reader has read what is committed now."""
LONGEST_OUTAGE_S = 150.0
"""The longest total pause for transient errors of a run that ends by itself, without a cycle in between."""

ChooseLimits = Callable[[ScanLimits], ScanLimits]
"""Converts the capture job's limits to those of a run."""


def run_capture(context: CaptureContext, choose_limits: ChooseLimits) -> None:
    """Read the log and capture until the run is stopped; see `ScanLimits` for when it ends by itself.

    `choose_limits` is given the capture job's, read when the run begins. Where what it returns is not continuous, all
    that was committed before is published at the end, unless `maxscans` ends it earlier.
    Raises `LeaseHeld` when another process captures, `SparkLost`, every error that needs a decision, and, where it is
    not continuous, one that has not passed after `LONGEST_OUTAGE_S`.
    """
    is_continuous = choose_limits(ScanLimits()).is_continuous
    run = _Run(context, choose_limits, math.inf if is_continuous else LONGEST_OUTAGE_S)
    if not is_continuous:
        # A single poll by hand fails at once if the server cannot be reached.
        run.begin()
    try:
        with spark_loss_named():
            idle_s = IDLE_S if is_continuous else POLL_IDLE_S
            run_agent(run.open, stop=context.stop, idle_s=idle_s, has_run=context.has_run, on_retry=run.retry)
    except RowtideError as error:
        run.recorder.fail(error)
        raise
    finally:
        run.close()


def scan(context: CaptureContext, maxtrans: int | None, maxscans: int | None) -> None:
    """Poll once, until all that was committed before is published, or `maxscans` scans ran (SQL Server:
    sp_cdc_scan).

    Raises `ScanRunning`, the errors of `new_parameters`, and what `run_capture` raises.
    """
    new_parameters(JobType.CAPTURE, JobParameters(maxtrans=maxtrans, maxscans=maxscans))
    limits = ScanLimits(maxtrans, maxscans, is_continuous=False)
    try:
        run_capture(replace(context, copies_tables=False), lambda _of_job: limits)
    except LeaseHeld as error:
        raise ScanRunning(error.holder) from error


def job_limits(of_job: ScanLimits) -> ScanLimits:
    """Return the limits of a run of the capture job."""
    return of_job


def one_poll_limits(of_job: ScanLimits) -> ScanLimits:
    """Return the limits of a run that ends when all that was committed before is published."""
    return ScanLimits(maxtrans=of_job.maxtrans, is_continuous=False)


ASK_AHEAD_S = 0.3
"""The longest time for a batch to reach a bucket, with what it waits for in the log reader."""
_RETRY_S = 1.0
"""The interval of repeating a request to the log reader, which may have been lost, or had no result for capture."""


class _Run:
    """The state of a run of capture, which outlives its agent's connections."""

    def __init__(self, context: CaptureContext, choose_limits: ChooseLimits, patience_s: float) -> None:
        """`patience_s`: the longest total pause for transient errors, without a cycle in between."""
        self._patience_s = patience_s
        self._paused_s = 0.0
        self._context = context
        self._choose_limits = choose_limits
        self._engine = open_engine(context.url, application_name=f"rowtide capture on {describe_holder()}")
        self._has_captured = False
        self._begun: tuple[ScanLimits, ScanPace] | None = None
        self.recorder = ScanRecorder()

    @contextmanager
    def open(self) -> Iterator[Agent]:
        self.recorder.reopen()
        limits, pace = self.begin()
        # Exited in reverse: copies and maintenance end before the lake's lease is released, and the advisory lock is
        # released last, so that no commit of this process follows the next holder's.
        with ExitStack() as stack:
            lease = stack.enter_context(AdvisoryLease.take(self._engine, LAKE))
            self.recorder.write_to(lease.connection)
            source = _verify_source(lease.connection, self._context.url)
            require_reachable(source.lake, source.log_store)
            has_run = self._context.has_run or self._has_captured
            stack.enter_context(joining(self._engine, self._context.url))
            reader = stack.enter_context(LogReaderProcess(self._context.url, self._retry_reading, has_run=has_run))
            store = open_store(source.log_store)
            lake_lease = LakeLease.take(store, lease, source.lake, list_table_paths)
            lake_lease.manifest.attach(reader.exchange)
            stack.push(partial(_release, lake_lease))
            upkeep = stack.enter_context(LakeUpkeep(lake_lease.for_thread(lease.verifier())).running())
            system_tables = SystemTables(
                source.lake, source.source_id, self._context.make_spark, maintain=upkeep.maintain_log
            )
            snapshots = self._open_snapshots(
                system_tables, SharedLease(lake_lease.for_thread(lease.verifier())), upkeep
            )
            copying = stack.enter_context(snapshots.running()) if self._context.copies_tables else None
            widening = Widening(self._widened_setting(lease.connection), self._context.watchers.on_widened)
            capture = Capture(
                system_tables,
                store,
                lake_lease,
                options=CycleOptions(self._context.options.engine, limits.maxtrans, widening=widening),
                on_cycle=self._note_cycle,
                compact=upkeep.compact,
                find_awaited=lambda: copying.awaited if copying is not None else None,
            )
            self._has_captured = True
            self.recorder.watch(capture, lambda: read_traffic() + reader.traffic)
            housekeeping = Housekeeping.over(lease.connection, system_tables, lake_lease, upkeep.vacuum, upkeep.start)
            mending = self._open_mending(lease.connection, source.lake, upkeep)
            yield _Supervisor(self, capture, housekeeping, mending, reader, pace, copying)

    def _widened_setting(self, connection: Connection) -> Callable[[str], Widened]:
        """Return what finds an instance's setting for columns that get wider types."""
        if self._context.options.rewrites_widened:
            return lambda _member_id: Widened.REWRITE
        return partial(find_widened, connection)

    @property
    def stop(self) -> threading.Event:
        """Set when the run is to end."""
        return self._context.stop

    def _open_snapshots(self, system_tables: SystemTables, lease: SharedLease, upkeep: LakeUpkeep) -> SnapshotThread:
        committer = Committer(maintain=upkeep.maintain_log, holds_lease=True)
        table = SnapshotsTable(system_tables.lake, system_tables.source_id, lease, committer)
        epoch = lease.lease.manifest.state.epoch
        watcher = self._context.watchers.on_snapshot
        return SnapshotThread(SnapshotRunner(self._engine, self._context.url, table, epoch, on_report=watcher))

    def _open_mending(self, connection: Connection, lake: str, upkeep: LakeUpkeep) -> Mending:
        names: Sequence[str] = ()
        if self._context.options.rewrites_widened:
            names = [enabled.capture_instance for enabled in list_enabled(connection)]
        return Mending(connection, lake, upkeep.start, names, self._context.watchers.on_mended)

    def retry(self, error: RowtideError, pause_s: float) -> None:
        """Note an error after which the agent is reopened."""
        self.recorder.fail(error)
        self._pause(error, pause_s)

    def _pause(self, error: RowtideError, pause_s: float) -> None:
        """Report a pause; raise the error that it is for where it would be one too many."""
        self._paused_s += pause_s
        if self._paused_s > self._patience_s:
            raise error
        self._context.watchers.on_retry(error, pause_s)

    def close(self) -> None:
        """Write the metrics of scans that are not yet written."""
        self.recorder.close(self._engine)

    def _retry_reading(self, error: RowtideError, pause_s: float) -> None:
        self.recorder.fail_reading(error)
        self._pause(error, pause_s)

    def mark_end(self) -> int:
        """Return the end of the log as of now, which the log reader reaches."""
        with translated(), self._engine.begin() as connection:
            return mark_log(connection)

    def _note_cycle(self, report: CycleReport) -> None:
        self._paused_s = 0.0
        self.recorder.note_cycle(report)
        self._context.watchers.on_cycle(report)

    @keeping_sessions()
    def begin(self) -> tuple[ScanLimits, ScanPace]:
        """Return the limits and the pace, the same each time; a single poll ends behind all that is committed now."""
        if self._begun is None:
            with translated(), self._engine.begin() as connection:
                source = read_source(connection, self._context.url)
                limits = self._choose_limits(_limits_of(read_parameters(connection, JobType.CAPTURE)))
            if not limits.is_continuous:
                # Before the mark, so that the poll captures everything that was committed before it began.
                join_new_tables(self._engine, self._context.url)
                LostKeys(self._engine, self._context.url).announce()
            with translated(), self._engine.begin() as connection:
                target = None if limits.is_continuous else mark_target(connection)
            at_bucket = any(map(is_object_url, (source.lake, source.log_store)))
            latency_s = self._context.options.max_latency_s if at_bucket else None
            self._begun = limits, ScanPace(limits, target, latency_s)
        return self._begun


class _Supervisor:
    """Runs scans when they are due, and housekeeping between them, and keeps the log reader running."""

    def __init__(
        self,
        run: _Run,
        capture: Capture,
        housekeeping: Housekeeping,
        mending: Mending,
        reader: LogReaderProcess,
        pace: ScanPace,
        snapshots: SnapshotThread | None,
    ) -> None:
        """The run is stopped when the pace says that it was the last scan, no snapshot is being copied and no table
        mended for it.
        """
        self._run = run
        self._capture = capture
        self._housekeeping = housekeeping
        self._mending = mending
        self._reader = reader
        self._pace = pace
        self._snapshots = snapshots
        self._end_to_read: int | None = None
        self._over_at: float | None = None
        self._next_scan = self._next_ask = 0.0

    def step(self) -> bool:
        """Scan if that is due, and do a piece of housekeeping; return whether there was anything to do."""
        self._reader.keep_running()
        if self._snapshots is not None:
            self._snapshots.verify()
        self._ask_when_due()
        has_scanned = self._is_due() and self._scan()
        did_maintenance = self._housekeeping.step() or self._mending.step()
        self._run.recorder.step()
        if has_scanned:
            self._rest()
        return has_scanned or did_maintenance

    def _rest(self) -> None:
        """Pause until the next scan is due, or until its batch of the log has to be requested."""
        ahead_s = ASK_AHEAD_S if self._pace.counts_requests else 0
        self._run.stop.wait(min(max(self._next_scan - ahead_s - time.monotonic(), 0), LONGEST_REST_S))

    def _ask_when_due(self) -> None:
        """Request a batch from the log reader if batches cost requests, early enough for the next scan."""
        now = time.monotonic()
        if not self._pace.counts_requests or now < self._next_ask:
            return
        if now < self._next_scan - ASK_AHEAD_S and not self._capture.is_awaited:
            return
        is_first, self._next_ask = not self._next_ask, now + _RETRY_S
        if is_first or not self._capture.count_waiting():
            self._reader.ask(READER)

    def _is_due(self) -> bool:
        """Return whether a scan is due: by time, or because enough is waiting to be worth the requests."""
        if time.monotonic() >= self._next_scan:
            return True
        return self._pace.saves_requests and (
            self._capture.count_waiting() >= MANY_ROWS
            or (self._capture.is_awaited and self._capture.count_waiting() > 0)
        )

    def _scan(self) -> bool:
        begun = time.monotonic()
        if self._pace.is_full and not self._capture.is_awaited:
            # Only snapshots are still being waited for; publications are needed only for covered ones.
            self._end_if_copied(begun)
            return False
        try:
            worked = self._capture.step()
            self._end_to_read = None
        except (RelationChanged, ChangeTableLost):
            if self._has_read_all():
                raise
            worked = False
        if not worked:
            self._run.recorder.note_empty()
        ended = time.monotonic()
        tables = self._capture.changed_tables if worked else 0
        if worked:
            self._next_ask = 0
        scan = Scan(worked, worked and self._capture.is_behind, self._capture.position.log, ended - begun, tables)
        self._next_scan = ended + self._pace.pause_after(scan)
        if self._pace.is_over:
            self._end_if_copied(ended)
        return worked

    def _end_if_copied(self, now: float) -> None:
        """End the run, whose only poll is over, unless snapshots are being copied or tables mended."""
        self._over_at = self._over_at or now
        if self._mending.is_done and not self._is_copying(self._over_at):
            self._run.stop.set()

    def _has_read_all(self) -> bool:
        """Return whether the log reader has read what was committed when capture was first blocked: an instance that
        was disabled since, or whose table was dropped, no longer blocks it.

        Disabling the instance resolves a reduced replica identity (RT-4105) and a lost change table (RT-4115), and
        comes after the blocker in the log: a run that stopped immediately would never read it. A lost table is not
        created again, because readers would believe the empty table; nor is its instance suspended, because storage
        that is not mounted looks the same.
        """
        if self._end_to_read is None:
            self._end_to_read = self._run.mark_end()
        return self._capture.read_position.log > self._end_to_read

    def _is_copying(self, since: float) -> bool:
        """Return whether snapshots are still to be copied, or to be published."""
        if self._snapshots is None:
            return False
        return not self._snapshots.was_idle_since(since) or self._capture.is_awaited


def _release(lake_lease: LakeLease, kind: type[BaseException] | None, *_error: object) -> None:
    """Release the lake; after an error the next holder fences it."""
    if kind is None:
        lake_lease.release()


def find_widened(connection: Connection, member_id: str) -> Widened:
    """Return an instance's setting for columns that get wider types. Raises the database's errors."""
    with translated():
        return read_widened(connection, member_id)


def _verify_source(connection: Connection, url: str) -> SourceDefinition:
    """Return the definition; raise errors here that the log reader would otherwise raise in its own process."""
    with translated():
        source = read_source(connection, url)
        require_complete(connection)
        # The slot first, because another process's log reader records a position before it confirms it.
        seen = slot.find_slot(connection, source.slot)
        manifest = open_own_manifest(source)
        state = manifest.state
        verify_provenance(connection, manifest)
        verify_seen_slot(read_server_identity(connection).timeline, seen, source.slot, state)
        slot.verify_publication(connection, source)
    return source


def _limits_of(parameters: JobParameters) -> ScanLimits:
    return ScanLimits(
        parameters.maxtrans,
        parameters.maxscans,
        parameters.pollinginterval,
        is_continuous=parameters.continuous is not False,
    )
