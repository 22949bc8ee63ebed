"""The right to write one lake: a lease on its source, and a fencing token.

The tables get the holder's number too if the last holder did not release the lake: see `delta.writing.fences`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Final

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.delta.writing.commit_race import hold
from rowtide.delta.writing.fences import fence_all
from rowtide.lake.stores import calls_at_once, locate
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder, end_sessions
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.replay import require_lease
from rowtide.log.store.state import ManifestState
from rowtide.storage.store import Store

LAKE: Final = "lake"
NOBODY: Final = "nobody"
"""The holder in the manifest after the last one released the lake."""
KNOWN_FOR_S = 60.0
"""How long other threads of the process rely on capture's last read of the manifest, as a cycle relies on its own. What
decides is elsewhere: the session that holds the lease is asked for each time, and who takes the lake fences its tables.
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

        Unless the last holder released it, its sessions are ended, and the tables of `lake` are fenced from it, because
        it may be stopped, and wake up. A table that cannot be read does not prevent work on the others; it is written
        only after it is fenced. `list_tables` returns their paths. Raises `ManifestMissing`, `ConnectionFailed` if the
        session that has the lock is gone.
        """
        manifest = Manifest.open(store)
        last = manifest.state.leases.get(LAKE)
        token = manifest.take_lease(LAKE, describe_holder(), verify=lease.verify)
        if lake is not None:
            # Not the token, because tokens start from low numbers again if the log store is lost.
            number = _milliseconds(manifest.state.leases[LAKE].taken_at)
            unfenced: set[str] = set()
            if last is None or last.holder != NOBODY:
                if last is not None:
                    # The sessions of a stopped process may hold locks that the next cycle needs, so they are ended.
                    end_sessions(lease.connection, last.holder)
                    # Clocks of machines differ: the number is above the last holder's even if this clock is behind.
                    number = max(number, _milliseconds(last.taken_at) + 1)
                locations = [locate(path) for path in list_tables(lake)]
                at_once = calls_at_once(location.store for location in locations)
                number = fence_all(locations, number, at_once=at_once, pass_over=unfenced.add)
            hold(lake, number, unfenced)
        return cls(manifest, token, lease.verify)

    def release(self) -> None:
        """Release the lake: this process writes nothing any more, and the next holder need not fence its tables.
        Idempotent.
        """
        # Errors are ignored, since this may run because the store has failed: the next holder then fences the tables,
        # which is always correct.
        with suppress(RowtideError):
            self.manifest.give_up_lease(LAKE, self.token, NOBODY)

    def for_thread(self, verify: Callable[[], None]) -> LakeLease:
        """Return the same lease for another thread, to which `verify` belongs. Raises `ManifestMissing`."""
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
