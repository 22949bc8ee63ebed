"""Transfer changes from one node to another: upserts parents first, then deletes children first.

A change that a node refuses, such as a child whose parent is still to come, is retried after all others, once. If it is
refused again, it stays listed, and the next synchronisation requests it again; it comes after all others then.

The last batch, the retry, and the record that everything was received are one transaction where possible: each costs
round trips.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import accumulate, chain, groupby
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.nodes.node import Node, Result, transact_at
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.spooling import Spool
from rowtide.merge.versions.changes import (
    KnownVersion,
    Row,
    RowChange,
    TombstoneType,
    Write,
    find_children,
    layers_by_keys,
    make_writes,
)
from rowtide.merge.versions.comparison import Presence, decode_columns, encode_columns

_BATCH_ROWS = 2000


@frozen
class Refused:
    """A change that a node refused; see `Refusal`."""

    article: Article
    change: RowChange
    refusal: Refusal

    @property
    def error(self) -> RowsRefused:
        """The node's error."""
        return self.refusal.error


class Attempt(Enum):
    """How rows are written.

    A batch is written in `FIRST` or `ALONE`. Rows that have each other's keys are written `TOGETHER`. All refused rows
    are deferred, and written once more at the end of the transfer: in `LAST` with the last batch, or else in `RETRY`.
    """

    FIRST = auto()
    """The node writes what it accepts, and returns what it refuses; others may follow in the transaction."""
    ALONE = auto()
    """As `FIRST`, where the caller does nothing else in the transaction: a server can commit in the same round trip."""
    TOGETHER = auto()
    """All rows are written, with deferred constraints, or none."""
    RETRY = auto()
    """Rows refused before: together first, then each removal with the row that takes its key, then each row."""
    LAST = auto()
    """`FIRST` for the last batch, and `RETRY` for what it refuses and what was deferred before, in one transaction."""


Part = tuple[Article, Sequence[RowChange]]
"""Changes of an article."""


@dataclass(slots=True)
class Received:
    """The result of a part, and what the node refused of it."""

    counts: Counts
    refused: list[Refused] = field(default_factory=list)


class Receiver(Protocol):
    """Decides what to do with received changes, and writes the result in the caller's transaction."""

    @property
    def bounds(self) -> Mapping[int, RowFilter]:
        """The partitions that received rows have to be in, by the article's nickname."""

    @property
    def node(self) -> Node: ...

    @property
    def is_upload(self) -> bool:
        """Whether the hub receives."""

    @property
    def again(self) -> Mapping[int, Sequence[str]]:
        """The rows that are requested once more, by the article's nickname: their changes come last."""

    def group(self, deletes: Iterable[Part]) -> Iterable[Sequence[Part]]:
        """Yield deletes in the parts that are written together."""

    def receive(self, parts: Sequence[Part], attempt: Attempt, late: Set[str] = frozenset()) -> list[Received]:
        """Write the newer versions of each part; in `Attempt.LAST` rows that come `late` are only retried.

        Raises `RowsRefused` where the caller has to distinguish rows, and in `Attempt.TOGETHER`.
        """

    def reject(self, refused: Sequence[Refused]) -> list[Counts]:
        """Handle changes that were refused in every attempt, in the caller's transaction; return the result of each."""

    def check(self) -> None:
        """Raise `SessionReplaced` if another synchronisation has replaced this one; called in each transaction."""


class Records(Protocol):
    """The logical records of one direction; see `RecordTransfer`."""

    refused: list[Refused]

    def collect(self, nickname: int, changes: Sequence[RowChange]) -> bool: ...

    def apply(self, following: Article | None = None) -> None: ...

    def retry(self) -> None: ...

    def finish(self, *, is_retried: bool) -> None: ...


