"""What the hub does with uploaded logical records that it could not write: each is settled as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide.merge.articles import Article
from rowtide.merge.conflicts.record_contests import ContestedRow, choose, is_contested, is_live, settle
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, failure_type, identify
from rowtide.merge.conflicts.resolvers import Winner, withdrawal
from rowtide.merge.errors.rows import CHILDREN_NOT_SEEN, FOREIGN_KEY_CODES, ParentNotThere
from rowtide.merge.exchange_state import put_retry
from rowtide.merge.nodes.rows import Place, by_nickname
from rowtide.merge.partitions.logical_records import RecordType, find_record_types
from rowtide.merge.session.hub.cascading_deletes import are_any_of_others
from rowtide.merge.session.hub.decisions import instead
from rowtide.merge.session.hub.hub_receiver import HubReceiver
from rowtide.merge.session.hub.key_contests import reason_of_contest
from rowtide.merge.session.hub.parent_keys import parents_of
from rowtide.merge.session.hub.record_decisions import HubRecordDecisions
from rowtide.merge.session.messages import Counts, RowsByArticle, UploadHeader
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.receiver import Refused
from rowtide.merge.session.record_groups import LogicalRecord, find_below, is_child_of
from rowtide.merge.session.record_transfer import (
    DEFERRED,
    DEFERRED_REASON,
    LAST_ATTEMPT,
    OutcomeRefused,
    RecordOutcome,
    RecordRowRefused,
    Rejected,
    Waiting,
    write_outcome,
)
from rowtide.merge.session.spool import Spool
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange

_MOST_REQUESTS = 3


def read_buried(receiver: HubReceiver, pairing: Pairing, spool: Spool) -> dict[int, RowsByArticle]:
    """Return the rows that the hub has deleted since the device was last sent changes, by the kind's top article.

    They are needed of the logical records that are resolved as a whole.
    """
    kinds = [kind for kind in find_record_types(pairing.articles) if kind.resolves]
    resolving = [kind for kind in kinds if any(article.nickname in spool.nicknames for article in kind.articles)]
    if resolving:
        receiver.node.apply_log()
    sent = min(pairing.at_hub.sent, pairing.at_subscriber.received)
    buried: dict[int, RowsByArticle] = {}
    for kind in resolving:
        read = receiver.node.versions.read_buried
        found = {article.nickname: read(article, sent, pairing.at_hub.nickname) for article in kind.articles}
        buried[kind.top.nickname] = {nickname: rowguids for nickname, rowguids in found.items() if rowguids}
    return buried


def hub_records(
    receiver: HubReceiver,
    pairing: Pairing,
    refused: RowsByArticle,
    buried: Mapping[int, RowsByArticle],
    header: UploadHeader,
) -> HubRecords | None:
    """Return what receives the logical records of an upload at the hub; None if no article has such.

    `refused` are the hub's rows that the device has refused, `buried` those that the hub has deleted; the header says
    in which records these are at the device.
    """
    if not find_record_types(pairing.articles):
        return None
    records = HubRecords(receiver, min(pairing.at_hub.sent, pairing.at_subscriber.received), requests=header.round)
    records.requested = {(nickname, each) for nickname, rowguids in header.requested.items() for each in rowguids}
    records.requested.difference_update(receiver.asking)
    if buried:
        records.unreceived = frozenset((nickname, rowguid) for nickname, each in refused.items() for rowguid in each)
    for top_article, rows in buried.items():
        answered = (header.tops or {}).get(top_article, {})
        for nickname, rowguids in rows.items():
            for rowguid in rowguids:
                if rowguid in answered:
                    records.buried.setdefault(answered[rowguid], []).append((nickname, rowguid))
    return records


@dataclass(slots=True)
class HubRecords(HubRecordDecisions):
    """See `RecordReceiver`; `requests` is the number of times that rows were requested in this synchronisation."""

    requests: int = 0

    def reject(self, waiting: Sequence[Waiting], attempt: int, /) -> list[Rejected]:
        for kind in dict.fromkeys(record.kind for record, _ in waiting):
            self.read_known(kind, [place for record, _ in waiting if record.kind is kind for place in _indexes(record)])
        return [self._reject(*each, attempt, is_alone=len(waiting) == 1) for each in waiting]

    def _reject(
        self, record: LogicalRecord, refused: Sequence[RecordRowRefused], attempt: int, *, is_alone: bool
    ) -> Rejected:
        changes = {change.rowguid: change for _, change in record.rows}
        known = self.read_known(record.kind, _indexes(record))
        is_late = not refused or any(each.refusal.is_locked for each in refused)
        outcome = None
        if attempt < LAST_ATTEMPT and not is_late:
            if all(_is_key_taken(each, known) for each in refused):
                outcome = self._settle_keys(record, refused, is_contested=attempt == 0)
            elif any(self._is_undone(each, changes.get(each.rowguid)) for each in refused):
                outcome = self._undo(record, refused)
        if outcome is None:
            return self._requeue(record, known, refused)
        if not is_alone:
            raise OutcomeRefused
        if not outcome.is_deferred:
            write_outcome(self.receiver, record.kind, outcome)
        self.accept([record], [outcome])
        return outcome, []

    @property
    def wants_more(self) -> bool:
        """Whether rows are to be requested in this synchronisation; limited, as programs keep changing them."""
        return bool(self.wanted) and self.requests < _MOST_REQUESTS

    def request(self) -> dict[int, list[str]]:
        """Return the wanted rows, by the article's nickname, as requested."""
        asked = by_nickname(sorted(self.wanted))
        self.requested |= self.wanted
        self.wanted = set()
        self.requests += 1
        return asked

    def request_later(self) -> None:
        """Request rows that are still wanted in the next synchronisation, in the caller's transaction."""
        for nickname, rowguid in sorted(self.wanted):
            self._request_later(nickname, rowguid)

    def _request_later(self, nickname: int, rowguid: str) -> None:
        self.receiver.asking.add((nickname, rowguid))
        put_retry(self.receiver.node.connection, self.receiver.source, nickname, rowguid, DEFERRED, DEFERRED_REASON)

    def _settle_keys(
        self, record: LogicalRecord, refused: Sequence[RecordRowRefused], *, is_contested: bool
    ) -> RecordOutcome:
        """Let one of the rows with the same key win, with the rows below it; the hub's, unless that is contested."""
        kind, said = record.kind, {each.rowguid: each for each in refused}
        holders = {(each.article.nickname, each.refusal.holder): each for each in refused if each.refusal.holder}
        displaced = self._read_below(kind, list(holders))
        holding = [row for row in displaced if (row.article.nickname, row.rowguid) in holders]
        rows = self.read_contested(kind, [record])[0] if kind.resolves else self._rows(record)
        sent = {row.rowguid for row in rows if row.sent is not None}
        displaced = [row for row in displaced if row.rowguid not in sent]
        others = [row for row in rows if row.sent is not None or row.rowguid not in {one.rowguid for one in displaced}]
        winner = Winner.PUBLISHER
        if is_contested and any(row.is_behind for row in holding):
            winner = choose(kind.top, [*others, *holding], self.receiver.priority)
        if winner is Winner.SUBSCRIBER and self._are_any_of_others([*holding, *displaced]):
            winner = Winner.PUBLISHER
        outcome = RecordOutcome()
        keys: dict[str, str] = {}
        if winner is Winner.PUBLISHER:
            losing = self._find_renumbered(record, rows, said)
            keys = self._next_keys(losing)
            self._lose(record, others, set(said) - keys.keys(), outcome, keys)
        else:
            self._decide_rest(record, others, outcome)
            losing = [] if outcome.is_deferred else [row for row in holding if row.article.renumber]
            keys = self._next_keys(losing)
            for article, _ in _by_article(losing):
                renamed = {row.rowguid: keys[row.rowguid] for row in losing if row.article == article}
                self.receiver.node.keys.renumber(article, renamed)
            kept = self._read_below(kind, [(row.article.nickname, row.rowguid) for row in losing]) if losing else ()
            stays = {(row.article.nickname, row.rowguid) for row in kept}
            for row in () if outcome.is_deferred else displaced:
                if (row.article.nickname, row.rowguid) not in stays:
                    self._withdraw(row, outcome)
            for row in losing:
                outcome.conflicts.append(self.conflict(row, winner, ConflictType.RECORD_DELETE_WINS_CONFLICT))
                outcome.count(row.article.nickname, Counts(conflicts=1))
        contests = [(row, holders[row.article.nickname, row.rowguid]) for row in holding]
        _record_keys(outcome, contests, {row.rowguid: row for row in rows}, winner, keys)
        return outcome

    def _are_any_of_others(self, rows: Sequence[ContestedRow]) -> bool:
        receiver = self.receiver
        places = [(row.article, row.rowguid) for row in rows]
        return receiver.holder is not None and are_any_of_others(
            receiver.node, receiver.holder, receiver.filters, places
        )

    def _find_renumbered(
        self, record: LogicalRecord, rows: Sequence[ContestedRow], said: Mapping[str, RecordRowRefused]
    ) -> list[ContestedRow]:
        """Return the rows that get new keys instead of being withdrawn, unless the record loses as a whole."""
        if record.kind.resolves and is_contested(rows, detects=record.kind.detects):
            return []
        return [row for row in rows if row.rowguid in said and row.article.renumber and row.sent is not None]

    def _next_keys(self, losing: Sequence[ContestedRow]) -> dict[str, str]:
        """Return new keys of rows, by rowguid."""
        keys: dict[str, str] = {}
        for article, rowguids in _by_article(losing):
            keys.update(zip(rowguids, self.receiver.node.keys.next_keys(article, len(rowguids)), strict=True))
        return keys

    def _write_renumbered(
        self, record: LogicalRecord, rows: Sequence[ContestedRow], keys: Mapping[str, str], outcome: RecordOutcome
    ) -> set[str]:
        """Write rows with new keys, and those of the record that reference them; return what was written."""
        written: set[str] = set()
        for row in rows:
            change, key = row.sent, keys.get(row.rowguid)
            if change is None or change.row is None:
                continue
            renamed = _with_new_keys(record, row.article, change, keys)
            if key is None and renamed == change.row:
                continue
            outcome.write(row.article.nickname, instead(change, row.known, renamed, is_new=True))
            outcome.count(row.article.nickname, Counts(inserts=1, conflicts=int(key is not None)))
            if key is not None:
                outcome.conflicts.append(self.conflict(row, Winner.PUBLISHER, ConflictType.RECORD_DELETE_WINS_CONFLICT))
            written.add(row.rowguid)
        return written

    def _decide_rest(self, record: LogicalRecord, rows: Sequence[ContestedRow], outcome: RecordOutcome) -> None:
        if record.kind.resolves:
            self.resolve(rows, Winner.SUBSCRIBER, outcome)
        else:
            self.decide_rows(record.kind, [(record, outcome)])

    def _lose(
        self,
        record: LogicalRecord,
        rows: Sequence[ContestedRow],
        losing: set[str],
        outcome: RecordOutcome,
        keys: Mapping[str, str],
    ) -> None:
        """Withdraw the rows whose keys are taken, with those below them; the record if it is resolved as a whole.

        Rows that get new keys remain, with those below them.
        """
        is_whole = record.kind.resolves and not keys
        for link in () if is_whole else record.kind.links:
            parents = [each for each in record.changes.get(link.parent.nickname, ()) if each.rowguid in losing]
            children = record.changes.get(link.child.nickname, ())
            losing |= {child.rowguid for child in children for one in parents if is_child_of(link, child, one)}
        renumbered = self._write_renumbered(record, rows, keys, outcome)
        lost = RecordOutcome()
        self.let_win([row for row in rows if is_whole or row.rowguid in losing], Winner.PUBLISHER, lost)
        if not is_whole:
            rest = LogicalRecord(record.kind, tops=record.tops)
            for article, change in record.rows:
                if change.rowguid not in losing and change.rowguid not in renumbered:
                    rest.changes.setdefault(article.nickname, []).append(change)
            self.decide_rows(record.kind, [(rest, outcome)])
        outcome.add(lost)

    def _withdraw(self, row: ContestedRow, outcome: RecordOutcome) -> None:
        """Delete a row that has lost its key to another, or its parent did, everywhere."""
        if row.known is None or row.row is None:
            return
        nickname = row.article.nickname
        lineage = row.known.version.lineage.encode()
        outcome.withdrawals.setdefault(nickname, []).append(withdrawal(row.rowguid, lineage, is_live=True))
        outcome.conflicts.append(self.conflict(row, Winner.SUBSCRIBER, ConflictType.RECORD_DELETE_WINS_CONFLICT))
        outcome.count(nickname, Counts(conflicts=1, deletes=1))

    def _undo(self, record: LogicalRecord, refused: Sequence[RecordRowRefused]) -> RecordOutcome:
        """Undo a record at the subscriber: the hub has rows that refer to it, or its article wants that."""
        outcome, said = RecordOutcome(), {each.rowguid: each for each in refused}
        for row in self._rows(record):
            write = settle(row, Winner.PUBLISHER, self.receiver.priority)
            if write is None or row.sent is None:
                continue
            outcome.write(row.article.nickname, write)
            because = said.get(row.rowguid)
            if because is not None or not row.is_alike:
                code = DEFERRED if because is None else because.refusal.error.code
                reason = DEFERRED_REASON if because is None else because.refusal.error.reason
                conflict_type = failure_type(row.sent, is_upload=True, is_live=is_live(row.known))
                outcome.conflicts.append(self.conflict(row, Winner.PUBLISHER, conflict_type, code, reason))
                outcome.count(row.article.nickname, Counts(conflicts=1))
        return outcome

    def _is_undone(self, refused: RecordRowRefused, change: RowChange | None) -> bool:
        """Whether a refused row goes back at once: its parent is gone, it has children, or its article wants that."""
        error = refused.refusal.error
        if isinstance(error, ParentNotThere) and change is not None:
            parents = parents_of(refused.article, change, self.receiver.articles)
            return not any((reference.parent, rowguid) in self.receiver.asking for reference, rowguid in parents)
        is_referenced = change is not None and change.row is None and error.code in FOREIGN_KEY_CODES
        return is_referenced or error.code == CHILDREN_NOT_SEEN or refused.article.compensate_for_errors

    def _requeue(
        self, record: LogicalRecord, known: Mapping[Place, KnownVersion], refused: Sequence[RecordRowRefused]
    ) -> Rejected:
        """Request the whole record again in the next synchronisation."""
        outcome, asked = RecordOutcome(is_deferred=True), []
        said = {each.rowguid: each for each in refused}
        for article, change in record.rows:
            because = said.get(change.rowguid)
            if because is None:
                self._request_later(article.nickname, change.rowguid)
            else:
                asked.append(Refused(article, change, because.refusal))
                self.receiver.requeue(asked[-1], known.get((article.nickname, change.rowguid)))
                outcome.count(article.nickname, Counts(refused=1))
        return outcome, asked

    def _rows(self, record: LogicalRecord) -> list[ContestedRow]:
        return self._read_rows(record.kind, _indexes(record), self.read_sent(record.kind, [record]))

    def _read_below(self, kind: RecordType, places: Sequence[Place]) -> list[ContestedRow]:
        """Return rows of the hub's, and all that are below them."""
        rows: dict[int, dict[str, str]] = {}
        for nickname, rowguid in places:
            rows.setdefault(nickname, {})[rowguid] = rowguid
        below = find_below(self.receiver.node, kind, rows)
        return self._read_rows(kind, [(nickname, rowguid) for nickname, each in below.items() for rowguid in each], {})

    def _read_rows(
        self, kind: RecordType, places: Iterable[Place], sent: Mapping[Place, tuple[RowChange, bool]]
    ) -> list[ContestedRow]:
        listed = list(places)
        known, present = self.read(kind, listed)
        articles = {article.nickname: article for article in kind.articles}
        return [
            ContestedRow(articles[at[0]], at[1], change, known.get(at), present.get(at), is_moved)
            for at in listed
            for change, is_moved in [sent.get(at, (None, False))]
        ]


