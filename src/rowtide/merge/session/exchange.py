"""Transfer changes from one node to another: upserts parents first, then deletes children first.

A change that a node refuses, such as a child whose parent is still to come, is retried after all others. If it is
refused again, it stays listed, and the next synchronisation requests it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Protocol

from rowtide.merge.articles import Article
from rowtide.merge.errors import RowsRefused
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.retry import Result, transact_at
from rowtide.merge.session.spooling import Spool
from rowtide.merge.versions.changes import Known, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import Presence
from rowtide.merge.versions.lineage import decode_columns, encode_columns


@dataclass(slots=True)
class Counts:
    """Result of an article's changes, as Replication Monitor counts it, with the time in seconds."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    conflicts: int = 0
    retried: int = 0
    refused: int = 0
    seconds: float = 0.0

    def add(self, other: Counts) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def moved(self) -> int:
        """The number of rows written."""
        return self.inserts + self.updates + self.deletes


@dataclass(frozen=True, slots=True)
class Refused:
    """A change that a node refused, with the node's error."""

    article: Article
    change: RowChange
    error: RowsRefused


class Receiver(Protocol):
    """Decides what to do with received changes, and writes the result in the caller's transaction."""

    @property
    def node(self) -> Node: ...

    def receive(self, article: Article, changes: Sequence[RowChange], *, swaps: bool = False) -> Counts:
        """Write the newer versions; with `swaps` also rows that swap unique keys.

        Raises `RowsRefused` if the node refuses them.
        """

    def give_up(self, refused: Refused) -> Counts:
        """Handle a change that was refused in every attempt, in its own transaction."""

    def check(self) -> None:
        """Raise `SessionReplaced` if another synchronisation has replaced this one; called in each transaction."""


@dataclass(slots=True)
class Transfer:
    """One direction of a synchronisation; `on_progress` receives the number of changes done."""

    receiver: Receiver
    articles: dict[int, Article]
    on_progress: Callable[[int], None] = lambda _changes: None
    counts: dict[str, Counts] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    def run(self, spool: Spool) -> None:
        """Transfer all changes, and retry at the end those that were refused at first."""
        for nickname, changes in spool.batches():
            self._bring(self.articles[nickname], changes)
            self.on_progress(len(changes))
        self._retry()

    def _bring(self, article: Article, changes: Sequence[RowChange]) -> None:
        try:
            self._attempt(article, changes)
        except RowsRefused as error:
            if len(changes) == 1:
                self.refused.append(Refused(article, changes[0], error))
                return
            middle = len(changes) // 2
            self._bring(article, changes[:middle])
            self._bring(article, changes[middle:])

    def _attempt(self, article: Article, changes: Sequence[RowChange]) -> None:
        began = time.monotonic()
        try:
            self._count(article, transact(self.receiver, lambda: self.receiver.receive(article, changes)))
        finally:
            self._count(article, Counts(seconds=time.monotonic() - began))

    def _count(self, article: Article, counts: Counts) -> None:
        self.counts.setdefault(article.name, Counts()).add(counts)

    def _retry(self) -> None:
        """Retry refused changes: first all together with deferred constraints, then one by one."""
        waiting, self.refused = self.refused, []
        for refused in waiting:
            self._count(refused.article, Counts(retried=1))
        if not waiting or self._retry_together(waiting):
            return
        waiting = self._retry_exchanges(waiting)
        while waiting:
            for refused in waiting:
                self._bring(refused.article, [refused.change])
            left, self.refused = self.refused, []
            if len(left) == len(waiting):
                break
            waiting = left
        for refused in waiting:
            self._count(refused.article, transact(self.receiver, partial(self.receiver.give_up, refused)))
        self.refused = waiting

    def _retry_exchanges(self, waiting: list[Refused]) -> list[Refused]:
        """Retry each row together with the removal of the row that has its key; return the rows still refused."""
        removals = {refused.change.rowguid: refused for refused in waiting if refused.change.row is None}
        done: set[str] = set()
        for refused in waiting if removals else ():
            row = refused.change.row
            holder = None if row is None else self.receiver.node.find_key_holder(refused.article, row)
            if holder in removals and self._retry_together([removals[holder], refused]):
                done |= {holder, refused.change.rowguid}
        return [refused for refused in waiting if refused.change.rowguid not in done]

    def _retry_together(self, waiting: Sequence[Refused]) -> bool:
        def receive_all() -> list[tuple[Article, Counts]]:
            self.receiver.node.defer_constraints()
            return [
                (article, self.receiver.receive(article, [refused.change for refused in several], swaps=True))
                for article, several in groupby(waiting, key=lambda refused: refused.article)
            ]

        try:
            done = transact(self.receiver, receive_all)
        except RowsRefused:
            return False
        for article, counts in done:
            self._count(article, counts)
        return True


def transact(receiver: Receiver, work: Callable[[], Result]) -> Result:
    """Run work at the receiver's node as `transact_at` does, if the session was not replaced."""

    def checked() -> Result:
        receiver.check()
        return work()

    return transact_at(receiver.node, checked)


def taken(change: RowChange, known: Known | None, origin: int, priority: float | None) -> Write:
    """Return what writes a sender's version unchanged.

    For columns that the version has no metadata for, as after a snapshot, the receiver keeps its own.
    """
    columns = change.columns
    if columns is not None and known is not None and known.version.columns:
        columns = encode_columns({**known.version.columns, **decode_columns(columns)})
    return Write(
        rowguid=change.rowguid,
        row=change.row,
        is_live=known is not None and known.version.presence is Presence.LIVE,
        lineage=change.lineage,
        last=change.last,
        columns=columns,
        origin=origin,
        tombstone=change.tombstone or TombstoneType.USER,
        priority=priority,
    )


def alike(
    changes: Sequence[RowChange], known: Mapping[str, Known]
) -> Iterator[tuple[Sequence[RowChange], Known | None]]:
    """Yield groups of changes with the same version, on rows with the same metadata, together with that metadata.

    Rows changed between the same synchronisations, often thousands, form one group, which is decided once.
    """
    groups: dict[tuple[object, ...], tuple[list[RowChange], Known | None]] = {}
    for change in changes:
        rowguid, lineage, last, columns, row, tombstone, _ = change
        here = known.get(rowguid)
        key = (lineage, last, columns, row is None, tombstone, id(here))
        if key not in groups:
            groups[key] = ([], here)
        groups[key][0].append(change)
    return iter(groups.values())


def taken_alike(changes: Sequence[RowChange], known: Known | None, origin: int, priority: float | None) -> list[Write]:
    """Return what writes the versions of one group of `alike`; see `taken`."""
    same = taken(changes[0], known, origin, priority)[2:]
    return [Write(change.rowguid, change.row, *same) for change in changes]


def count_writes(writes: Sequence[Write]) -> Counts:
    """Return how writes change rows; a tombstone for an absent row counts for nothing."""
    counts = Counts()
    for write in writes:
        if write.row is None:
            counts.deletes += write.is_live
        elif write.is_live:
            counts.updates += 1
        else:
            counts.inserts += 1
    return counts
