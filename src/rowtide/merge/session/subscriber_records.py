"""What a subscriber does with downloaded logical records.

A record that it has changed since its upload is deferred as a whole: the next synchronisation uploads that change, and
applies what the hub decides together with the rest of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from rowtide.merge.articles import Article
from rowtide.merge.exchange_state import put_retry
from rowtide.merge.partitions.logical_records import RecordType
from rowtide.merge.row_hashes import HashBatch
from rowtide.merge.session.accepted_versions import accepted, count_writes
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.node_receiver import SubscriberReceiver
from rowtide.merge.session.receiver import Refused
from rowtide.merge.session.record_groups import LogicalRecord, find_members
from rowtide.merge.session.record_transfer import (
    DEFERRED,
    DEFERRED_REASON,
    RecordOutcome,
    RecordRowRefused,
    Rejected,
    Waiting,
)
from rowtide.merge.versions.changes import KnownVersion, RowChange, TombstoneType, overruling
from rowtide.merge.versions.comparison import Accept, Combine, Conflict, Join, Nothing, Presence, compare


class Standing(Enum):
    """What a received version is to the subscriber's."""

    OLD = auto()
    NEWER = auto()
    CONCURRENT = auto()


@dataclass(slots=True)
class SubscriberRecords:
    """See `RecordReceiver`; `sent` is the subscriber's generation that the hub has."""

    receiver: SubscriberReceiver
    sent: int

    def screen(self, _article: Article, changes: Sequence[RowChange], /) -> tuple[Sequence[RowChange], Counts]:
        return changes, Counts()

    def decide(self, kind: RecordType, records: Sequence[LogicalRecord]) -> list[RecordOutcome]:
        known = self._read_known(kind, records)
        touched = self._touched(kind, records) if kind.detects else set()
        return [self._decide(one, known, is_touched=place in touched) for place, one in enumerate(records)]

    def accept(self, records: Sequence[LogicalRecord], outcomes: Sequence[RecordOutcome]) -> None:
        changes: dict[int, tuple[Article, list[RowChange]]] = {}
        for one, outcome in zip(records, outcomes, strict=True):
            for article, change in outcome.late:
                self._request_later(article, change)
            for article, change in () if outcome.is_deferred else one.rows:
                changes.setdefault(article.nickname, (article, []))[1].append(change)
        for article, received in changes.values():
            self.receiver.forget_retries(article, received)
            hashes = HashBatch(article)
            for outcome in outcomes:
                hashes.add([(each.rowguid, each.row) for each in outcome.writes.get(article.nickname, ())])
            hashes.put(self.receiver.node.connection)

    def reject(self, waiting: Sequence[Waiting], _attempt: int, /) -> list[Rejected]:
        known: dict[tuple[int, str], KnownVersion] = {}
        for kind in dict.fromkeys(record.kind for record, _ in waiting):
            known |= self._read_known(kind, [record for record, _ in waiting if record.kind is kind])
        return [self._reject(record, refused, known) for record, refused in waiting]

    def _reject(
        self, record: LogicalRecord, refused: Sequence[RecordRowRefused], known: dict[tuple[int, str], KnownVersion]
    ) -> Rejected:
        said, outcome, asked = {each.rowguid: each for each in refused}, RecordOutcome(is_deferred=True), []
        for article, change in record.rows:
            because, here = said.get(change.rowguid), known.get((article.nickname, change.rowguid))
            if because is None or change.tombstone is TombstoneType.LEFT:
                if self._standing(*_overruling(change, here)) is Standing.NEWER:
                    self._request_later(article, change)
                continue
            asked.append(Refused(article, change, because.refusal))
            self.receiver.requeue(asked[-1], here)
            outcome.count(article.nickname, Counts(refused=1))
        return outcome, asked

    def _read_known(self, kind: RecordType, records: Sequence[LogicalRecord]) -> dict[tuple[int, str], KnownVersion]:
        asked = [
            (article, [change.rowguid for one in records for change in one.changes.get(article.nickname, ())])
            for article in kind.articles
        ]
        found = self.receiver.read_known(asked)
        return {
            (article.nickname, rowguid): known
            for (article, _), each in zip(asked, found, strict=True)
            for rowguid, known in each.items()
        }

    def _touched(self, kind: RecordType, records: Sequence[LogicalRecord]) -> set[int]:
        """Return the places of the records of which the subscriber has changed any row since its upload."""
        places = {top: place for place, one in enumerate(records) for top in one.tops}
        members = find_members(self.receiver.node, kind, places)
        asked = [(article, list(members[article.nickname])) for article in kind.articles]
        found = self.receiver.read_known(asked)
        return {
            places[members[article.nickname][rowguid]]
            for (article, _), each in zip(asked, found, strict=True)
            for rowguid, known in each.items()
            if known.origin is None and known.generation is not None and known.generation > self.sent
        }

    def _decide(
        self, one: LogicalRecord, known: dict[tuple[int, str], KnownVersion], *, is_touched: bool
    ) -> RecordOutcome:
        found = [
            (article, *_overruling(change, known.get((article.nickname, change.rowguid))))
            for article, change in one.rows
        ]
        standings = [(article, change, here, self._standing(change, here)) for article, change, here in found]
        newer = [(article, change, here) for article, change, here, standing in standings if standing is Standing.NEWER]
        if newer and (is_touched or any(standing is Standing.CONCURRENT for *_, standing in standings)):
            return RecordOutcome(is_deferred=True, late=[(article, change) for article, change, _ in newer])
        outcome = RecordOutcome()
        for article, change, here in newer:
            write = accepted(change, here, self.receiver.source, None)
            outcome.write(article.nickname, write)
            outcome.count(article.nickname, count_writes([write]))
        for _, change, _, standing in standings:
            if standing is Standing.CONCURRENT and change.tombstone is TombstoneType.LEFT:
                self.receiver.staying.add(change.rowguid)
        return outcome

    def _standing(self, change: RowChange, known: KnownVersion | None) -> Standing:
        return _standing(change, known, repeats=self.receiver.repeats)

    def _request_later(self, article: Article, change: RowChange) -> None:
        if change.row is None:
            self.receiver.staying.add(change.rowguid)
        if change.tombstone is not TombstoneType.LEFT:
            self.receiver.asking.add((article.nickname, change.rowguid))
            connection, source = self.receiver.node.connection, self.receiver.source
            put_retry(connection, source, article.nickname, change.rowguid, DEFERRED, DEFERRED_REASON)


def _overruling(change: RowChange, known: KnownVersion | None) -> tuple[RowChange, KnownVersion | None]:
    (change,), known = overruling([change], known)
    return change, known


def _standing(change: RowChange, known: KnownVersion | None, *, repeats: bool = False) -> Standing:
    if known is None or known.has_left:
        return Standing.OLD if change.row is None else Standing.NEWER
    last = known.version.last
    if change.tombstone is TombstoneType.LEFT:
        if known.version.presence is Presence.DELETED:
            return Standing.OLD
        return Standing.NEWER if last is None or change.version.lineage.includes(last) else Standing.CONCURRENT
    if repeats and last in (None, change.version.last):
        return Standing.NEWER
    said = compare(change.version, known.version)
    match said:
        case Nothing():
            return Standing.OLD
        case Accept():
            return Standing.NEWER
        case Join() | Combine() | Conflict():
            return Standing.CONCURRENT
        case _:
            assert_never(said)
