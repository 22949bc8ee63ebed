"""The right to write one lake: a lease on its source, a fencing token, and whether the lake continues the log store.

The tables have the holder's number, too, where the last one did not give the lake up: see `delta.writing.commit_race`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.definitions import READER
from rowtide.cdc.errors.capturing import LakeOfAnotherHistory
from rowtide.cdc.published import LastTransaction, read_last_transaction
from rowtide.cdc.system_tables import LakeState
from rowtide.core.errors import RowtideError
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.delta.writing.commit_race import fence_all, hold
from rowtide.lake.stores import calls_at_once, locate
from rowtide.log.membership import Heartbeat
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder, end_sessions
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.replay import require_lease
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.storage.store import Store

LAKE: Final = "lake"
NOBODY: Final = "nobody"
"""Stands in the manifest where the last holder gave the lake up."""
KNOWN_FOR_S = 60.0
"""How long the other threads of a process build on capture's last look at the manifest, as a cycle does on its own.
What decides is elsewhere: the session that holds the lease is asked for each time, and who takes the lake fences its
tables.
"""


@frozen
class LakeLease:
    """The lease of a process that captures, compacts or cleans up; `verify` raises if the session that holds it is
    gone.
    """

    manifest: Manifest
    token: int
    verify: Callable[[], None]
    capture: Manifest | None = None
    """The manifest of capture's thread, for the lease of another one."""

    @classmethod
    def take(
        cls,
        store: Store,
        lease: AdvisoryLease,
        lake: str | None = None,
        list_tables: Callable[[str], Iterable[str]] = lambda _lake: (),
    ) -> LakeLease:
        """Take a new token for the holder of the lake's advisory lock.

        Unless the last holder gave it up, its sessions are ended, and the tables of `lake` fenced from it: it may be
        stopped, and wake. One that cannot be read does not prevent work on the others; it is written once it is fenced.
        `list_tables` returns their paths. Raises `ManifestMissing`, `ConnectionFailed` if the session that has the lock
        is gone.
        """
        manifest = Manifest.open(store)
        last = manifest.state.leases.get(LAKE)
        token = manifest.take_lease(LAKE, describe_holder(), verify=lease.verify)
        if lake is not None:
            # Not the token: a log store that was lost begins again with low ones.
            number = _milliseconds(manifest.state.leases[LAKE].taken_at)
            unfenced: set[str] = set()
            if last is None or last.holder != NOBODY:
                if last is not None:
                    # A stopped process is not waited for: its sessions may hold locks that the next cycle needs.
                    end_sessions(lease.connection, last.holder)
                    # Clocks of machines differ: the number rises above the last holder's even where this clock is
                    # behind.
                    number = max(number, _milliseconds(last.taken_at) + 1)
                locations = [locate(path) for path in list_tables(lake)]
                at_once = calls_at_once(location.store for location in locations)
                number = fence_all(locations, number, at_once=at_once, pass_over=unfenced.add)
            hold(lake, number, unfenced)
        return cls(manifest, token, lease.verify)

    def resign(self) -> None:
        """Note that this process writes nothing any more; the next holder need not fence its tables. Idempotent."""
        # On the way out, maybe because the store has failed: the next holder then fences the tables, which is right in
        # any case.
        with suppress(RowtideError):
            self.manifest.give_up_lease(LAKE, self.token, NOBODY)

    def for_thread(self, verify: Callable[[], None]) -> LakeLease:
        """Return the same lease for another thread, which `verify` is for. Raises `ManifestMissing`."""
        return LakeLease(Manifest.open(self.manifest.store), self.token, verify, self.manifest)

    def require(self, state: ManifestState | None = None) -> None:
        """Raise unless this process still holds the lake: the session lives, and no token is newer. Raises
        `LeaseLost`.
        """
        self.verify()
        require_lease(state or self._read_state(), LAKE, self.token)

    def _read_state(self) -> ManifestState:
        if self.capture is None:
            return self.manifest.refresh()
        return self.manifest.follow(self.capture, KNOWN_FOR_S)


def _milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


@frozen
class SharedLease:
    """A lease that several threads verify, one at a time."""

    lease: LakeLease
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def token(self) -> int:
        """The lease's fencing token."""
        return self.lease.token

    def require(self) -> None:
        """Raise unless this process still holds the lake. Raises `LeaseLost`."""
        with self._lock:
            self.lease.require()


# Whether a lake continues the log store that it is captured from: one of them may have been restored alone. A
# database and its log store that were restored together write other transactions at LSNs that the lake knows. So what
# the lake published last has to be in the log store, with the same commit time.


def is_behind(lake_state: LakeState, state: ManifestState) -> bool:
    """Return whether the log store has recorded more cycles than the lake has: the lake was restored."""
    reader = state.readers.get(READER)
    return reader is not None and reader.cycle > lake_state.cycle


def find_contradiction(
    lake: str, position: Position | None, state: ManifestState, store: Store, *, is_read_on: bool = True
) -> str | None:
    """Return why the log store cannot be the one from which a lake was captured up to a position; None if nothing
    contradicts it.

    What the lake published last is read only where the log store has not recorded that capture was that far: after a
    crash, or a restore. A log store that is not that far, and `is_read_on`, says nothing: after a power cut it lacks
    its last entries, which the log reader reads again. Raises `LogStoreReadFailed`.
    """
    reader = state.readers.get(READER)
    if position is None or (reader is not None and position <= reader.position):
        return None
    if position.epoch > state.epoch:
        return f"the lake was captured up to {position}, and the log store is at {state.position}, an epoch before"
    if position > state.position:
        behind = f"the lake was captured up to {position}, and the log was read up to {state.position}"
        return None if is_read_on else behind
    last = read_last_transaction(lake)
    if last is None or last.lsn.epoch < state.epoch or state.low.covers(last.lsn) or _has(last, state, store):
        return None
    return f"it lacks the transaction of {last.committed_at} at LSN {last.lsn}, which the lake has"


def _has(last: LastTransaction, state: ManifestState, store: Store) -> bool:
    if any(
        isinstance(event, Heartbeat) and event.commit_lsn == last.lsn and event.committed_at == last.committed_at
        for event in state.events
    ):
        return True
    begin, end = Position(last.lsn.value), Position(last.lsn.value + 1)
    return any(_is_in(last, segment.path, store) for segment in segments_between(state, begin, end))


def _is_in(last: LastTransaction, path: str, store: Store) -> bool:
    records = read_segment(store, path, ("commit_lsn", "commit_time"))
    found = records.filter(pc.equal(records["commit_lsn"], pa.scalar(last.lsn.value, pa.int64())))
    return last.committed_at in found["commit_time"].to_pylist()


def require_continued(
    lake: str, position: Position | None, state: ManifestState, store: Store, *, is_read_on: bool = True
) -> None:
    """Raise `LakeOfAnotherHistory` where `find_contradiction` finds one."""
    contradiction = find_contradiction(lake, position, state, store, is_read_on=is_read_on)
    if contradiction is not None:
        raise LakeOfAnotherHistory(contradiction)
