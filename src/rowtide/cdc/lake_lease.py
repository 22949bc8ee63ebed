"""The right to write one lake: an advisory lock in the source database, and a fencing token in the manifest."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rowtide.log.errors import LeaseLost
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState
from rowtide.storage.store import Store

LAKE: Final = "lake"


@dataclass(frozen=True, slots=True)
class LakeLease:
    """The lease of a process that captures, compacts or cleans up; `verify` raises if the session that holds it is
    gone.
    """

    manifest: Manifest
    token: int
    verify: Callable[[], None]

    @classmethod
    def take(cls, store: Store, lease: AdvisoryLease) -> LakeLease:
        """Take a new token for the holder of the lake's advisory lock. Raises `ManifestMissing`."""
        manifest = Manifest.open(store)
        return cls(manifest, manifest.take_lease(LAKE, describe_holder()), lease.verify)

    def for_thread(self, verify: Callable[[], None]) -> LakeLease:
        """Return the same lease for another thread, which `verify` is for. Raises `ManifestMissing`."""
        return LakeLease(Manifest.open(self.manifest.store), self.token, verify)

    def require(self, state: ManifestState | None = None) -> None:
        """Raise unless this process still holds the lake: the session lives, and no token is newer. Raises
        `LeaseLost`.
        """
        self.verify()
        lease = (state or self.manifest.refresh()).leases.get(LAKE)
        if lease is None or lease.token != self.token:
            raise LeaseLost(LAKE, lease.holder if lease is not None else "nobody")


@dataclass(frozen=True, slots=True)
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
