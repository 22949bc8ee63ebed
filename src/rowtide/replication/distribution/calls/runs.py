"""Gather calls into runs of one article and operation that may be sent at once, with the same result. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import ArgumentGroup, parts_of
from rowtide.replication.distribution.calls.arguments import Arguments, CallArguments, InsertedRows, columns_of, unite
from rowtide.replication.distribution.calls.ordered import Calls, OrderedCalls, ProcedureCall, indexes_of_keys

MAX_CALLS = 1000
MAX_BULK_ROWS = 100_000
"""Limit of a run that is sent by COPY, beyond which it is sent while later ones are read."""


class CallRun:
    """Consecutive calls of one article and operation: parts of those that were read, which are not copied."""

    __slots__ = ("article", "count", "operation", "parts")

    def __init__(self, article: Article, operation: Operation) -> None:
        self.article = article
        self.operation = operation
        self.parts: list[tuple[Calls, int, int]] = []
        self.count = 0

    def add(self, calls: Calls, start: int, end: int) -> None:
        """Add those of `calls` from `start` to before `end`."""
        self.parts.append((calls, start, end))
        self.count += end - start

    def calls(self) -> Iterator[ProcedureCall]:
        """Yield them one by one, in log order."""
        for calls, start, end in self.parts:
            for index in range(start, end):
                yield calls.one(index)

    def inserted(self) -> Sequence[InsertedRows] | None:
        """Return the rows that it inserts as the log has them; None if they are not."""
        rows = [calls.arguments.between(start, end) for calls, start, end in self.parts]
        found = [one for one in rows if isinstance(one, InsertedRows)]
        return found if len(found) == len(rows) else None

    def sets(self, *, combines: bool) -> Iterator[Calls]:
        """Yield sets of calls, to be sent in this order, in each of which all are about different rows.

        The second call for a row is in the second set, or one with the first where updates are combined (`combines`).
        """
        whole = self._joined()
        keys = _keys_of(whole) if self.operation in (Operation.UPDATE, Operation.DELETE) else ()
        if len(set(keys)) == len(keys):
            yield whole
        elif combines and self.operation is Operation.UPDATE:
            yield _combined_updates(whole, keys)
        else:
            yield from _by_occurrence(whole, keys)

    def combine(self) -> None:
        """Let the updates of a row be one, with the last value of each column that any of them changed."""
        whole = self._joined()
        updates = _combined_updates(whole, _keys_of(whole))
        self.parts, self.count = [(updates, 0, len(updates))], len(updates)

    def _joined(self) -> Calls:
        return Calls.joined([calls.between(start, end) for calls, start, end in self.parts])


def _keys_of(calls: Calls) -> Sequence[object]:
    """Return the keys of the rows that calls are about, before them."""
    indexes = indexes_of_keys(calls.article, calls.operation).old
    columns = [calls.arguments.matrix[:, index].tolist() for index in indexes]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _by_occurrence(calls: Calls, keys: Sequence[object]) -> Iterator[Calls]:
    """Yield the first call for each row, then the second ones, and so on."""
    occurrences: dict[object, int] = {}
    rounds: list[list[int]] = []
    for index, key in enumerate(keys):
        number = occurrences.get(key, 0)
        occurrences[key] = number + 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(index)
    for indexes in rounds:
        yield calls.take(np.array(indexes, dtype=np.int64))


def _combined_updates(calls: Calls, keys: Sequence[object]) -> Calls:
    """Return one update for each row, which has the result of all of them."""
    last = {key: index for index, key in enumerate(keys)}
    if len(last) == len(keys):
        return calls
    updates = calls.take(np.array(list(last.values()), dtype=np.int64))
    # The bitmap is the last argument, the values are the first; without one, the last update has all values.
    if ArgumentGroup.BITMAP not in parts_of(Operation.UPDATE, calls.article.update.call_format):
        return updates
    combined: dict[object, Arguments] = {}
    for key, row in zip(keys, calls.arguments.rows, strict=True):
        before = combined.get(key)
        combined[key] = row if before is None else _combine(before, row)
    arguments = CallArguments.of(list(combined.values()))
    return Calls(calls.article, calls.operation, updates.commit_lsn, updates.seqval, arguments)


def _combine(before: Arguments, after: Arguments) -> Arguments:
    """Return the arguments of the update that has the result of two of the same row."""
    old, new = before[-1], after[-1]
    assert old is not None
    assert new is not None
    if old == new:
        return after
    combined = before.copy()
    for column in columns_of(new):
        combined[column] = after[column]
    combined[-1] = unite(old, new)
    return combined


class RunBuilder:
    """Takes calls in log order, and returns runs in an order in which they may be sent.

    `groups`: which articles can influence each other, by article id; `combinable`: those of which several updates of a
    row may be one; `bulk`: those whose rows may be inserted by COPY.
    """

    def __init__(
        self, groups: Mapping[str, int], combinable: Set[str] = frozenset(), bulk: Set[str] = frozenset()
    ) -> None:
        self._groups = groups
        self._combinable = combinable
        self._bulk = bulk
        self._open: dict[int, CallRun] = {}

    def add(self, calls: OrderedCalls) -> Iterator[CallRun]:
        """Take calls; yield the runs that they complete."""
        groups = [self._find_group(part) for part in calls.groups]
        # Of each group the calls of one article and operation that no other of the group stands between, as a range.
        ranges: dict[int, tuple[Calls, int, int]] = {}
        for owner, first, size, is_move in calls.consecutive_calls():
            part, group, end = calls.groups[owner], groups[owner], first + size
            if group is None:
                yield from self._add_all(ranges)
                yield from self.end()
                for index in range(first, end):
                    yield _alone(part, index)
                continue
            before = ranges.get(group)
            if before is not None and before[0] is part and before[2] == first and not is_move:
                ranges[group] = part, before[1], end
                continue
            if before is not None:
                yield from self._extend(group, *ranges.pop(group))
            if is_move:
                # Another call's row may have either key.
                run = self._open.pop(group, None)
                if run is not None:
                    yield run
                yield _alone(part, first)
            else:
                ranges[group] = part, first, end
        yield from self._add_all(ranges)

    def _add_all(self, ranges: dict[int, tuple[Calls, int, int]]) -> Iterator[CallRun]:
        for group in list(ranges):
            yield from self._extend(group, *ranges.pop(group))

    def end(self) -> Sequence[CallRun]:
        """Return the remaining runs, at the end of a batch or before it is flushed."""
        runs, self._open = self._open, {}
        return list(runs.values())

    def _find_group(self, calls: Calls) -> int | None:
        """Return the group of an article; None if its calls have to wait for all before, and are alone.

        So does a truncate, for readers of its table.
        """
        return None if calls.operation is Operation.TRUNCATE else self._groups.get(calls.article.article_id)

    def _extend(self, group: int, part: Calls, start: int, end: int) -> Iterator[CallRun]:
        article_id, operation = part.article.article_id, part.operation
        is_bulk = article_id in self._bulk and isinstance(part.arguments, InsertedRows)
        limit = MAX_BULK_ROWS if is_bulk else MAX_CALLS
        combines = operation is Operation.UPDATE and article_id in self._combinable
        while start < end:
            run = self._open.get(group)
            if run is None or run.article is not part.article or run.operation is not operation or run.count >= limit:
                if run is not None:
                    yield run
                run = self._open[group] = CallRun(part.article, operation)
            # Each COPY waits for what was sent before: rows that follow each other are not divided.
            size = end - start if is_bulk else min(end - start, limit - run.count)
            run.add(part, start, start + size)
            start += size
            if run.count >= limit:
                if combines:
                    run.combine()
                # Combining costs time in proportion to the run: one that it has not halved is sent, or it would be
                # combined again after few calls, and the cost would grow with the square of their number.
                if not combines or run.count > limit // 2:
                    del self._open[group]
                    yield run


def _alone(calls: Calls, index: int) -> CallRun:
    run = CallRun(calls.article, calls.operation)
    run.add(calls, index, index + 1)
    return run
