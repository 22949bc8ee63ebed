"""The calls of a subscription's articles, from the log to the subscriber: by article and operation, and in log order.

One row, a `ProcedureCall`, is made only where a driver takes one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import ArgumentGroup, parts_of
from rowtide.replication.distribution.calls.arguments import Arguments, CallArguments, InsertedRows

_UNCHANGED = np.array(None, dtype=object)
LEAST_BULK = 20
"""Fewer consecutive inserts of one article are not counted as bulk."""
_Numbers = npt.NDArray[np.int64]


class ProcedureCall(NamedTuple):
    """What is run for a change, with its transaction's commit LSN and its number in it (SQL Server: command_id)."""

    lsn: int
    seqval: int
    article: Article
    operation: Operation
    arguments: Arguments


@frozen
class Calls:
    """Changes of one article and operation, as calls of one statement, in log order.

    `commit_lsn` and `seqval` are their positions in the log, `arguments` the arguments of each call: rows where the
    change is the new row as the log has it.
    """

    article: Article
    operation: Operation
    commit_lsn: _Numbers
    seqval: _Numbers
    arguments: CallArguments

    def __len__(self) -> int:
        return len(self.commit_lsn)

    def one(self, index: int) -> ProcedureCall:
        """Return a single call."""
        lsn, seqval = int(self.commit_lsn[index]), int(self.seqval[index])
        return ProcedureCall(lsn, seqval, self.article, self.operation, self.arguments.rows[index])

    def between(self, start: int, end: int) -> Calls:
        """Return some calls, without copying them."""
        lsns, seqvals = self.commit_lsn[start:end], self.seqval[start:end]
        return Calls(self.article, self.operation, lsns, seqvals, self.arguments.between(start, end))

    def take(self, indexes: _Numbers) -> Calls:
        """Return the calls at these indexes."""
        lsns, seqvals = self.commit_lsn[indexes], self.seqval[indexes]
        return Calls(self.article, self.operation, lsns, seqvals, self.arguments.take(indexes))

    @classmethod
    def joined(cls, parts: Sequence[Calls]) -> Calls:
        """Return calls of one article and operation that follow each other, as one; at least one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            parts[0].article,
            parts[0].operation,
            np.concatenate([part.commit_lsn for part in parts]),
            np.concatenate([part.seqval for part in parts]),
            CallArguments(np.concatenate([part.arguments.matrix for part in parts])),
        )


@frozen
class OrderedCalls:
    """Calls of several articles and operations in log order: each one's position, group, and index in the group.

    `moves`: which change the key of their row. This is what a delivery is given: one value for all that a segment has,
    or a batch of it.
    """

    groups: Sequence[Calls]
    lsns: _Numbers
    seqvals: _Numbers
    owners: _Numbers
    indexes: _Numbers
    moves: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, calls: Iterable[Calls]) -> OrderedCalls:
        """Sort calls; where two have one position in the log, the group that is given first is first."""
        groups = list(calls)
        none = np.empty(0, dtype=np.int64)
        lsns = np.concatenate([none, *(group.commit_lsn for group in groups)])
        seqvals = np.concatenate([none, *(group.seqval for group in groups)])
        owners = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        indexes = np.concatenate([none, *(np.arange(len(group)) for group in groups)])
        moves = np.concatenate([none.astype(np.bool_), *map(_find_moves, groups)])
        order = np.lexsort((seqvals, lsns))
        return cls(groups, lsns[order], seqvals[order], owners[order], indexes[order], moves[order])

    def __len__(self) -> int:
        return len(self.lsns)

    def __iter__(self) -> Iterator[ProcedureCall]:
        """Yield them one by one."""
        present = set(self.owners.tolist())
        rows = [group.arguments.rows if owner in present else [] for owner, group in enumerate(self.groups)]
        columns = (column.tolist() for column in (self.lsns, self.seqvals, self.owners, self.indexes))
        for lsn, seqval, owner, index in zip(*columns, strict=True):
            group = self.groups[owner]
            yield ProcedureCall(lsn, seqval, group.article, group.operation, rows[owner][index])

    def between(self, start: int, end: int) -> OrderedCalls:
        """Return some of them, without copying them."""
        if start == 0 and end >= len(self):
            return self
        chosen = slice(start, end)
        return OrderedCalls(
            self.groups,
            self.lsns[chosen],
            self.seqvals[chosen],
            self.owners[chosen],
            self.indexes[chosen],
            self.moves[chosen],
        )

    def chosen(self, is_chosen: npt.NDArray[np.bool_]) -> OrderedCalls:
        """Return some of them, wherever they are."""
        return OrderedCalls(
            self.groups,
            self.lsns[is_chosen],
            self.seqvals[is_chosen],
            self.owners[is_chosen],
            self.indexes[is_chosen],
            self.moves[is_chosen],
        )

    def find(self, seqval: int) -> int:
        """Return where the calls from a number on begin, of one transaction."""
        return int(np.searchsorted(self.seqvals, seqval))

    def find_first(self, operation: Operation) -> Iterator[tuple[Article, int]]:
        """Yield where the first call of an operation is, for each article that has one; in log order."""
        owners, firsts = np.unique(self.owners, return_index=True)
        for index, owner in sorted(zip(firsts.tolist(), owners.tolist(), strict=True)):
            if self.groups[owner].operation is operation:
                yield self.groups[owner].article, index

    def transactions(self) -> Iterator[tuple[int, int, int]]:
        """Yield each transaction's commit LSN, and where its calls begin and end."""
        if not len(self):
            return
        borders = (np.flatnonzero(np.diff(self.lsns)) + 1).tolist()
        starts, ends = [0, *borders], [*borders, len(self)]
        yield from zip(self.lsns[starts].tolist(), starts, ends, strict=True)

    def consecutive_calls(self) -> Iterator[tuple[int, int, int, bool]]:
        """Yield the ranges of one group's calls that follow each other: the group, its first index, their number, and
        whether it is a change of a key, which is a range of its own.
        """
        if not len(self):
            return
        breaks = (self.owners[1:] != self.owners[:-1]) | (self.indexes[1:] != self.indexes[:-1] + 1)
        breaks |= self.moves[1:] | self.moves[:-1]
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist()]
        sizes = map(operator.sub, [*starts[1:], len(self)], starts)
        columns = (column[starts].tolist() for column in (self.owners, self.indexes, self.moves))
        owners, indexes, moves = columns
        yield from zip(owners, indexes, sizes, moves, strict=True)

    def count_bulk(self) -> int:
        """Return how many are inserts of one article that follow each other within a transaction, many at a time."""
        changes = (np.diff(self.owners) != 0) | (np.diff(self.lsns) != 0)
        borders = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(self)]])
        sizes, owners = np.diff(borders), self.owners[borders[:-1]] if len(self) else self.owners
        are_new = np.array([isinstance(group.arguments, InsertedRows) for group in self.groups], dtype=np.bool_)
        return int(sizes[(sizes >= LEAST_BULK) & are_new[owners]].sum()) if len(self) else 0