@dataclass(slots=True)
class Transfer:
    """One direction of a synchronisation; `on_progress` receives the number of changes done.

    `conclude` stores that everything was received, in the last transaction if possible; `is_concluded`: it has.
    """

    receiver: Receiver
    articles: dict[int, Article]
    on_progress: Callable[[int], None] = lambda _changes: None
    counts: dict[str, Counts] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    """All rows refused in the end, also those that are not requested again because their conflict was settled."""
    left: list[Refused] = field(default_factory=list)
    """Those of them that the next synchronisation requests again."""
    records: Records | None = None
    conclude: Callable[[], None] = lambda: None
    is_concluded: bool = False
    _waiting: dict[tuple[int, str], Waiting] = field(default_factory=dict)
    _coming: list[tuple[Article, Row]] = field(default_factory=list)
    """Rows that come to a subscriber after rows which may reference them: of articles in a circle."""

    def run(self, spool: Spool) -> None:
        """Transfer all changes; at the end those that were refused, and those requested again after they were.

        Logical records come after the rows that they may reference, and before those that may reference them.
        """
        self._coming = self._find_coming(spool)
        if self.records is not None:
            for nickname, changes in spool.batches():
                if self.records.collect(nickname, changes):
                    self.on_progress(len(changes))
        # The last part is kept back: `_apply_last` writes it in one transaction with what was deferred, and concludes.
        last: Part | None = None
        for parts in self._parts(spool):
            if self.records is not None or len(parts) > 1:
                self._apply_together(parts)
                continue
            if last is not None:
                self._apply(last[0], self._in_layers(*last))
            (last,) = parts
        if last is not None:
            self._apply_last(*last)
        if self.records is None:
            self._retry()
            return
        self.records.apply()
        self.records.retry()
        has_waited = bool(self._waiting)
        self._retry()
        self.records.finish(is_retried=has_waited)
        self.refused += self.records.refused
        self.left += self.records.refused

    def run_part(self, spool: Spool) -> list[Part]:
        """Transfer changes that others of the same upload follow; return what is refused, or requested again."""
        for parts in self._parts(spool):
            self._apply_together(parts)
        return by_article(list(self._waiting.values()))

    def _find_coming(self, spool: Spool) -> list[tuple[Article, Row]]:
        articles, is_upload = self.articles, self.receiver.is_upload
        later = {
            reference.parent
            for article in articles.values()
            for reference in article.references
            if reference.parent in articles and articles[reference.parent].processing_order > article.processing_order
        }
        batches = spool.batches() if later and not is_upload else ()
        return [
            (articles[nickname], each.row)
            for nickname, changes in batches
            for each in (changes if nickname in later else ())
            if each.row is not None
        ]

    def _parts(self, spool: Spool) -> Iterator[Sequence[Part]]:
        """Yield what is to be applied now, in the parts that are written together; the rest is deferred."""
        batches = self._joined(spool.batches())
        for nickname, changes in batches:
            if changes[0].row is None:
                deletes = (part for each in chain([(nickname, changes)], batches) for part in self._now(*each))
                yield from self.receiver.group(deletes)
                return
            for part in self._now(nickname, changes):
                yield [part]

    def _joined(self, batches: Iterable[tuple[int, list[RowChange]]]) -> Iterator[tuple[int, list[RowChange]]]:
        """Join the batches of rows that may reference each other: those that they reference come before them."""
        for (nickname, is_deleting), several in groupby(batches, lambda each: (each[0], each[1][0].row is None)):
            if is_deleting or not self._has_layers(self.articles[nickname]):
                yield from several
            else:
                yield nickname, [change for _, changes in several for change in changes]

    def _has_layers(self, article: Article) -> bool:
        """Whether rows of an article that come to a subscriber may reference each other."""
        refers_to_itself = any(reference.parent == article.nickname for reference in article.references)
        return refers_to_itself and not self.receiver.is_upload

    def _now(self, nickname: int, changes: Sequence[RowChange]) -> Iterator[Part]:
        if self.records is not None:
            if self.records.collect(nickname, ()):
                return
            is_deleting = changes[0].row is None
            self.records.apply(None if is_deleting else self.articles[nickname])
        article, again = self.articles[nickname], set(self.receiver.again.get(nickname, ()))
        now = [change for change in changes if change.rowguid not in again]
        for change in changes if again else ():
            if change.rowguid in again:
                self._defer(article, change)
        if now:
            yield article, now
        self.on_progress(len(changes))

    def _apply_together(self, parts: Sequence[Part]) -> None:
        """Apply deletes in one transaction; what is refused is deferred."""
        if len(parts) == 1:
            self._apply(parts[0][0], self._in_layers(*parts[0]))
            return
        try:
            received = self._attempt(parts, Attempt.ALONE)
        except RowsRefused:
            for article, changes in parts:
                self._apply(article, self._in_layers(article, changes))
            return
        for one in received:
            for refused in one.refused:
                self._defer(refused.article, refused.change)

    def _defer(self, article: Article, change: RowChange) -> None:
        key = (article.nickname, change.rowguid)
        self._waiting.pop(key, None)
        self._waiting[key] = (article, change)

    def _defer_children(self, article: Article, changes: Sequence[RowChange]) -> Sequence[RowChange]:
        """Defer rows whose parents are deferred or come later, and return the others.

        A subscriber's row may still have the parent's key. That row is about to be deleted, and a foreign key's action
        would reach what references the key. (The hub knows which row the parent is.)
        """
        if self.receiver.is_upload or not article.references:
            return changes
        left = changes
        coming = [each for each in self._coming if each[0].processing_order > article.processing_order]
        while coming or self._waiting:
            waiting = [(parent, each.row) for parent, each in self._waiting.values() if each.row is not None]
            held = find_children(article, left, [*coming, *waiting])
            if not held:
                break
            for change in left:
                if change.rowguid in held:
                    self._defer(article, change)
            left = [change for change in left if change.rowguid not in held]
        return left

    def _in_layers(self, article: Article, changes: Sequence[RowChange]) -> list[Sequence[RowChange]]:
        """Return rows in layers of at most a batch, each after those that it references, as in `_defer_children`.

        Rows that reference each other in a circle, and those that follow, wait: one of them without the other may
        reference a row that is about to get another key.
        """
        if not self._has_layers(article):
            return [changes]
        layers = [piece for layer in layers_by_keys(article, changes) for piece in batches_of(layer)]
        placed = {change.rowguid for layer in layers for change in layer}
        for change in changes:
            if change.rowguid not in placed:
                self._defer(article, change)
        return layers

    def _apply(self, article: Article, layers: Sequence[Sequence[RowChange]]) -> None:
        """Apply layers, a batch in a transaction; what follows a refused row is deferred with it."""
        left = list(layers)
        while left:
            now = {change.rowguid for change in self._defer_children(article, list(chain.from_iterable(left)))}
            left = [rows for layer in left if (rows := [change for change in layer if change.rowguid in now])]
            together = [
                layer for layer, total in zip(left, accumulate(map(len, left)), strict=True) if total <= _BATCH_ROWS
            ]
            if len(together) > 1:
                left = [*self._apply_first(article, together), *left[len(together) :]]
            elif left:
                self._apply_divided(article, left.pop(0))

    def _apply_first(self, article: Article, layers: Sequence[Sequence[RowChange]]) -> Sequence[Sequence[RowChange]]:
        """Apply layers in one transaction, up to the first of which rows are refused; return those that follow."""

        def work() -> list[Received]:
            received: list[Received] = []
            for layer in layers:
                received += self.receiver.receive([(article, layer)], Attempt.FIRST)
                if received[-1].refused:
                    break
            return received

        try:
            received = self._counted([(article, layer) for layer in layers], work)
        except RowsRefused:
            # A deferred constraint failed at the commit, which names no row: layer by layer, then in halves.
            for layer in layers:
                self._apply_divided(article, self._defer_children(article, layer))
            return ()
        self._keep(article, received[-1].refused)
        return layers[len(received) :]

    def _apply_divided(self, article: Article, changes: Sequence[RowChange], *, is_last: bool = False) -> None:
        if not changes:
            return
        try:
            attempt = Attempt.FIRST if is_last else Attempt.ALONE
            (received,) = self._attempt([(article, changes)], attempt, is_last=is_last)
        except RowsRefused:
            if len(changes) == 1:
                self._defer(article, changes[0])
                return
            # Rows that the node can name are returned. What raises does not say which row it was: the commit, with a
            # deferred constraint.
            middle = len(changes) // 2
            self._apply_divided(article, changes[:middle])
            self._apply_divided(article, changes[middle:])
            return
        self._keep(article, received.refused)

    def _keep(self, article: Article, refused: Sequence[Refused]) -> None:
        """Defer refused rows, except those that have each other's keys."""
        exchanged = self._apply_exchanged(article, refused)
        for each in refused:
            if each.change.rowguid not in exchanged:
                self._defer(article, each.change)

    def _apply_exchanged(self, article: Article, refused: Sequence[Refused]) -> set[str]:
        """Apply refused rows that have the keys of each other, before any that references them; return the accepted."""
        holders = {each.change.rowguid: each.refusal.holder for each in refused}
        changes = [each.change for each in refused if each.refusal.holder in holders]
        if len(changes) > 1 and self._are_accepted_together([(article, change) for change in changes]):
            return {change.rowguid for change in changes}
        return set()

    def _apply_last(self, article: Article, changes: Sequence[RowChange]) -> None:
        """Apply the last batch, in one transaction with what is deferred; if that fails, batch by batch as others."""
        *layers, last = self._in_layers(article, self._defer_children(article, changes)) or [[]]
        self._apply(article, layers)
        changes = self._defer_children(article, last)
        waiting = list(self._waiting.values())
        if not self.receiver.node.writer.tries_together:
            self._apply_divided(article, changes, is_last=not waiting)
            return
        late = frozenset(change.rowguid for _, change in waiting)
        parts = by_article([*waiting, *((article, change) for change in changes)])
        try:
            self._end(parts, Attempt.LAST, late)
        except RowsRefused:
            self._apply_divided(article, changes)
            return
        retried = [(each.article, each.change) for each in self.refused if each.change.rowguid not in late]
        for each, _ in [*waiting, *retried]:
            self.count(each, Counts(retried=1))
        self._waiting = {}

    def _end(self, parts: Sequence[Part], attempt: Attempt, late: Set[str] = frozenset()) -> None:
        """Make the last attempt, and reject what the node refuses."""

        def work() -> list[Received]:
            received = self._finish(self.receiver.receive(parts, attempt, late))
            self.conclude()
            return received

        received = self._counted(parts, work, is_durable=True)
        self.refused = [refused for one in received for refused in one.refused]
        self.is_concluded = True

    def _attempt(self, parts: Sequence[Part], attempt: Attempt, *, is_last: bool = False) -> list[Received]:
        """Write parts; if they are the last and nothing is refused, that is all."""

        def work() -> list[Received]:
            received = self.receiver.receive(parts, attempt)
            if is_last and not any(one.refused for one in received):
                self.conclude()
            return received

        done = self._counted(parts, work, is_durable=is_last)
        self.is_concluded = is_last and not any(one.refused for one in done)
        return done

    def _counted(
        self, parts: Sequence[Part], work: Callable[[], list[Received]], *, is_durable: bool = False
    ) -> list[Received]:
        began = time.monotonic()
        try:
            self.receiver.node.writer.receive(parts)
            # The check comes first: a synchronisation that was replaced is to write nothing, and to wait for no lock.
            done = transact_at(self.receiver.node, work, is_durable=is_durable, first=self.receiver.check)
        finally:
            self.count(parts[0][0], Counts(seconds=time.monotonic() - began))
        # Fewer results than parts: layers that follow a refusal were not written, and `_apply_first` returns them.
        for (article, _), received in zip(parts, done, strict=False):
            self.count(article, received.counts)
        return done

    def count(self, article: Article, counts: Counts) -> None:
        """Add to an article's result."""
        self.counts.setdefault(article.name, Counts()).add(counts)

    def _retry(self) -> None:
        """Retry deferred rows, once: together with deferred constraints, then each; reject what is refused then."""
        waiting = list(self._waiting.values())
        for article, _ in waiting:
            self.count(article, Counts(retried=1))
        if waiting and not self.receiver.node.writer.tries_together:
            waiting = [] if self._are_accepted_together(waiting) else self._retry_exchanges(waiting)
        if not waiting:
            return
        parts = by_article(waiting)
        try:
            self._end(parts, Attempt.RETRY)
        except RowsRefused:
            self.refused = [refused for one in self._retry_alone(parts) for refused in one.refused]

    def _finish(self, received: list[Received]) -> list[Received]:
        """Reject what was refused, in the caller's transaction."""
        refused = [(one, each) for one in received for each in one.refused]
        given_up = self.receiver.reject([each for _, each in refused])
        for (one, _), counts in zip(refused, given_up, strict=True):
            one.counts.add(counts)
        self.left = [each for (_, each), counts in zip(refused, given_up, strict=True) if counts.refused]
        return received

    def _retry_alone(self, parts: Sequence[Part]) -> list[Received]:
        """Retry each row in a transaction of its own: some constraints refuse only the commit."""
        left = [(article, change) for article, changes in parts for change in changes]
        errors: dict[str, RowsRefused] = {}
        while left:
            still = []
            for article, change in left:
                try:
                    (received,) = self._attempt([(article, [change])], Attempt.FIRST)
                except RowsRefused as error:
                    errors[change.rowguid] = error
                    still.append((article, change))
                    continue
                for refused in received.refused:
                    errors[change.rowguid] = refused.error
                    still.append((article, change))
            if len(still) == len(left):
                break
            left = still
        if not left:
            return []
        node = self.receiver.node
        ends = []
        for article, change in left:
            holder = None if change.row is None else node.rows.find_key_holder(article, change.row)
            ends.append(Refused(article, change, Refusal(errors[change.rowguid], holder)))
        given_up = [(each.article, [each.change]) for each in ends]
        return self._counted(given_up, lambda: self._finish([Received(Counts(), [each]) for each in ends]))

    def _retry_exchanges(self, waiting: list[Waiting]) -> list[Waiting]:
        """Retry each row together with the removal of the row that has its key; return the rows still refused."""
        removals = {change.rowguid: (article, change) for article, change in waiting if change.row is None}
        done: set[str] = set()
        for article, change in waiting if removals else ():
            holder = None if change.row is None else self.receiver.node.rows.find_key_holder(article, change.row)
            if holder in removals and self._are_accepted_together([removals[holder], (article, change)]):
                done |= {holder, change.rowguid}
        return [(article, change) for article, change in waiting if change.rowguid not in done]

    def _are_accepted_together(self, waiting: Sequence[Waiting]) -> bool:
        try:
            self._attempt(by_article(waiting), Attempt.TOGETHER)
        except RowsRefused:
            return False
        return True


