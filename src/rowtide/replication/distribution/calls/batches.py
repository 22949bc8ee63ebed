"""Group source transactions into batches, each one transaction at the subscriber. Pure.

(SQL Server: -CommitBatchSize, -CommitBatchThreshold.) A source transaction is never divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution.calls.encoding import Arguments, Calls
from rowtide.replication.distribution.calls.inserted_rows import InsertedRows
from rowtide.replication.subscription_settings import SubscriptionSettings

COMMIT_BATCH_SIZE = 10_000
COMMIT_BATCH_THRESHOLD = 100_000
"""A batch takes what the log store has, and never waits for more: so large is one of a backlog only."""
LEAST_BLOCK = 20
"""Fewer inserts in a row are single calls."""


@dataclass(frozen=True, slots=True)
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
"""The limits of what is delivered row by row after a refusal."""


class Call(NamedTuple):
    """What is run for a change, with its transaction's commit LSN and its number in it (SQL Server: command_id)."""

    lsn: int
    seqval: int
    article: Article
    operation: Operation
    arguments: Arguments


class Block(NamedTuple):
    """Inserts of one article that follow each other in one transaction, with their numbers in it."""

    lsn: int
    seqvals: npt.NDArray[np.int64]
    article: Article
    rows: InsertedRows

    def calls(self) -> Iterator[Call]:
        """Return them one by one."""
        for place, seqval in enumerate(self.seqvals.tolist()):
            yield Call(self.lsn, seqval, self.article, Operation.INSERT, self.rows[place])


def in_order(calls: Iterable[Calls]) -> Iterator[Call]:
    """Return calls of several articles and operations in log order."""
    ordered = _Ordered.of(calls)
    return ordered.calls(0, ordered.count)


def in_blocks(calls: Iterable[Calls]) -> Iterator[Call | Block]:
    """Return calls as `in_order`, inserts of many rows as blocks."""
    ordered = _Ordered.of(calls)
    begun = 0
    for start, end in ordered.find_blocks():
        yield from ordered.calls(begun, start)
        yield ordered.block(start, end)
        begun = end
    yield from ordered.calls(begun, ordered.count)


@dataclass(frozen=True, slots=True)
class _Ordered:
    """Calls of several groups in log order: of each its place in the log, its group, and its place there."""

    groups: list[Calls]
    lsns: npt.NDArray[np.int64]
    seqvals: npt.NDArray[np.int64]
    owners: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]

    @classmethod
    def of(cls, calls: Iterable[Calls]) -> _Ordered:
        groups = list(calls)
        none = np.empty(0, dtype=np.int64)
        lsns = np.concatenate([none, *(group.commit_lsn for group in groups)])
        seqvals = np.concatenate([none, *(group.seqval for group in groups)])
        owners = np.repeat(np.arange(len(groups)), [len(group.arguments) for group in groups])
        places = np.concatenate([none, *(np.arange(len(group.arguments)) for group in groups)])
        order = np.lexsort((seqvals, lsns))
        return cls(groups, lsns[order], seqvals[order], owners[order], places[order])

    @property
    def count(self) -> int:
        return len(self.lsns)

    def calls(self, start: int, end: int) -> Iterator[Call]:
        columns = (column[start:end].tolist() for column in (self.lsns, self.seqvals, self.owners, self.places))
        for lsn, seqval, owner, place in zip(*columns, strict=True):
            group = self.groups[owner]
            yield Call(lsn, seqval, group.article, group.operation, group.arguments[place])

    def find_blocks(self) -> Iterator[tuple[int, int]]:
        """Yield where rows of one article follow each other within a transaction, many at a time."""
        changes = (np.diff(self.owners) != 0) | (np.diff(self.lsns) != 0) | (np.diff(self.places) != 1)
        borders = np.concatenate([[0], np.flatnonzero(changes) + 1, [self.count]])
        are_many = np.diff(borders) >= LEAST_BLOCK
        for start, end in zip(borders[:-1][are_many].tolist(), borders[1:][are_many].tolist(), strict=True):
            if isinstance(self.groups[self.owners[start]].arguments, InsertedRows):
                yield start, end

    def block(self, start: int, end: int) -> Block:
        group, first = self.groups[self.owners[start]], int(self.places[start])
        assert isinstance(group.arguments, InsertedRows)
        rows = group.arguments.between(first, first + end - start)
        return Block(int(self.lsns[start]), self.seqvals[start:end], group.article, rows)


class Cutter:
    """Decides, call by call, where a batch ends."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self._transactions = 0
        self._commands = 0
        self._lsn: int | None = None

    def ends_before(self, lsn: int, commands: int = 1) -> Position | None:
        """Count the next calls of a transaction; if a batch ends before them, return the position that it reached."""
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
