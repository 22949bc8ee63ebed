"""Cleanup: first all low endpoints move at once, then the rows below them are deleted, one table at a time.

In between, the net effect of the rows is added to the instance's base (`rolling`).

(SQL Server: the cleanup job, sp_cdc_cleanup_change_table.) After a failure or crash at any point, readers see all rows
of their interval or an error: a failed deletion does not move endpoints back, and the next cleanup completes it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import UTC, datetime

from rowtide.cdc.cleanup import retention
from rowtide.cdc.cleanup.retention import (
    CleanupsTable,
    ConsumerLimit,
    LowWaterMark,
    LowWaterMarks,
    MarkReference,
    RecordedCleanup,
)
from rowtide.cdc.cleanup.rolling import Base, BeforeCommit
from rowtide.cdc.consumers.consumers import Consumer
from rowtide.cdc.errors.capturing import CleanupImplausible, LowWaterMarkOutOfRange, LowWaterMarkUnknown
from rowtide.cdc.errors.jobs import ConsumersBehind
from rowtide.cdc.errors.querying import InstanceUnknown, QueryFailed, TypesDiffer
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.published import RecordedInstance, change_table_path, system_table_path
from rowtide.cdc.recorded_snapshots import read_snapshots
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.system_tables import LakeState, SystemTables
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed, TableUnreadable
from rowtide.delta.writing.changes import Below
from rowtide.lake.tables import delete_rows, vacuum

READER_GRACE_S = 10.0
"""The time from the move of low endpoints to the first deletion, within which a query that found its range valid has
read its rows.
"""

Refusal = InstanceUnknown | LowWaterMarkUnknown | LowWaterMarkOutOfRange | CleanupImplausible | ConsumersBehind
"""Errors by which an order is refused."""


@frozen
class Cleaned:
    """What a cleanup did to one table; `low` is an instance's low endpoint, None for system tables."""

    name: str
    low: CommitLsn | None
    removed_rows: int
    failure: str | None = None


@frozen
class _BaseWork:
    """Work on an instance's base: the net effect of the change rows to be deleted is added, or its layers are
    merged.
    """

    name: str
    base: Base
    is_roll: bool

    def run(self, before_commit: BeforeCommit) -> None:
        if self.is_roll:
            self.base.roll(before_commit)
        else:
            self.base.tidy(before_commit)


Start = Callable[[Callable[[BeforeCommit], None]], "Future[None]"]
"""Starts long work, which calls its argument before each commit."""


@frozen
class _Piece:
    """A table and the rows to delete."""

    name: str
    path: str
    rows: Below
    low: CommitLsn | None = None


