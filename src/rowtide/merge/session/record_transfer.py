"""Logical records: changes grouped by record, and transferred in one transaction each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.conflicts.records import ConflictRecord
from rowtide.merge.errors.rows import FOREIGN_KEY_CODES, RowsRefused
from rowtide.merge.nodes.rows import Refusal
from rowtide.merge.partitions.logical_records import RecordType
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.receiver import Receiver, Refused, transact
from rowtide.merge.session.record_groups import LogicalRecord, group
from rowtide.merge.versions.changes import RowChange, Write

_BATCH_ROWS = 2000
_OF_OTHER_ROWS = (
    *FOREIGN_KEY_CODES,
    "23505",
    "23P01",
    "SQLITE_CONSTRAINT_UNIQUE",
    "SQLITE_CONSTRAINT_PRIMARYKEY",
)
"""Codes of refusals that other rows are the cause of, PostgreSQL's and SQLite's."""
DEFERRED = "RT-8122"
"""Why a row waits that was not refused itself."""
DEFERRED_REASON = "the row's logical record was changed meanwhile, or another row of it was refused"

Writes = dict[int, list[Write]]
"""Writes by the article's nickname."""


@frozen
class RecordRowRefused:
    """A row of a record that a node refused."""

    article: Article
    rowguid: str
    refusal: Refusal


@dataclass(slots=True)
class RecordOutcome:
    """What is written of a record, and what is counted, by the article's nickname.

    `withdrawals` are written before all else: they delete rows whose keys others take; `refused` are rows that must not
    be written. Nothing is written of a record that is deferred; the next synchronisation requests the rows `late`.
    """

    writes: Writes = field(default_factory=dict)
    counts: dict[int, Counts] = field(default_factory=dict)
    conflicts: list[ConflictRecord] = field(default_factory=list)
    is_deferred: bool = False
    late: list[tuple[Article, RowChange]] = field(default_factory=list)
    withdrawals: Writes = field(default_factory=dict)
    refused: list[RecordRowRefused] = field(default_factory=list)

    def write(self, nickname: int, write: Write) -> None:
        """Add a write."""
        self.writes.setdefault(nickname, []).append(write)

    def count(self, nickname: int, counts: Counts) -> None:
        """Add to what is counted."""
        self.counts.setdefault(nickname, Counts()).add(counts)

    def add(self, other: RecordOutcome) -> None:
        """Add another outcome."""
        for nickname, writes in other.writes.items():
            self.writes.setdefault(nickname, []).extend(writes)
        for nickname, counts in other.counts.items():
            self.count(nickname, counts)
        self.conflicts += other.conflicts


Waiting = tuple[LogicalRecord, list[RecordRowRefused]]
"""A record that is to be tried again, and why."""
Rejected = tuple[RecordOutcome, list[Refused]]
"""What was done of a record that was refused, and the rows to be requested again."""
LAST_ATTEMPT = 2
"""The one of `reject` that only asks for the record again."""


class RecordReceiver(Protocol):
    """Decides what to do with received records, in the caller's transaction; see `Receiver`."""

    def screen(self, article: Article, changes: Sequence[RowChange], /) -> tuple[Sequence[RowChange], Counts]:
        """Refuse changes that are to be in no record; return the others, and what was counted."""

    def decide(self, kind: RecordType, records: Sequence[LogicalRecord]) -> list[RecordOutcome]:
        """Return what to write of records of one kind."""

    def accept(self, records: Sequence[LogicalRecord], outcomes: Sequence[RecordOutcome]) -> None:
        """Store what goes with the writes, once these are done."""

    def reject(self, waiting: Sequence[Waiting], attempt: int, /) -> list[Rejected]:
        """Handle records that were refused in every attempt.

        Raises `OutcomeRefused` if the node does not take what this attempt, counted from 0, has decided, not in the
        last one; and for several records if anything is to be written.
        """


class OutcomeRefused(Exception):
    """Undoes a transaction whose outcome the node does not take."""


