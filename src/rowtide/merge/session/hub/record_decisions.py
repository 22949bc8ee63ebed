"""What the hub makes of uploaded logical records: it resolves their conflicts, by row or as a whole.

Where the subscriber's record wins as a whole, the hub needs the subscriber's versions also of rows that only the hub
has changed: such a record is deferred, and its rows are requested in the same synchronisation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.conflicts.lost_rows import Lost
from rowtide.merge.conflicts.record_contests import ContestedRow, choose, is_contested, is_live, kind_of, settle
from rowtide.merge.conflicts.records import AS_WON, ConflictRecord, ConflictType, identify, names_lost, reason_of
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.nodes.rows import Place, Refusal, by_nickname
from rowtide.merge.partitions.logical_records import RecordType
from rowtide.merge.session.accepted_versions import count_writes
from rowtide.merge.session.hub.decisions import instead
from rowtide.merge.session.hub.hub_receiver import HubReceiver
from rowtide.merge.session.hub.parent_keys import Families, defer_orphans, find_families
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.node_receiver import rowguids_of
from rowtide.merge.session.receiver import Part, transact
from rowtide.merge.session.record_groups import LogicalRecord, find_members
from rowtide.merge.session.record_transfer import RecordOutcome, RecordRowRefused
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write
from rowtide.merge.versions.comparison import NodeChange


@frozen
class _Part:
    """Changes of an article, with what the hub knows of them and of their parents."""

    part: Part
    known: Mapping[str, KnownVersion]
    families: Families

    def find_orphans(self, writes: Sequence[Write], articles: Mapping[int, Article]) -> dict[str, Refusal]:
        """Return the refusals of writes that reference a parent which is not at the hub."""
        return defer_orphans(self.part, self.families, writes, articles)


@dataclass(slots=True)
class HubRecordDecisions:
    """The part of `HubRecords` that decides.

    `sent` is the hub's generation that the subscriber has, `unreceived` what it refused of that; `buried` are the rows
    that the hub deleted since, by the top row of the record that they are in at the subscriber. `lost` are rows that
    deletes may reach, by the delete. `wanted` are rows to request now, `requested` those that were.
    """

    receiver: HubReceiver
    sent: int
    unreceived: frozenset[Place] = frozenset()
    buried: dict[str, list[Place]] = field(default_factory=dict)
    lost: dict[Place, Sequence[Lost]] = field(default_factory=dict)
    wanted: set[Place] = field(default_factory=set)
    requested: set[Place] = field(default_factory=set)

    def screen(self, article: Article, changes: Sequence[RowChange], /) -> tuple[Sequence[RowChange], Counts]:
        """See `RecordReceiver.screen`: the rows of others, in a transaction of its own."""
        if article.nickname not in self.receiver.filters:
            return changes, Counts()
        part: Part = (article, changes)

        def work() -> tuple[list[Part], list[Counts]]:
            known = self.receiver.read_known(rowguids_of([part]))
            self.receiver.check_lineages([part], known)
            return self.receiver.refuse_others([part], known)

        ((_, left),), (counts,) = transact(self.receiver, work)
        return left, counts

    def decide(self, kind: RecordType, records: Sequence[LogicalRecord]) -> list[RecordOutcome]:
        """See `RecordReceiver.decide`."""
        outcomes = [RecordOutcome() for _ in records]
        contested: set[int] = set()
        for place, rows in enumerate(self.read_contested(kind, records) if kind.resolves else ()):
            if is_contested(rows, detects=kind.detects):
                contested.add(place)
                self.resolve(rows, choose(kind.top, rows, self.receiver.priority), outcomes[place])
        if contested:
            self.require_parents(kind, [(records[place], outcomes[place]) for place in contested])
        self.decide_rows(kind, [(records[p], outcomes[p]) for p in range(len(records)) if p not in contested])
        self._judge_deletes(kind, records, outcomes)
        return outcomes

    def _judge_deletes(
        self, kind: RecordType, records: Sequence[LogicalRecord], outcomes: Sequence[RecordOutcome]
    ) -> None:
        """Refuse deletes that would reach rows which the subscriber had not seen; see `Cascades`."""
        cascades = self.receiver.cascades
        deleting = [(article, change) for one in records for article, change in one.rows if change.row is None]
        if cascades is None:
            return
        writes = {
            (article.nickname, one.rowguid): (one, outcome)
            for article in kind.articles
            for outcome in outcomes
            for one in outcome.writes.get(article.nickname, ())
        }
        places = {(article.nickname, change.rowguid) for article, change in deleting}
        known = self.read_known(kind, places)
        gone = {place for place, (one, _) in writes.items() if one.row is None}
        cascades.staying.update(place for place in places - gone if is_live(known.get(place)))
        parts = [
            (article, [one for (nickname, _), (one, _) in writes.items() if nickname == article.nickname])
            for article in kind.articles
        ]
        judged = cascades.judge(parts, self.receiver.read_known)
        for place, error in judged.refused.items():
            article = self.receiver.articles[place[0]]
            writes[place][1].refused.append(RecordRowRefused(article, place[1], Refusal(error, None)))
        for lost in judged.lost:
            self.lost[min(lost.deleted)] = [*self.lost.get(min(lost.deleted), ()), lost]

    def accept(self, records: Sequence[LogicalRecord], outcomes: Sequence[RecordOutcome]) -> None:
        """See `RecordReceiver.accept`."""
        changes: dict[int, tuple[Article, list[RowChange]]] = {}
        for one, outcome in zip(records, outcomes, strict=True):
            self.receiver.record(outcome.conflicts)
            for article, change in () if outcome.is_deferred else one.rows:
                changes.setdefault(article.nickname, (article, []))[1].append(change)
            self._keep_lost(one, outcome)
        for article, taken in changes.values():
            if article.nickname in self.receiver.filters:
                self.receiver.keep_partition(article, taken)
            self.receiver.forget_retries(article, taken)

    def _keep_lost(self, one: LogicalRecord, outcome: RecordOutcome) -> None:
        """Record the rows that a record's deletes have reached."""
        deleted = [(article.nickname, change.rowguid) for article, change in one.rows if change.row is None]
        lost = [each for place in deleted for each in self.lost.pop(place, ())]
        if lost and self.receiver.cascades is not None:
            for (nickname, _), rows in self.receiver.cascades.keep_lost(lost, frozenset()).items():
                outcome.count(nickname, Counts(conflicts=rows))

    def decide_rows(self, kind: RecordType, decided: Sequence[tuple[LogicalRecord, RecordOutcome]]) -> None:
        """Decide on each row by itself, of all records at once."""
        for received in self._receive(kind, [one for one, _ in decided]):
            article, nickname = received.part[0], received.part[0].nickname
            outcomes = {change.rowguid: outcome for one, outcome in decided for change in one.changes.get(nickname, ())}
            found = self.receiver.decide(received.part, received.known, received.families)
            for write in found.writes:
                outcomes[write.rowguid].write(nickname, write)
            for write in found.taken:
                outcomes[write.rowguid].count(nickname, count_writes([write]))
            for conflict in found.conflicts:
                outcomes[conflict.rowguid].conflicts.append(conflict)
                outcomes[conflict.rowguid].count(nickname, Counts(conflicts=1))
            for rowguid, refusal in received.find_orphans(found.writes, self.receiver.articles).items():
                outcomes[rowguid].refused.append(RecordRowRefused(article, rowguid, refusal))

    def require_parents(self, kind: RecordType, decided: Sequence[tuple[LogicalRecord, RecordOutcome]]) -> None:
        """Refuse rows that would be written although their parents are not at the hub."""
        for received in self._receive(kind, [one for one, _ in decided]):
            article, nickname = received.part[0], received.part[0].nickname
            sent = {change.rowguid for change in received.part[1]}
            for _, outcome in decided:
                writes = [write for write in outcome.writes.get(nickname, ()) if write.rowguid in sent]
                for rowguid, refusal in received.find_orphans(writes, self.receiver.articles).items():
                    outcome.refused.append(RecordRowRefused(article, rowguid, refusal))

    def read_sent(self, kind: RecordType, records: Sequence[LogicalRecord]) -> dict[Place, tuple[RowChange, bool]]:
        """Return the changes of records, with the keys that their parents have at the hub, and whether these differ."""
        return {
            (received.part[0].nickname, change.rowguid): (
                received.families.with_new_parents(change),
                change.rowguid in received.families.moved,
            )
            for received in self._receive(kind, records)
            for change in received.part[1]
        }

    def _receive(self, kind: RecordType, records: Sequence[LogicalRecord]) -> list[_Part]:
        parts: list[Part] = [
            (article, [change for one in records for change in one.changes.get(article.nickname, ())])
            for article in kind.articles
        ]
        known, keys = self.receiver.read(parts)
        coming = {
            (article.nickname, change.rowguid)
            for article, changes in parts
            for change in changes
            if change.row is not None
        }
        return [
            _Part(part, here, find_families(part, self.receiver.articles, keys, coming))
            for part, here in zip(parts, known, strict=True)
        ]

    def read_contested(self, kind: RecordType, records: Sequence[LogicalRecord]) -> list[list[ContestedRow]]:
        """Return the rows of each record that were sent, or that the hub has changed since the subscriber got them."""
        sent = self.read_sent(kind, records)
        asked: list[dict[Place, RowChange | None]] = [
            {
                (article.nickname, change.rowguid): sent[article.nickname, change.rowguid][0]
                for article, change in one.rows
            }
            for one in records
        ]
        places = {top: place for place, one in enumerate(records) for top in one.tops}
        for nickname, tops in find_members(self.receiver.node, kind, places).items():
            for rowguid, top in tops.items():
                asked[places[top]].setdefault((nickname, rowguid), None)
        for top in self.buried.keys() & places.keys():
            for buried in self.buried[top]:
                asked[places[top]].setdefault(buried, None)
        known, present = self.read(kind, {key for each in asked for key in each})
        others = self._find_others(known, present.keys() - sent.keys())
        articles = {article.nickname: article for article in kind.articles}
        return [
            [
                ContestedRow(
                    articles[key[0]], key[1], change, known.get(key), present.get(key), key in sent and sent[key][1]
                )
                for key, change in each.items()
                if change is not None or (key not in others and self._is_news(key, known.get(key)))
            ]
            for each in asked
        ]

    def _find_others(self, known: Mapping[Place, KnownVersion], places: Iterable[Place]) -> set[Place]:
        """Return the rows that are none of the subscriber's.

        A device that names the top row of another's record as that of a row of its own gets no part in that record.
        """
        found: set[Place] = set()
        for nickname, rowguids in by_nickname(each for each in places if not known[each].is_held).items():
            belonging = self.receiver.node.rows.find_belonging(self.receiver.filters[nickname], rowguids)
            found.update((nickname, rowguid) for rowguid in rowguids if rowguid not in belonging)
        return found

    def read_known(self, kind: RecordType, places: Iterable[Place]) -> dict[Place, KnownVersion]:
        """Return what the hub knows of rows."""
        rowguids = by_nickname(places)
        asked = [(article, rowguids[article.nickname]) for article in kind.articles if article.nickname in rowguids]
        found = self.receiver.read_known(asked)
        return {
            (article.nickname, rowguid): here
            for (article, _), each in zip(asked, found, strict=True)
            for rowguid, here in each.items()
            if not here.has_left
        }

    def read(self, kind: RecordType, places: Iterable[Place]) -> tuple[dict[Place, KnownVersion], dict[Place, Row]]:
        """Return what the hub knows and has of rows."""
        known = self.read_known(kind, places)
        present: dict[Place, Row] = {}
        for article in kind.articles:
            live = [at[1] for at, here in known.items() if at[0] == article.nickname and is_live(here)]
            rows = self.receiver.node.rows.read(article, live) if live else {}
            present.update(((article.nickname, rowguid), row) for rowguid, row in rows.items())
        return known, present

    def resolve(self, rows: Sequence[ContestedRow], winner: Winner, outcome: RecordOutcome) -> None:
        """Let one side's record win; deferred while the subscriber's versions of rows are missing that would win."""
        missing = {
            (row.article.nickname, row.rowguid) for row in rows if row.sent is None and winner is Winner.SUBSCRIBER
        } - self.requested
        if missing:
            outcome.is_deferred = True
            self.wanted |= {(row.article.nickname, row.rowguid) for row in rows}
        else:
            self.let_win(rows, winner, outcome)

    def let_win(self, rows: Iterable[ContestedRow], winner: Winner, outcome: RecordOutcome) -> None:
        """Write what the winner's record makes of rows, and record what is lost."""
        for row in rows:
            write, nickname = settle(row, winner, self.receiver.priority), row.article.nickname
            if write is None and winner is Winner.SUBSCRIBER and row.is_ahead and row.sent is not None:
                if row.is_moved:
                    write = instead(row.sent, row.known, row.sent.row, is_new=True)
                else:
                    (write,) = self.receiver.taken([row.sent], row.known)
                outcome.count(nickname, count_writes([write]))
            if write is None:
                continue
            outcome.write(nickname, write)
            conflict_type = kind_of(row, winner)
            if conflict_type is not None:
                outcome.conflicts.append(self.conflict(row, winner, conflict_type))
                outcome.count(nickname, Counts(conflicts=1))

    def conflict(
        self, row: ContestedRow, winner: Winner, conflict_type: ConflictType, code: str = "", reason: str = ""
    ) -> ConflictRecord:
        """Return the conflict that a row has lost; its code and reason are those of the type unless given."""
        sent = None if row.sent is None else row.sent.row
        last = None if row.known is None else row.known.version.last
        columns = None
        if row.sent is not None and row.known is not None:
            versions = (row.known.version, row.sent.version)
            columns = names_lost(row.article, *(versions if winner is Winner.SUBSCRIBER else reversed(versions)))
        if winner is Winner.SUBSCRIBER:
            lineage = b"" if row.known is None else row.known.version.lineage.encode()
            lost, won, origin, name = row.row, sent, last, self.receiver.hub_name
        else:
            lineage = b"" if row.sent is None else row.sent.lineage
            origin = None if row.sent is None else NodeChange.decode(row.sent.last)
            lost, won, name = sent, row.row, self.receiver.source_name
        return ConflictRecord(
            identify(row.rowguid, b"" if row.sent is None else row.sent.last, b"" if last is None else last.encode()),
            self.receiver.subscription.pubid,
            row.article,
            row.rowguid,
            conflict_type,
            self.receiver.source if origin is None else origin.nickname,
            code or str(int(conflict_type)),
            reason or reason_of(conflict_type),
            lost,
            won,
            lineage,
            name,
            losing_columns=columns,
            settled_row=won if winner is Winner.SUBSCRIBER else AS_WON,
        )

    def _is_news(self, place: Place, known: KnownVersion | None) -> bool:
        """Whether the hub has changed a row since the subscriber last received it."""
        if known is None or known.version.last is None or known.origin == self.receiver.source:
            return False
        return known.generation is None or known.generation > self.sent or place in self.unreceived
