"""How snapshots begin: the mark below which they see the log, what they wait for, and the chunks of their tables."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import numpy as np

from rowtide.cdc.errors.capturing import SnapshotCopyBroken
from rowtide.cdc.lake_lease import SharedLease
from rowtide.cdc.recorded_snapshots import RecordedSnapshot, SnapshotDefinition, SnapshotState
from rowtide.cdc.snapshot_requests import SnapshotRequest
from rowtide.cdc.snapshots import chunk_copies
from rowtide.cdc.snapshots.table_copy import TableCopy
from rowtide.copying.chunks import Key, TransactionSnapshot, format_snapshot
from rowtide.copying.errors import CopiedTableDropped
from rowtide.copying.present_tables import PresentTable
from rowtide.copying.source import PostgresCopySource
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.events import catalogue as events
from rowtide.events.event import emit, format_places
from rowtide.log.errors import LeaseLost

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

        An alteration of the table after `before` is recorded above the snapshot's LSN, so the copied rows must not have
        it.
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
            # An unexpected error: this copy fails, and the others are planned.
            emit(events.CopyBroken(instance.capture_instance, error, format_places(error)))
            return SnapshotCopyBroken(instance.capture_instance, f"{type(error).__name__}: {error}")

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