Waiting = tuple[Article, RowChange]
"""A change that is to be tried last."""


def by_article(changes: Iterable[Waiting]) -> list[Part]:
    """Return changes as parts, one for each article."""
    parts: dict[int, tuple[Article, list[RowChange]]] = {}
    for article, change in changes:
        parts.setdefault(article.nickname, (article, []))[1].append(change)
    return list(parts.values())


def batches_of(changes: Sequence[RowChange]) -> Iterator[Sequence[RowChange]]:
    """Yield changes in batches."""
    for start in range(0, len(changes), _BATCH_ROWS):
        yield changes[start : start + _BATCH_ROWS]


def transact(receiver: Receiver, work: Callable[[], Result]) -> Result:
    """Run work at the receiver's node as `transact_at` does, if the session was not replaced."""
    return transact_at(receiver.node, work, first=receiver.check)


def accepted(change: RowChange, known: KnownVersion | None, origin: int, priority: float | None) -> Write:
    """Return what writes a sender's version unchanged; `priority` is the weight of the sender's own versions.

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
        priority=priority if change.priority is None else change.priority,
    )


def alike(
    changes: Sequence[RowChange], known: Mapping[str, KnownVersion]
) -> Iterator[tuple[Sequence[RowChange], KnownVersion | None]]:
    """Yield groups of changes with the same version, on rows with the same metadata, together with that metadata.

    Rows changed between the same synchronisations, often thousands, form one group, which is decided once.
    """
    groups: dict[tuple[object, ...], tuple[list[RowChange], KnownVersion | None]] = {}
    for change in changes:
        rowguid, lineage, last, columns, row, tombstone, _, _, priority, overrules = change
        here = known.get(rowguid)
        key = (lineage, last, columns, row is None, tombstone, priority, overrules, id(here))
        if key not in groups:
            groups[key] = ([], here)
        groups[key][0].append(change)
    return iter(groups.values())


def accepted_alike(
    changes: Sequence[RowChange], known: KnownVersion | None, origin: int, priority: float | None
) -> list[Write]:
    """Return what writes the versions of one group of `alike`; see `accepted`."""
    same = accepted(changes[0], known, origin, priority)[2:]
    return make_writes((change.rowguid, change.row, *same) for change in changes)


def count_writes(writes: Sequence[Write]) -> Counts:
    """Return how writes change rows; a tombstone for an absent row is not counted."""
    counts = Counts()
    for write in writes:
        if write.row is None:
            counts.deletes += write.is_live
        elif write.is_live:
            counts.updates += 1
        else:
            counts.inserts += 1
    return counts