@dataclass(slots=True)
class RecordTransfer:
    """The records of one direction of a synchronisation; `count` takes what was done with an article."""

    kinds: Sequence[RecordType]
    receiver: Receiver
    handling: RecordReceiver
    count: Callable[[Article, Counts], None]
    refused: list[Refused] = field(default_factory=list)
    _collected: dict[int, list[RowChange]] = field(default_factory=dict)
    _waiting: list[Waiting] = field(default_factory=list)
    _left: list[RecordType] = field(init=False)

    def __post_init__(self) -> None:
        self._left = list(self.kinds)
        self._collected = {article.nickname: [] for kind in self.kinds for article in kind.articles}

    def collect(self, nickname: int, changes: Sequence[RowChange]) -> bool:
        """Take changes of an article for later; return whether its rows are in records."""
        if nickname not in self._collected:
            return False
        self._collected[nickname] += changes
        return True

    def apply(self, following: Article | None = None) -> None:
        """Write the records of the kinds whose articles all come before one that follows, or of all; some may wait."""
        for kind in list(self._left):
            last = max(article.processing_order for article in kind.articles)
            if following is None or following.processing_order > last:
                self._left.remove(kind)
                self._apply(kind)

    def _apply(self, kind: RecordType) -> None:
        changes = {article.nickname: self._screened(article) for article in kind.articles}
        self._collected.update((nickname, []) for nickname in changes)
        now: list[LogicalRecord] = []
        for record in group(self.receiver.node, kind, changes):
            again = any(change.rowguid in self.receiver.again.get(one.nickname, ()) for one, change in record.rows)
            if again:
                self._waiting.append((record, []))
            else:
                now.append(record)
        for batch in _batches(now):
            self._waiting += self._write(batch)

    def _screened(self, article: Article) -> Sequence[RowChange]:
        collected = self._collected[article.nickname]
        if not collected:
            return collected
        left, counts = self.handling.screen(article, collected)
        self.count(article, counts)
        return left

    def retry(self) -> None:
        """Write what is deferred: as before, then each with deferred constraints, then all together."""
        for record, _ in self._waiting:
            for article, _ in record.rows:
                self.count(article, Counts(retried=1))
        self._retry_each()
        may_fit = all(_may_fit_together(refused) for _, refused in self._waiting)
        if len(self._waiting) > 1 and may_fit and self._are_accepted_together():
            self._waiting = []

    def finish(self, *, is_retried: bool) -> None:
        """Reject what is still deferred; with `is_retried` after another attempt, as other rows have arrived since."""
        if is_retried:
            self._retry_each()
        if self._waiting:
            for (record, _), (outcome, asked) in zip(self._waiting, self._reject(self._waiting), strict=True):
                self._count([(record, outcome)])
                self.refused += asked
        self._waiting = []

    def _reject(self, waiting: Sequence[Waiting], attempt: int = 0) -> list[Rejected]:
        try:
            return transact(self.receiver, partial(self.handling.reject, waiting, attempt))
        except (OutcomeRefused, RowsRefused):
            if len(waiting) > 1:
                return [given_up for each in waiting for given_up in self._reject([each])]
            if attempt == LAST_ATTEMPT:
                raise
            return self._reject(waiting, attempt + 1)

    def _retry_each(self) -> None:
        """Write what is deferred until no more is accepted: as before, then each alone, with deferred constraints."""
        waiting = -1
        while self._waiting and waiting != len(self._waiting):
            waiting = len(self._waiting)
            for kind in dict.fromkeys(record.kind for record, _ in self._waiting):
                records = [record for record, _ in self._waiting if record.kind is kind]
                self._waiting = [each for each in self._waiting if each[0].kind is not kind]
                self._waiting += self._write(records)
            if waiting == len(self._waiting):
                self._waiting = [
                    (record, refused)
                    for record, refused in self._waiting
                    if not _may_fit_together(refused) or self._write([record], together=True)
                ]

    def _are_accepted_together(self) -> bool:
        records = [record for record, _ in self._waiting]
        try:
            outcomes = transact(self.receiver, partial(self._attempt, records, together=True))
        except (RowsRefused, _RecordsRefused):
            return False
        self._count(zip(records, outcomes, strict=True))
        return True

    def _write(self, records: Sequence[LogicalRecord], *, together: bool = False) -> list[Waiting]:
        """Write records, except those that are refused; return these."""
        began = time.monotonic()
        try:
            return self._write_accepted(records, together=together)
        finally:
            self.count(records[0].kind.top, Counts(seconds=time.monotonic() - began))

    def _write_accepted(self, records: Sequence[LogicalRecord], *, together: bool) -> list[Waiting]:
        refused: list[Waiting] = []
        left = list(records)
        while left:
            try:
                outcomes = transact(self.receiver, partial(self._attempt, left, together=together))
            except _RecordsRefused as refusing:
                refused += [(left[place], rows) for place, rows in refusing.rows.items()]
                left = [record for place, record in enumerate(left) if place not in refusing.rows]
            except RowsRefused as error:
                if len(left) == 1:
                    article, change = next(iter(left[0].rows))
                    return [*refused, (left[0], [RecordRowRefused(article, change.rowguid, Refusal(error, None))])]
                middle = len(left) // 2
                halves = left[:middle], left[middle:]
                return [*refused, *(each for half in halves for each in self._write_accepted(half, together=together))]
            else:
                self._count(zip(left, outcomes, strict=True))
                break
        return refused

    def _attempt(self, records: Sequence[LogicalRecord], *, together: bool) -> list[RecordOutcome]:
        """Write records in the caller's transaction, all or none."""
        kinds = list(dict.fromkeys(record.kind for record in records))
        outcomes: dict[int, RecordOutcome] = {}
        for kind in kinds:
            places = [place for place, record in enumerate(records) if record.kind is kind]
            decided = self.handling.decide(kind, [records[place] for place in places])
            outcomes.update(zip(places, decided, strict=True))
        listed = [outcomes[place] for place in range(len(records))]
        if refusing := {place: outcome.refused for place, outcome in outcomes.items() if outcome.refused}:
            raise _RecordsRefused(refusing)
        if together:
            if refusing := self._find_referenced(kinds, listed):
                raise _RecordsRefused(refusing)
            parts = [part for kind in kinds for part in _parts(kind, [outcome.writes for outcome in listed])]
            if parts:
                self.receiver.node.writer.write_together(parts, bounds=self.receiver.bounds)
        else:
            self._require_accepted(kinds, listed)
        self.handling.accept(records, listed)
        return listed

    def _find_referenced(
        self, kinds: Sequence[RecordType], outcomes: Sequence[RecordOutcome]
    ) -> dict[int, list[RecordRowRefused]]:
        """Return the rows that would be deleted below their children, which then were another's with the same key."""
        refused: dict[int, list[RecordRowRefused]] = {}
        for kind in kinds:
            for link in kind.links:
                parent, child = link.parent.nickname, link.child.nickname
                deleted = {
                    one.rowguid: place
                    for place, outcome in enumerate(outcomes)
                    for one in outcome.writes.get(parent, ())
                    if one.row is None and one.is_live
                }
                there = self.receiver.node.rows.read_children(link, list(deleted)) if deleted else {}
                written = {one.rowguid for outcome in outcomes for one in outcome.writes.get(child, ())}
                for rowguid in {above for row, above in there.items() if row not in written}:
                    error = RowsRefused(
                        link.parent.name, FOREIGN_KEY_CODES[0], f"rows of {link.child.name} reference it"
                    )
                    listed = refused.setdefault(deleted[rowguid], [])
                    listed.append(RecordRowRefused(link.parent, rowguid, Refusal(error, None)))
        return refused

    def _require_accepted(self, kinds: Sequence[RecordType], outcomes: Sequence[RecordOutcome]) -> None:
        """Write outcomes; raise `_RecordsRefused` if any row is refused."""
        places = {
            (nickname, one.rowguid): place
            for place, outcome in enumerate(outcomes)
            for nickname, writes in outcome.writes.items()
            for one in writes
        }
        refused: dict[int, list[RecordRowRefused]] = {}
        for kind in kinds:
            for parts in _steps(kind, outcomes):
                written = self.receiver.node.writer.write_each(parts, bounds=self.receiver.bounds)
                for (article, _), refusals in zip(parts, written, strict=True):
                    for rowguid, refusal in refusals.items():
                        place = places[article.nickname, rowguid]
                        refused.setdefault(place, []).append(RecordRowRefused(article, rowguid, refusal))
        if refused:
            raise _RecordsRefused(refused)

    def _count(self, done: Iterable[tuple[LogicalRecord, RecordOutcome]]) -> None:
        for record, outcome in done:
            for article in record.kind.articles:
                if article.nickname in outcome.counts:
                    self.count(article, outcome.counts[article.nickname])


