"""Capture: log records to change tables in recorded scan cycles, published last (SQL Server: the capture job).

A cycle records its range in `cycles`, appends rows to every change table once, records in `instances` which instances
began and ended, and publishes by `lsn_time_mapping`. After a crash at any point the recorded range is redone; appends
that exist are ignored. If two processes record a cycle, one wins, and the other redoes the recorded one if it still
holds the lake.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.capture import change_files, planning
from rowtide.cdc.capture.appends import WIDENED_BY_SIZE, ChangeAppender, InstanceTables, Widening
from rowtide.cdc.ddl.schema_changes import InstanceLifetime
from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.capturing import LakeBehindLog
from rowtide.cdc.lake_continuity import is_behind, require_continued
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.published import ALTERED, DISABLED, ENABLED, SKIPPED, SUSPENDED
from rowtide.cdc.rows.conversion import find_most_row_bytes
from rowtide.cdc.scans.metrics import Engine, ScanFigures, ScanPhase
from rowtide.cdc.scans.pace import EngineSetting
from rowtide.cdc.system_tables import InstanceEvent, LakeState, RecordedCycle, SystemTables
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.delta.errors import AppendNotFound
from rowtide.lake.tables import Compacted, compact
from rowtide.log.store.entries import ReaderAdvanced
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.storage.places import is_object_url
from rowtide.storage.store import Store

_IDLE_ADVANCE_S = 10.0
_FIRST_LOOK_S, _LAST_LOOK_S = 0.1, 1.0
"""Seconds between reads of other processes' entries in an object store: the shortest after some were found, the longest
after none.
"""


@frozen
class CycleReport:
    """The result of a cycle: `instances` got rows; `is_heartbeat`: it published only a heartbeat."""

    cycle: int
    to_position: Position
    instances: tuple[str, ...]
    seconds: float
    figures: ScanFigures
    is_heartbeat: bool = False
    changes: tuple[change_files.InstanceChanges, ...] = ()


@frozen
class CycleOptions:
    """Limits of a cycle: at most `maxtrans` transactions (None: unlimited); rows larger than `most_row_bytes` are
    omitted (None: those that do not fit in memory). `widening`: what is done with tables whose columns get wider types.
    """

    engine: EngineSetting = EngineSetting.AUTO
    maxtrans: int | None = None
    most_row_bytes: int | None = None
    widening: Widening = WIDENED_BY_SIZE


_USUAL = CycleOptions()


class Capture:
    """The capture agent of one database, in the process that holds the lake lease."""

    def __init__(
        self,
        system_tables: SystemTables,
        store: Store,
        lease: LakeLease,
        *,
        options: CycleOptions = _USUAL,
        on_cycle: Callable[[CycleReport], None] = lambda _report: None,
        compact: Callable[[Compacted], None] = compact,
        find_awaited: Callable[[], CommitLsn | None] = lambda: None,
    ) -> None:
        """`compact` is called for tables in turn. `find_awaited` returns an LSN up to which somebody waits for a
        publication, at least of a heartbeat.
        """
        self._appender = ChangeAppender(system_tables, store, options.engine)
        self._maxtrans = options.maxtrans
        self._most_row_bytes = options.most_row_bytes or find_most_row_bytes()
        self._lake = system_tables.lake
        self._system_tables = system_tables
        self._store = store
        self._lease = lease
        self._manifest = lease.manifest
        self._on_cycle = on_cycle
        self._compact = compact
        self._find_awaited = find_awaited
        self._published: CommitLsn | None = None
        self._tables = InstanceTables(system_tables, lease, options.widening)
        system_tables.ensure()
        state = self._manifest.refresh()
        self._lake_state = system_tables.read()
        # Before anything is written: a restored lake lacks cycles whose log may have been removed, and the next cycle
        # would leave a gap that no reader notices.
        _require_log(self._lake_state, state)
        self._position = _starting_position(self._lake_state, state)
        self._is_continued = False
        self._require_continued(state)
        self._as_of: datetime | None = None
        self._is_behind = False
        self._changed_tables = 0
        self._phase = ScanPhase.FIRST_SCAN
        self._next_advance = 0.0
        self._next_look = 0.0
        self._look_pause_s = _FIRST_LOOK_S
        self._is_at_bucket = is_object_url(store.url(""))
        self._tables.retire_disabled(self._lake_state)

    @property
    def position(self) -> Position:
        """Everything below is published, or not a change of an instance."""
        return self._position

    @property
    def read_position(self) -> Position:
        """The end of the log store as of the last scan."""
        return self._manifest.state.position

    @property
    def is_behind(self) -> bool:
        """The last cycle did not take everything in the log store."""
        return self._is_behind

    @property
    def changed_tables(self) -> int:
        """The change tables to which the last cycle added rows."""
        return self._changed_tables

    def count_waiting(self) -> int:
        """Return the rows of the log that are not published, of those that the log reader has reported. Raises as
        `Manifest.refresh`.
        """
        self._manifest.apply_heard()
        state = self._manifest.state
        if state.position.epoch != self._position.epoch:
            return 0
        return sum(segment.rows for segment in segments_between(state, self._position, state.position))

    @property
    def phase(self) -> ScanPhase:
        """The present phase, or the one in which an error occurred."""
        return self._phase

    def step(self) -> bool:
        """Run one scan cycle; return whether there was anything to publish.

        Raises `RelationChanged` once everything before it is published, `LakeOfAnotherHistory`.
        """
        self._phase = ScanPhase.FIRST_SCAN
        state = self._follow()
        self._require_continued(state)
        state = self._omit_large(state)
        segments = change_files.SegmentReader(self._store)
        plan = self._plan(state, segments)
        if plan.is_empty and not (
            planning.is_heartbeat_due(plan, self._lake_state.last_time) or self._is_awaited(plan)
        ):
            self._move_to(plan, state)
            if time.monotonic() >= self._next_advance:
                self._advance()
            return False
        try:
            self._run(plan, state, segments)
        except AppendNotFound:
            # There is a later cycle: another process has taken over, or the table was restored.
            self._lease.require()
            raise
        self._compact_in_turn()
        self._is_behind = plan.to_position < state.position
        return True

    def _require_continued(self, state: ManifestState) -> None:
        """Verify that the log store continues the lake, once it has reached the lake's position."""
        position = self._lake_state.position
        if not self._is_continued:
            require_continued(self._lake, position, state, self._store)
            self._is_continued = position is None or position <= state.position

    def _follow(self) -> ManifestState:
        """Return the log store's state. In an object store, where each read is a request, it is read periodically, and
        immediately if the log reader has reported entries.
        """
        before = self._manifest.state.version
        has_all = self._manifest.apply_heard()
        if has_all and self._is_at_bucket:
            has_heard, now = self._manifest.state.version > before, time.monotonic()
            if has_heard:
                # The log reader reports its own entries; those of other processes are not urgent.
                self._next_look = now + _LAST_LOOK_S
            if now < self._next_look:
                return self._manifest.state
            state = self._manifest.refresh()
            has_found = state.version > before
            self._look_pause_s = _FIRST_LOOK_S if has_found else min(2 * self._look_pause_s, _LAST_LOOK_S)
            self._next_look = now + self._look_pause_s
            return state
        return self._manifest.refresh()

    @property
    def is_awaited(self) -> bool:
        """Whether something is still to be published up to the LSN that `find_awaited` returns."""
        awaited = self._find_awaited()
        return awaited is not None and (self._published is None or self._published < awaited)

    def _is_awaited(self, plan: planning.CyclePlan) -> bool:
        """Return whether a range without changes has the heartbeat that is awaited."""
        awaited = self._find_awaited()
        return (
            plan.heartbeat is not None
            and awaited is not None
            and plan.heartbeat.commit_lsn >= awaited
            and self.is_awaited
        )

    def _omit_large(self, state: ManifestState) -> ManifestState:
        """Record which transactions instances omit, before the cycle, so that a repeat decides the same."""
        active, token = _active(self._lake_state), self._lease.token
        for found in planning.find_too_large(state, active, self._position, self._most_row_bytes, lake_token=token):
            failpoint("transaction_omitted.before")
            state = self._manifest.append(found)
            failpoint("transaction_omitted.after")
        return state

    def _plan(self, state: ManifestState, segments: change_files.SegmentReader) -> planning.CyclePlan:
        active = _active(self._lake_state)
        # A recorded range is completed unchanged, whatever has arrived since: some tables may have its rows already,
        # and ignore them by the cycle's number.
        open_cycle = self._lake_state.open_cycle
        # A cycle over a gap has no range of the log: it is planned from the gap again, with the same result.
        if open_cycle is not None and open_cycle.from_position.epoch == open_cycle.to_position.epoch:
            return planning.plan_range(state, active, open_cycle.from_position, open_cycle.to_position)
        if self._position.epoch != state.epoch:
            return planning.plan_gap(state, active, self._position)
        plan = planning.plan_cycle(state, active, self._position)
        if self._maxtrans is None or plan.is_empty:
            return plan
        return planning.plan_range(
            state, active, plan.from_position, change_files.find_end(segments, plan, self._maxtrans)
        )

    def _run(self, plan: planning.CyclePlan, state: ManifestState, segments: change_files.SegmentReader) -> None:
        started = time.monotonic()
        cycle = self._lake_state.cycle + 1
        # A process that has lost the lake ends here, before it writes files. If it loses the lake later, its commits
        # are refused by their token.
        self._lease.require(state)
        if self._lake_state.open_cycle is None:
            # Checked before the cycle is recorded, because one that cannot be completed would be redone for ever.
            self._tables.require_fit(plan)
        with ThreadPoolExecutor(1, "rowtide-record") as pool:
            # Data files that no version names have no effect, so they are written while the cycle is being recorded.
            recording = pool.submit(self._record, plan, cycle)
            # Tables are created and altered only for a recorded range: another process may have recorded one that needs
            # other columns.
            if (plan.begun or plan.altered) and not self._wait_for_record(recording):
                return
            self._phase = ScanPhase.SECOND_SCAN
            self._tables.carry_types(plan)
            self._tables.ensure(plan, self._lake_state)
            captured = change_files.read_captured(segments, plan)
            enabled = {member.member_id for member in state.members}
            # Files are written before it is known whether this process's record won: without a commit they are part of
            # no table.
            prepared = self._appender.prepare(plan, cycle, segments, captured, enabled)
            if not self._wait_for_record(recording):
                return
        self._phase = ScanPhase.SECOND_SCAN
        # In this order, `lsn_time_mapping` last: its row makes all rows and instances of the cycle visible at the same
        # time. After a crash, each table's `txn` tells whether the table has the cycle.
        self._appender.commit(prepared, self._lease.token, meanwhile=self._lease.require)
        self._changed_tables = len(prepared.destinations)
        self._phase = ScanPhase.SCHEMA_VERSIONING
        events = _instance_events(plan, state, self._lake_state)
        self._system_tables.record_instances(cycle, events)
        self._phase = ScanPhase.LAST_SCAN
        figures = self._publish(plan, cycle, events, captured, prepared.engine)
        self._move_to(plan, state)
        self._tables.retire_ended(plan)
        self._advance()
        instances = tuple(work.lifetime.instance.capture_instance for work in plan.work)
        seconds = time.monotonic() - started
        changes = tuple(change_files.count_by_instance(captured, plan))
        self._on_cycle(CycleReport(cycle, plan.to_position, instances, seconds, figures, plan.is_empty, changes))

    def _record(self, plan: planning.CyclePlan, cycle: int) -> bool:
        """Record a cycle's range, in a thread of its own; return False if another process has recorded one under this
        number.
        """
        if self._lake_state.open_cycle is not None:
            return True
        recorded = RecordedCycle(cycle, plan.from_position, plan.to_position)
        return self._system_tables.record(recorded, self._lease.token)

    def _wait_for_record(self, recording: Future[bool]) -> bool:
        """Wait for the record of a cycle; return False if another process has recorded one, which is then redone.

        In that case the lake's state and the position are read again.
        """
        self._phase = ScanPhase.FIRST_SCAN
        if recording.result():
            return True
        self._lease.require()
        self._lake_state = self._system_tables.read()
        self._position = _starting_position(self._lake_state, self._manifest.refresh())
        return False

    def _publish(
        self,
        plan: planning.CyclePlan,
        cycle: int,
        events: Sequence[InstanceEvent],
        captured: Mapping[str, pa.Table],
        engine: Engine,
    ) -> ScanFigures:
        recorded = RecordedCycle(cycle, plan.from_position, plan.to_position)
        if plan.is_empty and plan.heartbeat is not None:
            transactions = change_files.dummy_transaction(plan.heartbeat)
        else:
            transactions = change_files.list_transactions(captured, self._lake_state.last_time)
            if plan.heartbeat is not None and self._is_awaited(plan):
                transactions = change_files.with_heartbeat(transactions, plan.heartbeat)
        # Before the publication, because a reader that sees the cycle may query its DDL immediately.
        self._system_tables.record_history(cycle, change_files.history_rows(cycle, plan.history, transactions))
        self._lake_state = self._system_tables.publish(self._lake_state, recorded, transactions, events)
        last = pc.max(transactions["start_lsn"]).as_py()
        self._published = CommitLsn(last) if last is not None else self._published
        return _figures(plan, transactions, change_files.count_changes(captured), engine)

    def _compact_in_turn(self) -> None:
        names = sorted(lifetime.instance.capture_instance for lifetime in _active(self._lake_state).values())
        for table in self._system_tables.list_due(self._lake_state.cycle, names):
            self._compact(table)

    def _move_to(self, plan: planning.CyclePlan, state: ManifestState) -> None:
        """Move to the end of a plan; at the end of the log store, the time is the log's own."""
        self._position = plan.to_position
        self._as_of = state.as_of if plan.to_position == state.position else self._lake_state.last_time

    def _advance(self) -> None:
        """Let the log store remove what is published."""
        self._next_advance = time.monotonic() + _IDLE_ADVANCE_S
        # After a power failure the lake may be ahead of a log store that lost its last entry; the log reader writes it
        # again.
        position = min(self._position, self._manifest.state.position)
        cycle = self._lake_state.cycle
        self._manifest.append(
            ReaderAdvanced(READER, position, cycle=cycle, as_of=self._as_of, lake_token=self._lease.token)
        )


