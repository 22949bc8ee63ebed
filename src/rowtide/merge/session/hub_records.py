"""What the hub does with uploaded logical records that it could not write: each is settled as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rowtide.merge.conflicts.record_contests import ContestedRow, choose, is_live, settle
from rowtide.merge.conflicts.records import ConflictRecord, ConflictType, failure_type, identify
from rowtide.merge.conflicts.resolution import Winner, withdrawal
from rowtide.merge.errors.rows import FOREIGN_KEY_CODES, ParentNotThere
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.links import RecordType, find_record_types
from rowtide.merge.progress import list_retries, put_retry
from rowtide.merge.session.exchange import Counts, Refused
from rowtide.merge.session.hub_receiving import HubReceiver
from rowtide.merge.session.hub_record_decisions import HubRecordDecisions, Place
from rowtide.merge.session.logical_records import LogicalRecord, find_below, find_tops, is_child_of
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.parents import parents_of
from rowtide.merge.session.record_transfer import (
    HELD,
    HELD_REASON,
    LAST_ATTEMPT,
    GivenUp,
    Outcome,
    OutcomeRefused,
    RowRefused,
    Waiting,
    write_outcome,
)
from rowtide.merge.session.spooling import Spool
from rowtide.merge.versions.changes import Known, Row, RowChange

_SAME_KEY = "two nodes inserted a row with the same primary key"


_MOST_REQUESTS = 3


def hub_records(subscriber: Node, receiver: HubReceiver, pairing: Pairing, spool: Spool) -> HubRecords | None:
    """Return what receives the logical records of an upload at the hub; None if no article has such."""
    kinds, source = find_record_types(pairing.articles), pairing.at_hub.nickname
    if not kinds:
        return None
    sent = min(pairing.at_hub.sent, pairing.at_subscriber.received)
    records = HubRecords(receiver, sent)
    resolving = [kind for kind in kinds if kind.resolves and any(a.nickname in spool.nicknames for a in kind.articles)]
    if resolving:
        refused = list_retries(subscriber.connection, pairing.hub)
        records.unreceived = frozenset((nickname, rowguid) for nickname, each in refused.items() for rowguid in each)
        receiver.node.apply_log()
    for kind in resolving:
        for article in kind.articles:
            buried = receiver.node.read_buried(article, sent, source)
            for rowguid, top in find_tops(subscriber, kind, article.nickname, buried).items():
                records.buried.setdefault(top, []).append((article.nickname, rowguid))
    return records


@dataclass(slots=True)
class HubRecords(HubRecordDecisions):
    """See `RecordReceiver`; `requests` is the number of times that rows were requested in this synchronisation."""

    requests: int = 0

    def give_up(self, waiting: Sequence[Waiting], attempt: int, /) -> list[GivenUp]:
        for kind in dict.fromkeys(record.kind for record, _ in waiting):
            self.read_known(kind, [place for record, _ in waiting if record.kind is kind for place in _places(record)])
        return [self._give_up(*each, attempt, is_alone=len(waiting) == 1) for each in waiting]

    def _give_up(
        self, record: LogicalRecord, refused: Sequence[RowRefused], attempt: int, *, is_alone: bool
    ) -> GivenUp:
        changes = {change.rowguid: change for _, change in record.rows}
        known = self.read_known(record.kind, _places(record))
        is_late = not refused or any(each.refusal.is_locked for each in refused)
        outcome = None
        if attempt < LAST_ATTEMPT and not is_late:
            if all(_is_key_taken(each, known) for each in refused):
                outcome = self._settle_keys(record, refused, is_contested=attempt == 0)
            elif any(self._is_undone(each, changes.get(each.rowguid)) for each in refused):
                outcome = self._undo(record, refused)
        if outcome is None:
            return self._ask_again(record, known, refused)
        if not is_alone:
            raise OutcomeRefused
        if not outcome.is_held:
            write_outcome(self.receiver, record.kind, outcome)
        self.accept([record], [outcome])
        return outcome, []

    @property
    def wants_more(self) -> bool:
        """Whether rows are to be requested in this synchronisation; not for ever, as programs go on changing them."""
        return bool(self.wanted) and self.requests < _MOST_REQUESTS

    def request(self) -> dict[int, list[str]]:
        """Return the wanted rows, by the article's nickname, as requested."""
        asked: dict[int, list[str]] = {}
        for nickname, rowguid in sorted(self.wanted):
            asked.setdefault(nickname, []).append(rowguid)
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
        put_retry(self.receiver.node.connection, self.receiver.source, nickname, rowguid, HELD, HELD_REASON)

    def _settle_keys(self, record: LogicalRecord, refused: Sequence[RowRefused], *, is_contested: bool) -> Outcome:
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
        outcome = Outcome()
        if winner is Winner.PUBLISHER:
            self._lose(record, others, set(said), outcome)
        else:
            self._decide_rest(record, others, outcome)
            for row in () if outcome.is_held else displaced:
                self._withdraw(row, outcome)
        contests = [(row, holders[row.article.nickname, row.rowguid]) for row in holding]
        _record_keys(outcome, contests, {row.rowguid: row for row in rows}, winner)
        return outcome

    def _decide_rest(self, record: LogicalRecord, rows: Sequence[ContestedRow], outcome: Outcome) -> None:
        if record.kind.resolves:
            self.resolve(rows, Winner.SUBSCRIBER, outcome)
        else:
            self.decide_rows(record.kind, [(record, outcome)])

    def _lose(
        self,
        record: LogicalRecord,
        rows: Sequence[ContestedRow],
        losing: set[str],
        outcome: Outcome,
    ) -> None:
        """Withdraw the rows whose keys are taken, with those below them; the record if it is resolved as a whole."""
        for link in () if record.kind.resolves else record.kind.links:
            parents = [each for each in record.changes.get(link.parent.nickname, ()) if each.rowguid in losing]
            children = record.changes.get(link.child.nickname, ())
            losing |= {child.rowguid for child in children for one in parents if is_child_of(link, child, one)}
        lost = Outcome()
        self.let_win([row for row in rows if record.kind.resolves or row.rowguid in losing], Winner.PUBLISHER, lost)
        if not record.kind.resolves:
            rest = LogicalRecord(record.kind, tops=record.tops)
            for article, change in record.rows:
                if change.rowguid not in losing:
                    rest.changes.setdefault(article.nickname, []).append(change)
            self.decide_rows(record.kind, [(rest, outcome)])
        outcome.add(lost)

    def _withdraw(self, row: ContestedRow, outcome: Outcome) -> None:
        """Delete a row that has lost its key to another, or its parent did, everywhere."""
        if row.known is None or row.row is None:
            return
        nickname = row.article.nickname
        lineage = row.known.version.lineage.encode()
        outcome.withdrawals.setdefault(nickname, []).append(withdrawal(row.rowguid, lineage, is_live=True))
        outcome.conflicts.append(self.conflict(row, Winner.SUBSCRIBER, ConflictType.RECORD_DELETE_WINS_CONFLICT))
        outcome.count(nickname, Counts(conflicts=1, deletes=1))

    def _undo(self, record: LogicalRecord, refused: Sequence[RowRefused]) -> Outcome:
        """Undo a record at the subscriber: the hub has rows that refer to it, or its article wants that."""
        outcome, said = Outcome(), {each.rowguid: each for each in refused}
        for row in self._rows(record):
            write = settle(row, Winner.PUBLISHER, self.receiver.priority)
            if write is None or row.sent is None:
                continue
            outcome.write(row.article.nickname, write)
            because = said.get(row.rowguid)
            if because is not None or not row.is_alike:
                code = HELD if because is None else because.refusal.error.code
                reason = HELD_REASON if because is None else because.refusal.error.reason
                conflict_type = failure_type(row.sent, is_upload=True, is_live=is_live(row.known))
                outcome.conflicts.append(self.conflict(row, Winner.PUBLISHER, conflict_type, code, reason))
                outcome.count(row.article.nickname, Counts(conflicts=1))
        return outcome

    def _is_undone(self, refused: RowRefused, change: RowChange | None) -> bool:
        """Whether a refused row goes back at once: its parent is gone, it has children, or its article wants that."""
        error = refused.refusal.error
        if isinstance(error, ParentNotThere) and change is not None:
            parents = parents_of(refused.article, change, self.receiver.articles)
            return not any((reference.parent, rowguid) in self.receiver.asking for reference, rowguid in parents)
        is_referenced = change is not None and change.row is None and error.code in FOREIGN_KEY_CODES
        return is_referenced or refused.article.compensate_for_errors

    def _ask_again(self, record: LogicalRecord, known: Mapping[Place, Known], refused: Sequence[RowRefused]) -> GivenUp:
        """Request the whole record again in the next synchronisation."""
        outcome, asked = Outcome(is_held=True), []
        said = {each.rowguid: each for each in refused}
        for article, change in record.rows:
            because = said.get(change.rowguid)
            if because is None:
                self._request_later(article.nickname, change.rowguid)
            else:
                asked.append(Refused(article, change, because.refusal))
                self.receiver.ask_again(asked[-1], known.get((article.nickname, change.rowguid)))
                outcome.count(article.nickname, Counts(refused=1))
        return outcome, asked

    def _rows(self, record: LogicalRecord) -> list[ContestedRow]:
        return self._read_rows(record.kind, _places(record), self.read_sent(record.kind, [record]))

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


