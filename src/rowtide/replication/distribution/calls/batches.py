"""Group source transactions into batches, each one transaction at the subscriber. Pure.

(SQL Server: -CommitBatchSize, -CommitBatchThreshold.) A source transaction is never divided.

Group calls into runs of one article and operation, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import ArgumentGroup, parts_of
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution.calls.encoding import (
    Arguments,
    Calls,
    InsertedRows,
    columns_of,
    indexes_of_keys,
    unite,
)
from rowtide.replication.subscription_settings import SubscriptionSettings

COMMIT_BATCH_SIZE = 10_000
COMMIT_BATCH_THRESHOLD = 100_000
"""A batch takes what the log store has, and never waits for more: so large is one of a backlog only."""
LEAST_BLOCK = 20
"""Fewer inserts in a row are single calls."""


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
"""The limits of what is delivered row by row after a refusal."""


class ProcedureCall(NamedTuple):
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

    def calls(self) -> Iterator[ProcedureCall]:
        """Return them one by one."""
        for place, seqval in enumerate(self.seqvals.tolist()):
            yield ProcedureCall(self.lsn, seqval, self.article, Operation.INSERT, self.rows[place])


def in_order(calls: Iterable[Calls]) -> Iterator[ProcedureCall]:
    """Return calls of several articles and operations in log order."""
    ordered = _Ordered.of(calls)
    return ordered.calls(0, ordered.count)


def in_blocks(calls: Iterable[Calls]) -> Iterator[ProcedureCall | Block]:
    """Return calls as `in_order`, inserts of many rows as blocks."""
    ordered = _Ordered.of(calls)
    begun = 0
    for start, end in ordered.find_blocks():
        yield from ordered.calls(begun, start)
        yield ordered.block(start, end)
        begun = end
    yield from ordered.calls(begun, ordered.count)


@frozen
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

    def calls(self, start: int, end: int) -> Iterator[ProcedureCall]:
        columns = (column[start:end].tolist() for column in (self.lsns, self.seqvals, self.owners, self.places))
        for lsn, seqval, owner, place in zip(*columns, strict=True):
            group = self.groups[owner]
            yield ProcedureCall(lsn, seqval, group.article, group.operation, group.arguments[place])

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


_NO_RUNS: Sequence[CallSequence] = ()
MAX_CALLS = 1000
MAX_BLOCK_ROWS = 100_000
"""Limit of a run with blocks, beyond which it is sent while later ones are read."""


Combine = Callable[[ProcedureCall, ProcedureCall], ProcedureCall]
"""Returns the update that has the result of two of the same row and key."""


def folding(article: Article) -> Combine:
    """Return how updates of an article are folded."""
    # The bitmap is the last argument, the values are the first.
    has_bitmap = ArgumentGroup.BITMAP in parts_of(Operation.UPDATE, article.update.call_format)
    return _combine_by_bitmap if has_bitmap else _last


def _last(_earlier: ProcedureCall, later: ProcedureCall) -> ProcedureCall:
    # It has all values.
    return later


def _combine_by_bitmap(earlier: ProcedureCall, later: ProcedureCall) -> ProcedureCall:
    before, after = earlier.arguments, later.arguments
    old, new = before[-1], after[-1]
    assert old is not None
    assert new is not None
    if old == new:
        return later
    folded = before.copy()
    for column in columns_of(new):
        folded[column] = after[column]
    folded[-1] = unite(old, new)
    return later._replace(arguments=folded)


class CallSequence:
    """Consecutive calls of one article and operation, in rounds; inserts of many rows in blocks.

    In a round each call is about a different row, so that it can be applied at once; the second call for a row is in
    the second round, or one with the first if they are updates that may be folded. Blocks follow the calls.
    """

    __slots__ = ("_occurrences", "_places", "article", "blocks", "calls", "operation", "rounds")

    def __init__(self, article: Article, operation: Operation) -> None:
        self.article = article
        self.operation = operation
        self.rounds: list[list[ProcedureCall]] = []
        self.blocks: list[Block] = []
        self.calls = 0
        self._occurrences: dict[object, int] = {}
        self._places: dict[object, int] = {}

    def add(self, call: ProcedureCall, key: object = None) -> None:
        """Add a call; `key` identifies its row, None if no other call is about that row."""
        number = 0
        if key is not None:
            number = self._occurrences.get(key, 0)
            self._occurrences[key] = number + 1
        if number == len(self.rounds):
            self.rounds.append([])
        self.rounds[number].append(call)
        self.calls += 1

    def combine(self, call: ProcedureCall, key: object, fold: Combine) -> None:
        """Add an update, or make it one with the update of the same row before it."""
        place = self._places.get(key)
        if place is None:
            self._places[key] = self.calls
            self.add(call)
        else:
            self.rounds[0][place] = fold(self.rounds[0][place], call)

    def add_block(self, block: Block) -> None:
        """Add inserts, which are all about different rows."""
        self.blocks.append(block)
        self.calls += len(block.rows)


class Gatherer:
    """Takes calls in log order, and returns runs in an order in which they may be sent.

    `groups`: which articles can influence each other, by article id; `folded`: of which several updates of a row may be
    one.
    """

    def __init__(self, groups: Mapping[str, int], folded: Set[str] = frozenset()) -> None:
        self._groups = groups
        self._folded = folded
        self._folds: dict[str, Combine] = {}
        self._open: dict[int, CallSequence] = {}
        self._keys: dict[tuple[str, Operation], _CallKeys] = {}

    def add(self, call: ProcedureCall) -> Sequence[CallSequence]:
        """Add a call; return the runs that it completes."""
        article, operation = call.article, call.operation
        group = self._groups.get(article.article_id)
        if group is None or operation is Operation.TRUNCATE:
            # A truncate waits for readers of its table, and is alone.
            return [*self.end(), _alone(call)]
        key: object = None
        if operation is not Operation.INSERT:
            keys = self._keys.get((article.article_id, operation)) or self._find_keys(article, operation)
            key = keys.old(call.arguments)
            if keys.new is not None and keys.changes(keys.new(call.arguments), key):
                # Another call's row may have either key.
                before = self._open.pop(group, None)
                alone = _alone(call)
                return [alone] if before is None else [before, alone]
        run, ended = self._open.get(group), _NO_RUNS
        if run is None or run.article is not article or run.operation is not operation or run.blocks:
            run, ended = self._begin(group, article, operation)
        if operation is Operation.UPDATE and article.article_id in self._folded:
            run.combine(call, key, self._folds.get(article.article_id) or self._find_combination(article))
        else:
            run.add(call, key)
        if run.calls >= MAX_CALLS:
            del self._open[group]
            return [*ended, run]
        return ended

    def add_block(self, block: Block) -> Sequence[CallSequence]:
        """Add the inserts of a block; return the runs that it completes."""
        article, operation = block.article, Operation.INSERT
        group = self._groups.get(article.article_id)
        if group is None:
            single = CallSequence(article, operation)
            single.add_block(block)
            return [*self.end(), single]
        run, ended = self._open.get(group), _NO_RUNS
        if run is None or run.article is not article or run.operation is not operation:
            run, ended = self._begin(group, article, operation)
        run.add_block(block)
        if run.calls >= MAX_BLOCK_ROWS:
            del self._open[group]
            return [*ended, run]
        return ended

    def _begin(self, group: int, article: Article, operation: Operation) -> tuple[CallSequence, Sequence[CallSequence]]:
        """Return a new run of a group, and the one that it ends, if any."""
        before = self._open.get(group)
        run = self._open[group] = CallSequence(article, operation)
        return run, _NO_RUNS if before is None else [before]

    def end(self) -> Sequence[CallSequence]:
        """Return the remaining runs, at the end of a batch or before it is flushed."""
        runs, self._open = self._open, {}
        return list(runs.values())

    def _find_combination(self, article: Article) -> Combine:
        found = self._folds[article.article_id] = folding(article)
        return found

    def _find_keys(self, article: Article, operation: Operation) -> _CallKeys:
        found = self._keys[article.article_id, operation] = _CallKeys.of(article, operation)
        return found


@frozen
class _CallKeys:
    """Returns a call's keys before and after it: a value, or a tuple of several."""

    old: Callable[[Arguments], object]
    new: Callable[[Arguments], object] | None
    changes: Callable[[object, object], bool]

    @classmethod
    def of(cls, article: Article, operation: Operation) -> _CallKeys:
        places = indexes_of_keys(article, operation)
        new = itemgetter(*places.new) if places.new else None
        return cls(itemgetter(*places.old), new, _differs if len(places.old) == 1 else _any_differs)


def _differs(new: object, old: object) -> bool:
    # None where nothing changed: a key is never null.
    return new is not None and new != old


def _any_differs(new: object, old: object) -> bool:
    assert isinstance(new, tuple)
    assert isinstance(old, tuple)
    return any(map(_differs, new, old))


def _alone(call: ProcedureCall) -> CallSequence:
    run = CallSequence(call.article, call.operation)
    run.add(call)
    return run
