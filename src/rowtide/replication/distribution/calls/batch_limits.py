"""Batches of source transactions, each one transaction at the subscriber. Pure.

(SQL Server: -CommitBatchSize, -CommitBatchThreshold.) A source transaction is never divided.
"""

from __future__ import annotations

from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.replication.conflicts import Resolver
from rowtide.replication.subscription_settings import SubscriptionSettings

COMMIT_BATCH_SIZE = 10_000
COMMIT_BATCH_THRESHOLD = 100_000
"""Defaults. A batch takes what the log store has, and never waits for more: only a backlog has batches so large."""


@frozen
class BatchLimits:
    """A batch ends with the source transaction that reaches either limit: number of transactions, or of commands."""

    transactions: int = COMMIT_BATCH_SIZE
    commands: int = COMMIT_BATCH_THRESHOLD

    @classmethod
    def of(cls, settings: SubscriptionSettings) -> BatchLimits:
        """Return a subscription's limits; where commit times decide, each transaction has its own."""
        if settings.conflicts is Resolver.LAST_COMMIT_TIME:
            return cls(transactions=1)
        return cls(
            settings.commit_batch_size or COMMIT_BATCH_SIZE, settings.commit_batch_threshold or COMMIT_BATCH_THRESHOLD
        )

    def at_most(self, other: BatchLimits) -> BatchLimits:
        """Return the lower limits of both."""
        return BatchLimits(min(self.transactions, other.transactions), min(self.commands, other.commands))


ONE_BY_ONE = BatchLimits(100, 1000)
"""Limits of batches that are sent row by row after a refusal: all but the last of them are committed before it."""


class BatchSplitter:
    """Decides, transaction by transaction, where a batch ends."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._transactions = 0
        self._commands = 0
        self._lsn: int | None = None

    def ends_before(self, lsn: int, commands: int = 1) -> Position | None:
        """Count the next calls of a transaction; if a batch ends before them, return the position that it reached.

        A transaction may come in several parts.
        """
        reached = None
        if lsn != self._lsn:
            if self._lsn is not None and self._is_full:
                reached = Position(self._lsn + 1)
                self._transactions = self._commands = 0
            self._transactions += 1
            self._lsn = lsn
        self._commands += commands
        return reached

    @property
    def _is_full(self) -> bool:
        return self._transactions >= self._limits.transactions or self._commands >= self._limits.commands