def _is_key_taken(refused: RecordRowRefused, known: Mapping[Place, KnownVersion]) -> bool:
    """Whether a row was inserted at both ends, with different rowguids."""
    return refused.refusal.holder is not None and not is_live(known.get((refused.article.nickname, refused.rowguid)))


def _record_keys(
    outcome: RecordOutcome,
    contests: Sequence[tuple[ContestedRow, RecordRowRefused]],
    sent: Mapping[str, ContestedRow],
    winner: Winner,
    keys: Mapping[str, str],
) -> None:
    """Record the rows that lost their keys as such: each contest is a row of the hub's, and the one with its key.

    `keys` are those that rows have got instead, by rowguid.
    """
    winning: dict[str, tuple[RecordRowRefused, Row | None]] = {}
    for row, refused in contests:
        change = sent[refused.rowguid].sent
        if winner is Winner.PUBLISHER:
            winning[refused.rowguid] = (refused, row.row)
        else:
            winning[row.rowguid] = (refused, None if change is None else change.row)
    outcome.conflicts = [
        _of_key(each, *winning[each.rowguid], keys.get(each.rowguid)) if each.rowguid in winning else each
        for each in outcome.conflicts
    ]


def _with_new_keys(record: LogicalRecord, article: Article, change: RowChange, keys: Mapping[str, str]) -> Row:
    """Return a sent row with its new key, if it gets one, and those of the rows that it references."""
    assert change.row is not None
    row = list(change.row)
    if change.rowguid in keys:
        place = article.index_of(article.key_columns[0].name)
        assert place is not None
        row[place] = keys[change.rowguid]
    for link in record.kind.links:
        for parent in record.changes.get(link.parent.nickname, ()) if link.child == article else ():
            if parent.rowguid in keys and is_child_of(link, change, parent):
                key_place = link.parent.index_of(link.parent.key_columns[0].name)
                for own, other in link.pairs:
                    if other == key_place:
                        row[own] = keys[parent.rowguid]
    return tuple(row)


def _by_article(rows: Sequence[ContestedRow]) -> list[tuple[Article, list[str]]]:
    """Return rows by article."""
    found: dict[int, tuple[Article, list[str]]] = {}
    for row in rows:
        found.setdefault(row.article.nickname, (row.article, []))[1].append(row.rowguid)
    return list(found.values())


def _of_key(
    conflict: ConflictRecord, refused: RecordRowRefused, winning_row: Row | None, key: str | None
) -> ConflictRecord:
    return replace(
        conflict,
        conflict_id=identify(conflict.rowguid, conflict.losing_lineage, b"key"),
        conflict_type=ConflictType.UPLOAD_INSERT_FAILED,
        reason_code=refused.refusal.error.code,
        reason_text=reason_of_contest(key),
        winning_row=winning_row,
    )


def _indexes(record: LogicalRecord) -> list[Place]:
    return [(article.nickname, change.rowguid) for article, change in record.rows]