def _is_key_taken(refused: RowRefused, known: Mapping[Place, Known]) -> bool:
    """Whether a row was inserted at both ends, with different rowguids."""
    return refused.refusal.holder is not None and not is_live(known.get((refused.article.nickname, refused.rowguid)))


def _record_keys(
    outcome: Outcome,
    contests: Sequence[tuple[ContestedRow, RowRefused]],
    sent: Mapping[str, ContestedRow],
    winner: Winner,
) -> None:
    """Record the rows that lost their keys as such: each contest is a row of the hub's, and the one with its key."""
    winning: dict[str, tuple[RowRefused, Row | None]] = {}
    for row, refused in contests:
        change = sent[refused.rowguid].sent
        if winner is Winner.PUBLISHER:
            winning[refused.rowguid] = (refused, row.row)
        else:
            winning[row.rowguid] = (refused, None if change is None else change.row)
    outcome.conflicts = [
        _of_key(each, *winning[each.rowguid]) if each.rowguid in winning else each for each in outcome.conflicts
    ]


def _of_key(conflict: ConflictRecord, refused: RowRefused, winning_row: Row | None) -> ConflictRecord:
    return replace(
        conflict,
        conflict_id=identify(conflict.rowguid, conflict.losing_lineage, b"key"),
        conflict_type=ConflictType.UPLOAD_INSERT_FAILED,
        reason_code=refused.refusal.error.code,
        reason_text=_SAME_KEY,
        winning_row=winning_row,
    )


def _places(record: LogicalRecord) -> list[Place]:
    return [(article.nickname, change.rowguid) for article, change in record.rows]