def _may_fit_together(refused: Sequence[RecordRowRefused]) -> bool:
    """Whether rows may be taken once constraints are deferred, or other rows are there or gone."""
    return all(each.refusal.error.code in _OF_OTHER_ROWS for each in refused)


class _RecordsRefused(Exception):
    """Undoes a transaction in which rows of some records were refused, by the record's place."""

    def __init__(self, rows: dict[int, list[RecordRowRefused]]) -> None:
        super().__init__()
        self.rows = rows


def write_outcome(receiver: Receiver, kind: RecordType, outcome: RecordOutcome) -> None:
    """Write the outcome of one record, in the caller's transaction. Raises `OutcomeRefused`."""
    for parts in _steps(kind, [outcome]):
        if any(receiver.node.writer.write_each(parts, bounds=receiver.bounds)):
            raise OutcomeRefused


def _steps(kind: RecordType, outcomes: Sequence[RecordOutcome]) -> Iterator[list[tuple[Article, list[Write]]]]:
    """Yield what is written one after the other.

    Rows without children are deleted first, as another row may have their key; those that had children once these are
    gone, or have another parent.
    """
    leaves, writes = kind.leaves, [outcome.writes for outcome in outcomes]
    below = _parts(kind, writes, lambda one: one.row is None)
    for parts in (
        _parts(kind, [outcome.withdrawals for outcome in outcomes])[::-1],
        [part for part in below if part[0].nickname in leaves],
        _parts(kind, writes, lambda one: one.row is not None),
        [part for part in reversed(below) if part[0].nickname not in leaves],
    ):
        if parts:
            yield parts


def _parts(
    kind: RecordType, writes: Sequence[Writes], is_meant: Callable[[Write], bool] = lambda _one: True
) -> list[tuple[Article, list[Write]]]:
    """Return writes by article, parents first."""
    parts = (
        (article, [one for each in writes for one in each.get(article.nickname, ()) if is_meant(one)])
        for article in sorted(kind.articles, key=lambda article: article.processing_order)
    )
    return [part for part in parts if part[1]]


def _batches(records: Sequence[LogicalRecord]) -> Iterator[list[LogicalRecord]]:
    batch: list[LogicalRecord] = []
    rows = 0
    for record in records:
        if batch and rows + len(record) > _BATCH_ROWS:
            yield batch
            batch, rows = [], 0
        batch.append(record)
        rows += len(record)
    if batch:
        yield batch
