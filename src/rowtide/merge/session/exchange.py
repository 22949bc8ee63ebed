"""Transfer changes from one node to another: upserts parents first, then deletes children first.

A change that a node refuses, such as a child whose parent is still to come, is retried after all others, once. If it is
refused again, it stays listed, and the next synchronisation requests it again; it comes after all others then.

The last batch, the retry, and the record that everything was received are one transaction where possible: each costs
round trips.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, chain

from rowtide.merge.articles import Article
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.nodes.node import transact_at
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.session.change_order import BATCH_ROWS, ChangeOrder
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.receiver import ArticleChange, Attempt, Part, Received, Receiver, Refused, by_article
from rowtide.merge.session.record_transfer import RecordTransfer
from rowtide.merge.session.spool import Spool
from rowtide.merge.versions.changes import RowChange


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
    records: RecordTransfer | None = None
    conclude: Callable[[], None] = lambda: None
    is_concluded: bool = False
    _order: ChangeOrder = field(init=False)

    def __post_init__(self) -> None:
        self._order = ChangeOrder(self.articles, self.receiver.is_upload)

    def run(self, spool: Spool) -> None:
        """Transfer all changes; at the end those that were refused, and those requested again after they were.

        Logical records come after the rows that they may reference, and before those that may reference them.
        """
        self._order.note_coming(spool.batches())
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
                self._apply(last[0], self._order.in_layers(*last))
            (last,) = parts
        if last is not None:
            self._apply_last(*last)
        if self.records is None:
            self._retry()
            return
        self.records.apply()
        self.records.retry()
        has_waited = bool(self._order.deferred)
        self._retry()
        self.records.finish(is_retried=has_waited)
        self.refused += self.records.refused
        self.left += self.records.refused

    def run_part(self, spool: Spool) -> list[Part]:
        """Transfer changes that others of the same upload follow; return what is refused, or requested again."""
        for parts in self._parts(spool):
            self._apply_together(parts)
        return by_article(list(self._order.deferred.values()))

    def _parts(self, spool: Spool) -> Iterator[Sequence[Part]]:
        """Yield what is to be applied now, in the parts that are written together; the rest is deferred."""
        batches = self._order.join(spool.batches())
        for nickname, changes in batches:
            if changes[0].row is None:
                deletes = (part for each in chain([(nickname, changes)], batches) for part in self._now(*each))
                yield from self.receiver.group(deletes)
                return
            for part in self._now(nickname, changes):
                yield [part]

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
                self._order.defer(article, change)
        if now:
            yield article, now
        self.on_progress(len(changes))

    def _apply_together(self, parts: Sequence[Part]) -> None:
        """Apply deletes in one transaction; what is refused is deferred."""
        if len(parts) == 1:
            self._apply(parts[0][0], self._order.in_layers(*parts[0]))
            return
        try:
            received = self._attempt(parts, Attempt.ALONE)
        except RowsRefused:
            for article, changes in parts:
                self._apply(article, self._order.in_layers(article, changes))
            return
        for one in received:
            for refused in one.refused:
                self._order.defer(refused.article, refused.change)

    def _apply(self, article: Article, layers: Sequence[Sequence[RowChange]]) -> None:
        """Apply layers, a batch in a transaction; what follows a refused row is deferred with it."""
        left = list(layers)
        while left:
            now = {change.rowguid for change in self._order.defer_children(article, list(chain.from_iterable(left)))}
            left = [rows for layer in left if (rows := [change for change in layer if change.rowguid in now])]
            together = [
                layer for layer, total in zip(left, accumulate(map(len, left)), strict=True) if total <= BATCH_ROWS
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
                self._apply_divided(article, self._order.defer_children(article, layer))
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
                self._order.defer(article, changes[0])
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
                self._order.defer(article, each.change)

    def _apply_exchanged(self, article: Article, refused: Sequence[Refused]) -> set[str]:
        """Apply refused rows that have the keys of each other, before any that references them; return the accepted."""
        holders = {each.change.rowguid: each.refusal.holder for each in refused}
        changes = [each.change for each in refused if each.refusal.holder in holders]
        if len(changes) > 1 and self._are_accepted_together([(article, change) for change in changes]):
            return {change.rowguid for change in changes}
        return set()

    def _apply_last(self, article: Article, changes: Sequence[RowChange]) -> None:
        """Apply the last batch, in one transaction with what is deferred; if that fails, batch by batch as others."""
        *layers, last = self._order.in_layers(article, self._order.defer_children(article, changes)) or [[]]
        self._apply(article, layers)
        changes = self._order.defer_children(article, last)
        waiting = list(self._order.deferred.values())
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
        self._order.deferred.clear()

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
        waiting = list(self._order.deferred.values())
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

    def _retry_exchanges(self, waiting: list[ArticleChange]) -> list[ArticleChange]:
        """Retry each row together with the removal of the row that has its key; return the rows still refused."""
        removals = {change.rowguid: (article, change) for article, change in waiting if change.row is None}
        done: set[str] = set()
        for article, change in waiting if removals else ():
            holder = None if change.row is None else self.receiver.node.rows.find_key_holder(article, change.row)
            if holder in removals and self._are_accepted_together([removals[holder], (article, change)]):
                done |= {holder, change.rowguid}
        return [(article, change) for article, change in waiting if change.rowguid not in done]

    def _are_accepted_together(self, waiting: Sequence[ArticleChange]) -> bool:
        try:
            self._attempt(by_article(waiting), Attempt.TOGETHER)
        except RowsRefused:
            return False
        return True