class Cleanup:
    """Cleans up one lake, for the holder of its lease, in steps between which capture can run; one order at a time."""

    def __init__(
        self,
        system_tables: SystemTables,
        lease: LakeLease,
        list_consumers: Callable[[], Iterable[Consumer]] = tuple,
        vacuum: Callable[[str], None] = vacuum,
        start: Start | None = None,
    ) -> None:
        """`list_consumers` returns the consumers for which cleanup waits; `vacuum` is called for each cleaned table.

        `start` starts work on bases; None: the work is done in `step`.
        """
        self._lake = system_tables.lake
        self._system_tables = system_tables
        self._lease = lease
        self._list_consumers = list_consumers
        self._vacuum = vacuum
        self._marks = LowWaterMarks(system_tables.lake)
        self._start = start or self._run_now
        self._works: deque[_Piece | _BaseWork] = deque()
        self._running: Future[None] | None = None
        self._not_before = 0.0
        self._failures: dict[str, str] = {}
        self._cleaned: list[Cleaned] = []
        self._notes: list[str] = []

    @property
    def is_done(self) -> bool:
        """The last order has been completed."""
        return not self._works

    @property
    def remaining(self) -> int:
        """The number of tables that are still to be cleaned."""
        return sum(isinstance(work, _Piece) for work in self._works)

    @property
    def cleaned(self) -> tuple[Cleaned, ...]:
        """What was done for the last order."""
        return tuple(self._cleaned)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the caller: the consumers for which cleanup waits."""
        return tuple(self._notes)

    def begin(self, order: CleanupOrder) -> None:
        """Move the low endpoints that an order moves; `step` deletes the rows below them.

        Raises the errors of `Refusal`, `LeaseLost`.
        """
        self._lease.require()
        self._cleaned.clear()
        self._notes.clear()
        self._failures.clear()
        cleanups = CleanupsTable(self._system_tables)
        last = cleanups.read_last()
        if last is not None:
            # A process may have died between recording a cleanup and moving the endpoints, which is then done here.
            self._move(cleanups, last, self._system_tables.read())
        # Read again: the cleanup that was completed above may have moved endpoints.
        state = self._system_tables.read()
        chosen = retention.choose(state.instances.values(), order)
        if order.capture_instance is not None and not chosen:
            raise InstanceUnknown(order.capture_instance)
        mark = self._find_mark(order, chosen, last)
        if mark is not None and retention.below(chosen, mark):
            number = last.number + 1 if last is not None else 1
            cleanup = RecordedCleanup(number, state.cycle, order.capture_instance, mark, datetime.now(UTC))
            # Recorded before anything moves, so that a process which takes over moves the same endpoints.
            if not cleanups.record(cleanup, self._lease.token):
                # Another process recorded it, which holds the lake now, or held it a moment ago.
                self.begin(order)
                return
            self._move(cleanups, cleanup, state)
        # Also if nothing moved now: another process may have moved the endpoints just before it died.
        self._not_before = time.monotonic() + READER_GRACE_S
        self._plan_deletions(order)

    def step(self) -> bool:
        """Do the next piece of work; return whether one was ready. Raises `LeaseLost`."""
        if self.is_done:
            return False
        work = self._works[0]
        if isinstance(work, _BaseWork):
            return self._advance(work)
        # Readers verify their range, then read: the rows have to stay for as long as that may take.
        if time.monotonic() < self._not_before:
            return False
        self._lease.require()
        self._works.popleft()
        self._cleaned.append(self._clean(work))
        return True

    def _advance(self, work: _BaseWork) -> bool:
        """Start work on a base, or end it; return whether it has ended."""
        if self._running is None:
            self._lease.require()
            self._running = self._start(work.run)
        if not self._running.done():
            return False
        ended, self._running = self._running, None
        self._works.popleft()
        try:
            ended.result()
            if not work.is_roll:
                self._vacuum(work.base.path)
        # A failing base affects only its instance: the change rows, which the base lacks, stay, and the other tables
        # are cleaned.
        except (LakeWriteFailed, LakeReadFailed, TableUnreadable, QueryFailed, TypesDiffer) as error:
            if work.is_roll:
                self._failures[work.name] = str(error)
            else:
                self._cleaned.append(Cleaned(f"{work.name}_base", None, 0, str(error)))
        # A SQL statement may have opened the base before this, and the change table after it.
        self._not_before = max(self._not_before, time.monotonic() + READER_GRACE_S if work.is_roll else 0.0)
        return True

    def _run_now(self, work: Callable[[BeforeCommit], None]) -> Future[None]:
        done: Future[None] = Future()
        try:
            work(self._lease.require)
        except RowtideError as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _find_mark(
        self, order: CleanupOrder, chosen: Iterable[RecordedInstance], last: RecordedCleanup | None
    ) -> LowWaterMark | None:
        """Return the mark to which low endpoints move, None if they stay."""
        if not order.moves:
            return None
        if order.low_water_mark is not None:
            mark = self._marks.at(order.low_water_mark)
            for recorded in chosen if order.capture_instance is not None else ():
                retention.require_in_interval(recorded, mark)
            retention.require_acknowledged(mark, self._find_limits(chosen))
            return mark
        found = self._marks.by_retention(order.retention)
        reference = self._find_reference(chosen, last)
        # Otherwise a clock that is wrong by years would delete everything that retention still covers.
        if found is not None and reference is not None and not order.is_forced:
            retention.require_plausible(found, reference, datetime.now(UTC))
        return self._lower_for_consumers(found, chosen) if found is not None else None

    def _lower_for_consumers(self, mark: LowWaterMark, chosen: Iterable[RecordedInstance]) -> LowWaterMark:
        """Return the mark, lowered so that it passes no consumer."""
        holding = [hold for hold in self._find_limits(chosen) if hold.mark.lsn < mark.lsn]
        self._notes += (f"consumer {hold.consumer} holds the low-water mark at {hold.mark.lsn}" for hold in holding)
        return min([mark, *(hold.mark for hold in holding)], key=lambda held: held.lsn)

    def _find_limits(self, chosen: Iterable[RecordedInstance]) -> Iterator[ConsumerLimit]:
        names = {recorded.instance.capture_instance for recorded in chosen}
        for consumer in self._list_consumers():
            if names.isdisjoint(consumer.instance_names):
                continue
            last = consumer.acknowledged_lsn
            acknowledged = self._marks.up_to(last) if last is not None else None
            hold = retention.find_consumer_limit(consumer.name, acknowledged, self._marks.by_retention(consumer.limit))
            if hold is not None:
                yield hold

    def _find_reference(self, chosen: Iterable[RecordedInstance], last: RecordedCleanup | None) -> MarkReference | None:
        if last is not None and last.capture_instance is None:
            return MarkReference(last.mark.time, last.began_at)
        low = min((recorded.lsn for recorded in chosen), default=None)
        return self._marks.reference(low) if low is not None else None

    def _move(self, cleanups: CleanupsTable, cleanup: RecordedCleanup, state: LakeState) -> None:
        """Carry out a recorded cleanup; the table's transaction identifier makes a repeat harmless."""
        order = CleanupOrder(cleanup.capture_instance)
        moved = retention.below(retention.choose(state.instances.values(), order), cleanup.mark)
        cleanups.move(cleanup, [recorded.instance for recorded in moved])

    def _plan_deletions(self, order: CleanupOrder) -> None:
        instances = self._system_tables.read().instances.values()
        chosen = retention.choose(instances, order)
        snapshots = read_snapshots(self._lake)
        bases = [Base(self._lake, one.instance, one.lsn) for one in chosen if one.instance.member_id in snapshots]
        copied = {base.instance.capture_instance: base for base in bases if base.has_snapshots()}
        ends = {name: base.find_end() for name, base in copied.items()}
        # A base gets the net effect of change rows before these are deleted, so that a reader finds each row in one of
        # the two.
        self._works = deque(_BaseWork(name, base, is_roll=True) for name, base in copied.items())
        self._works += (_change_rows(self._lake, one, ends.get(one.instance.capture_instance)) for one in chosen)
        if order.capture_instance is None:
            self._works += self._system_rows(chosen, ends)
        self._works += (_BaseWork(name, base, is_roll=False) for name, base in copied.items())

    def _system_rows(self, enabled: Collection[RecordedInstance], ends: Mapping[str, CommitLsn]) -> Iterator[_Piece]:
        """Yield the rows of the lake's system tables that lie below all change rows that are kept."""
        low = min((recorded.lsn for recorded in enabled), default=None)
        cycle = self._marks.cycle_of(low) if low is not None else None
        if low is None or cycle is None:
            return
        older = Below("cycle", cycle)
        # Rows of a table without a key may be kept below its low endpoint, while a snapshot is made: their transactions
        # stay with them.
        transactions = Below("start_lsn", min(low, *ends.values()).value if ends else low.value, if_null=older)
        for name, rows in (("lsn_time_mapping", transactions), ("cycles", older)):
            yield _Piece(name, system_table_path(self._lake, name), rows)

    def _find_failure(self, piece: _Piece) -> str | None:
        """Return why a table's rows must stay: their net effect is missing in the base, or cannot be determined."""
        is_system_table = piece.low is None
        return next(iter(self._failures.values()), None) if is_system_table else self._failures.get(piece.name)

    def _clean(self, piece: _Piece) -> Cleaned:
        failure = self._find_failure(piece)
        if failure is not None:
            return Cleaned(piece.name, piece.low, 0, failure)
        try:
            failpoint("rows_removal.before")
            removed = delete_rows(piece.path, piece.rows)
            failpoint("rows_removal.after")
            self._vacuum(piece.path)
        except LakeWriteFailed as error:
            # The other tables are cleaned nevertheless; the caller gets the reason.
            return Cleaned(piece.name, piece.low, 0, str(error))
        finally:
            self._system_tables.committer.forget(piece.path)
        return Cleaned(piece.name, piece.low, removed)


def _change_rows(lake: str, recorded: RecordedInstance, end: CommitLsn | None) -> _Piece:
    """Return an instance's rows below its low endpoint, or below an LSN before that."""
    name = recorded.instance.capture_instance
    rows = Below("__$start_lsn", (end or recorded.lsn).value)
    return _Piece(name, change_table_path(lake, name), rows, recorded.lsn)