def _active(lake_state: LakeState) -> dict[str, InstanceLifetime]:
    recorded = (row for row in lake_state.instances.values() if row.state == ENABLED)
    return {row.instance.member_id: InstanceLifetime(row.instance, row.lsn) for row in recorded}


def _instance_events(plan: planning.CyclePlan, state: ManifestState, lake_state: LakeState) -> list[InstanceEvent]:
    """Return the rows of `instances` for a plan, in log order; an instance resumed after a gap keeps its note."""
    suspended = {row.instance.member_id: row.note for row in lake_state.instances.values() if row.state == SUSPENDED}
    begun = [
        InstanceEvent(lifetime.instance, ENABLED, lifetime.begin, suspended.get(lifetime.instance.member_id))
        for lifetime in plan.begun
    ]
    ended = [_ending(lifetime, state) for lifetime in plan.ended]
    altered = [InstanceEvent(found.lifetime.instance, ALTERED, found.lsn) for found in plan.altered]
    missing = [InstanceEvent(skipped.lifetime.instance, SKIPPED, skipped.lsn, skipped.note) for skipped in plan.skipped]
    return sorted([*begun, *ended, *altered, *missing], key=lambda event: event.lsn)


def _ending(lifetime: InstanceLifetime, state: ManifestState) -> InstanceEvent:
    if lifetime.end is not None:
        return InstanceEvent(lifetime.instance, DISABLED, lifetime.end)
    gap = planning.last_gap(state)
    note = f"nothing was captured from {gap.after} up to {gap.before}: {gap.reason}"
    return InstanceEvent(lifetime.instance, SUSPENDED, CommitLsn(gap.before.value), note)


