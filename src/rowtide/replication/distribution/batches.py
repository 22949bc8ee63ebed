"""Group source transactions into batches, each one transaction at the subscriber. Pure.

(SQL Server: -CommitBatchSize, -CommitBatchThreshold.) A source transaction is never divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.replication.articles import Article
from rowtide.replication.distribution.encoding import Arguments, Calls
from rowtide.replication.subscription_settings import SubscriptionSettings

COMMIT_BATCH_SIZE = 100
COMMIT_BATCH_THRESHOLD = 1000


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch ends with the source transaction that reaches either limit: number of transactions, or of commands."""

    transactions: int = COMMIT_BATCH_SIZE
    commands: int = COMMIT_BATCH_THRESHOLD

    @classmethod
    def of(cls, settings: SubscriptionSettings) -> BatchLimits:
        """Return a subscription's limits."""
        return cls(
            settings.commit_batch_size or COMMIT_BATCH_SIZE, settings.commit_batch_threshold or COMMIT_BATCH_THRESHOLD
        )


class Call(NamedTuple):
    """What is run for a change, with its transaction's commit LSN and its number in it (SQL Server: command_id)."""

    lsn: int
    seqval: int
    article: Article
    operation: Operation
    arguments: Arguments


def in_order(calls: Iterable[Calls]) -> Iterator[Call]:
    """Return calls of several articles and operations in log order."""
    groups = list(calls)
    if not groups:
        return
    lsns = np.concatenate([group.commit_lsn for group in groups])
    seqvals = np.concatenate([group.seqval for group in groups])
    owners = np.repeat(np.arange(len(groups)), [len(group.arguments) for group in groups])
    places = np.concatenate([np.arange(len(group.arguments)) for group in groups])
    order = np.lexsort((seqvals, lsns))
    sorted_columns = (column[order].tolist() for column in (lsns, seqvals, owners, places))
    for lsn, seqval, owner, place in zip(*sorted_columns, strict=True):
        group = groups[owner]
        yield Call(lsn, seqval, group.article, group.operation, group.arguments[place])


class Cutter:
    """Decides, call by call, where a batch ends."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._transactions = 0
        self._commands = 0
        self._lsn: int | None = None

    def ends_before(self, lsn: int) -> Position | None:
        """Count the next call; if a batch ends before it, return the position that the batch reached."""
        reached = None
        if lsn != self._lsn:
            if self._lsn is not None and self._is_full:
                reached = Position(self._lsn + 1)
                self._transactions = self._commands = 0
            self._transactions += 1
            self._lsn = lsn
        self._commands += 1
        return reached

    @property
    def _is_full(self) -> bool:
        return self._transactions >= self._limits.transactions or self._commands >= self._limits.commands
