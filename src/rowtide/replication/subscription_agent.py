"""One subscription from its first row on: what its subscriber lacks is copied, then its changes are delivered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from rowtide.core.lsn import Position
from rowtide.replication.distribution.agent import DistributionAgent
from rowtide.replication.snapshot.agent import SnapshotAgent
from rowtide.replication.snapshot.target import SnapshotState, SnapshotStatus, SnapshotTarget

OpenDistribution = Callable[[SnapshotState], AbstractContextManager[DistributionAgent]]


class SubscriptionAgent:
    """A snapshot agent until its work is done, a distribution agent from then on. Use as a context manager."""

    def __init__(
        self,
        target: SnapshotTarget,
        open_snapshot: Callable[[], SnapshotAgent],
        open_distribution: OpenDistribution,
    ) -> None:
        self._target = target
        self._open_snapshot = open_snapshot
        self._open_distribution = open_distribution
        self._snapshot: SnapshotAgent | None = None
        self._distribution: DistributionAgent | None = None
        self._held = ExitStack()

    @property
    def position(self) -> Position | None:
        """Everything below is delivered; None while rows are copied."""
        return self._distribution.position if self._distribution is not None else None

    def step(self) -> bool:
        """Do one piece of work; return whether there was any. Raises what either agent raises."""
        if self._distribution is not None:
            return self._distribution.step()
        state = self._target.read_state()
        if state.status is SnapshotStatus.COPYING:
            self._snapshot = self._snapshot or self._open_snapshot()
            return self._snapshot.step()
        if state.status is SnapshotStatus.DELIVERED:
            # One connection is enough from here on.
            self._target.close()
        self._distribution = self._held.enter_context(self._open_distribution(state))
        return True

    def __enter__(self) -> SubscriptionAgent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, trace)