def _figures(plan: planning.CyclePlan, transactions: pa.Table, changes: int, engine: Engine) -> ScanFigures:
    lsns, times = transactions["start_lsn"], transactions["tran_commit_time"]
    return ScanFigures(
        from_position=plan.from_position,
        to_position=plan.to_position,
        tran_count=transactions.num_rows,
        command_count=changes,
        log_record_count=sum(segment.rows for segment in plan.segments),
        schema_change_count=len(plan.begun) + len(plan.ended) + len(plan.history),
        first_lsn=CommitLsn(lsns[0].as_py()) if transactions.num_rows else None,
        last_lsn=CommitLsn(lsns[-1].as_py()) if transactions.num_rows else None,
        last_commit_time=times[-1].as_py() if transactions.num_rows else None,
        engine=engine,
    )


def _require_log(lake_state: LakeState, state: ManifestState) -> None:
    if is_behind(lake_state, state) and not _begins_again(lake_state, state):
        raise LakeBehindLog(f"cycle {lake_state.cycle}", f"cycle {state.readers[READER].cycle}")


def _begins_again(lake_state: LakeState, state: ManifestState) -> bool:
    """Return whether all instances begin again after a gap, whatever the lake lacks."""
    position = lake_state.position
    return position is None or (position.epoch != state.epoch and not planning.last_gap(state).bridged)


def _starting_position(lake_state: LakeState, state: ManifestState) -> Position:
    """Return the lake's position, or a later one up to which the log store has recorded that nothing for capture
    follows.
    """
    reader = state.readers.get(READER)
    # The lake's position only moves with cycles. Ranges without captured changes only move the reader's entry.
    known = [lake_state.position, reader.position if reader is not None else None]
    return max((position for position in known if position is not None), default=state.low)