def _find_moves(calls: Calls) -> npt.NDArray[np.bool_]:
    """Return which calls change the key of their row."""
    found = np.zeros(len(calls), dtype=np.bool_)
    if calls.operation is Operation.UPDATE:
        indexes, matrix = indexes_of_keys(calls.article, calls.operation), calls.arguments.matrix
        for old, new in zip(indexes.old, indexes.new, strict=True) if indexes.new else ():
            # None where nothing changed: a key is never null.
            found |= (matrix[:, new] != matrix[:, old]) & (matrix[:, new] != _UNCHANGED)
    return found


@frozen
class KeyIndexes:
    """Positions of the key in a call's arguments, before and after the change, by column.

    An insert has none before, a delete none after.
    """

    old: tuple[int, ...]
    new: tuple[int, ...]


def indexes_of_keys(article: Article, operation: Operation) -> KeyIndexes:
    """Return the positions of the key in the arguments of an operation."""
    starts: dict[ArgumentGroup, int] = {}
    length = 0
    for part in parts_of(operation, article.command(operation).call_format):
        starts[part] = length
        length += len(article.key_columns) if part is ArgumentGroup.OLD_KEY else len(article.columns)
    in_row = key_indexes(article)
    new = starts.get(ArgumentGroup.NEW, starts.get(ArgumentGroup.CHANGED))
    old = range(len(in_row)) if ArgumentGroup.OLD_KEY in starts else in_row
    first = starts.get(ArgumentGroup.OLD_KEY, starts.get(ArgumentGroup.OLD))
    return KeyIndexes(
        old=tuple(first + index for index in old) if first is not None else (),
        new=tuple(new + index for index in in_row) if new is not None else (),
    )


def key_indexes(article: Article) -> list[int]:
    """Return the positions of the key's columns among the published ones."""
    return [article.columns.index(column) for column in article.key_columns]
