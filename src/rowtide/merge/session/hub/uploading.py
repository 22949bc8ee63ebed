"""What the hub makes of an upload, in the rounds that it takes: rows that it wants besides come in a later one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rowtide.merge.articles import Article
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.rows import by_nickname
from rowtide.merge.session.dropped_columns import DroppedColumns, UploadingNode
from rowtide.merge.session.history import Phase
from rowtide.merge.session.hub.cascading_deletes import Cascades
from rowtide.merge.session.hub.hub_receiver import HubReceiver
from rowtide.merge.session.hub.lineage_checks import LineageChecks
from rowtide.merge.session.hub.records import HubRecords, hub_records, read_buried
from rowtide.merge.session.messages import RefusedUpload, RowsByArticle, TopsQuestion, UploadHeader, UploadResult
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.receiver import Refused
from rowtide.merge.session.spool import Spool
from rowtide.merge.session.spool_transfer import advance, in_session, store_received, transfer, transfer_part


@dataclass(slots=True)
class UploadReceipt:
    """An upload as the hub receives it.

    `again` are the rows to request once more, `unreceived` the hub's rows that the device has refused. Without
    `claims`, it is a rehearsal: nothing of it is stored as received.
    """

    node: Node
    pairing: Pairing
    phase: Phase
    again: dict[int, list[str]]
    unreceived: RowsByArticle
    claims: LineageChecks | None = None
    _receiver: HubReceiver | None = None
    _records: HubRecords | None = None
    _buried: dict[int, RowsByArticle] = field(default_factory=dict)
    _changes: int = 0
    _is_stored: bool = False
    _dropped: DroppedColumns = field(init=False)

    def __post_init__(self) -> None:
        at_hub = self.pairing.at_hub
        sender = UploadingNode(self.pairing.publication.pubid, at_hub.nickname, at_hub.subscriber, self.since)
        self._dropped = DroppedColumns(sender)

    @property
    def since(self) -> int:
        """The device's last generation that both ends know to be at the hub."""
        return min(self.pairing.at_subscriber.sent, self.pairing.at_hub.received)

    @property
    def articles(self) -> list[Article]:
        """The articles that the device has changes of, as the hub writes them."""
        return [one.receiver for one in self.pairing.mappings.values()]

    def receive(self, header: UploadHeader, spool: Spool, tell: Callable[[int, int], None]) -> UploadResult:
        """Write what has come; the result is complete unless rows or answers are wanted in another round."""
        if self.claims is not None:
            self.claims.begin(header.generation)
        receiver = self._receiver = self._receiver or self._make_receiver()
        articles = self.articles
        self._carry(spool)
        if not header.is_rest:
            pairing = replace(self.pairing, articles=tuple(articles))
            buried = self._buried = self._buried or read_buried(receiver, pairing, spool)
            questions = [TopsQuestion(top, rows) for top, rows in buried.items() if rows]
            if questions and header.tops is None:
                return self._incomplete(questions=questions)
            self._records = hub_records(receiver, pairing, self.unreceived, buried, header)
            store = partial(self._store, receiver, header.generation)
            self._is_stored = transfer(spool, receiver, articles, self.phase, tell, self._records, store)
            if self._is_stored:
                self._dropped.forget()
        else:
            transfer(spool, receiver, articles, self.phase, tell, self._records)
        self._changes += spool.changes
        return self._end_round(receiver, header.generation)

    def receive_part(self, header: UploadHeader, spool: Spool) -> UploadResult:
        """Write a part of an upload that others follow; what is refused of it comes again with the last."""
        if self.claims is not None:
            self.claims.begin(header.generation)
        receiver = self._make_receiver()
        self._carry(spool)
        deferred = transfer_part(spool, receiver, self.articles, self.phase)
        if self._dropped.has_any and self.claims is not None:
            # Before the answer: the device does not send again what it knows to be here.
            advance(receiver, partial(self._dropped.put_at_publisher, self.node))
            self._dropped.forget()
        receiver.conclude()
        rows = {article.nickname: [change.rowguid for change in changes] for article, changes in deferred}
        return UploadResult(self.pairing.at_hub.received, deferred=rows, counts=self.phase.articles)

    def _carry(self, spool: Spool) -> None:
        """Let a spool yield changes by the hub's definitions, and note what they have no column for."""
        spool.mappings = {nickname: one for nickname, one in self.pairing.mappings.items() if one.is_needed}
        spool.on_carried = self._dropped.note

    def _end_round(self, receiver: HubReceiver, generation: int) -> UploadResult:
        records = self._records
        if records is not None and records.wants_more:
            return self._incomplete(wanted=records.request())
        if records is not None and records.wanted:
            with in_session(self.node, self.pairing.at_hub):
                records.request_later()
        left = {(each.article.nickname, each.change.rowguid) for each in self.phase.refused}
        refused = [_refused(each, left) for each in self.phase.refusals]
        awaited = by_nickname(sorted(receiver.asking))
        return UploadResult(generation, receiver.has_refused, refused, awaited=awaited, counts=self.phase.articles)

    def _incomplete(self, wanted: RowsByArticle | None = None, questions: Sequence[TopsQuestion] = ()) -> UploadResult:
        return UploadResult(self.pairing.at_hub.received, wanted=wanted or {}, questions=questions)

    def conclude(self, generation: int) -> None:
        """Store that all has come, unless the last transaction did."""
        receiver = self._receiver
        assert receiver is not None
        is_due = not self._is_stored or self._dropped.has_any
        if is_due and (generation != self.pairing.at_hub.received or self._changes):
            advance(receiver, partial(self._store, receiver, generation))
        receiver.conclude()

    def _store(self, receiver: HubReceiver, generation: int) -> None:
        if self.claims is not None:
            store_received(receiver, generation)
            self._dropped.put_at_publisher(self.node)

    def _make_receiver(self) -> HubReceiver:
        pairing = self.pairing
        articles = {article.nickname: article for article in pairing.articles}
        sent = min(pairing.at_hub.sent, pairing.at_subscriber.received)
        return HubReceiver(
            self.node,
            pairing.at_hub,
            pairing.at_hub.nickname,
            pairing.at_hub.subscriber,
            self.again,
            is_upload=True,
            hub_name=pairing.publication.name,
            hub_priority=pairing.hub_priority,
            filters=pairing.filters,
            articles=articles,
            claims=self.claims,
            cascades=Cascades(
                self.node,
                articles | {article.nickname: article for article in pairing.leaving},
                pairing.filters,
                pairing.at_hub.nickname,
                sent,
                pairing.publication,
                self.unreceived,
            ),
        )


def _refused(refused: Refused, left: set[tuple[int, str]]) -> RefusedUpload:
    nickname, rowguid, error = refused.article.nickname, refused.change.rowguid, refused.error
    return RefusedUpload(nickname, rowguid, error.code, str(error.reason), (nickname, rowguid) in left)
