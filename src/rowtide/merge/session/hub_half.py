"""The hub's half of a synchronisation: it reads and writes the hub's database alone, and exchanges messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rowtide.merge.articles import Article, ExchangeType
from rowtide.merge.conflicts.records import (
    REFUSALS,
    ConflictRecord,
    ConflictType,
    identify_refusal,
    record,
    settle_refusals,
)
from rowtide.merge.exchange_state import (
    SELECT_NODE,
    SELECT_RETRIES,
    Purge,
    group_retries,
    purge_of,
    set_exchanged,
    set_subscription,
)
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.partitions.candidates import CandidateMemberships
from rowtide.merge.partitions.partition_membership import (
    confirm_members,
    end_memberships,
    find_members,
    keep_stayed,
    mark,
)
from rowtide.merge.session.history import RUNNING, Phase
from rowtide.merge.session.hub.lineage_checks import SELECT_GENERATIONS, check_lineages, read_generations
from rowtide.merge.session.hub.uploading import UploadReceipt
from rowtide.merge.session.identity_ranges import renew_ranges
from rowtide.merge.session.messages import (
    Acknowledgement,
    DeviceNumbering,
    DeviceState,
    DownloadHeader,
    GivenRanges,
    MembershipMoves,
    RefusedDownload,
    RowsByArticle,
    SessionTerms,
    UploadResult,
)
from rowtide.merge.session.pairing import Pairing
from rowtide.merge.session.purge import is_due, purge
from rowtide.merge.session.spool import Spool
from rowtide.merge.session.spool_transfer import in_session, known_rows, read_changes


@dataclass(slots=True)
class HubHalf:
    """A hub in a synchronisation with a device; `pairing` is what both say of the subscription."""

    node: Node
    pairing: Pairing
    refused: RowsByArticle = field(default_factory=dict)
    """The hub's rows that the device has refused."""
    again: dict[int, list[str]] = field(default_factory=dict)
    """The device's rows that the hub requests again."""
    _purge: Purge | None = None
    _last: dict[int, int] = field(default_factory=dict)
    _moves: Mapping[int, MembershipMoves] | None = None

    @property
    def since(self) -> int:
        """The hub's last generation that both ends know to be at the device."""
        return min(self.pairing.at_hub.sent, self.pairing.at_subscriber.received)

    def begin(self, state: DeviceState, since: int) -> SessionTerms:
        """Replace any other synchronisation of the subscription, with the mark that the device proposes or another.

        One that has begun since the pairing was read continues: the pairing is outdated then. `since` is the hub's
        generation after which the device is sent changes.
        """
        pairing, chosen = self.pairing, state.proposed or secrets.token_hex(16)
        session = max(pairing.at_hub.session, state.session) + 1
        with in_session(self.node, pairing.at_hub):
            # The device's mark is one that the hub has stored, too, which `require_met` of `pairing` has verified: an
            # interrupted synchronisation may have left it at the device alone.
            set_subscription(
                self.node.connection,
                pairing.at_hub.subid,
                session=session,
                replicastate=state.state,
                next_replicastate=chosen,
                last_sync_status=RUNNING,
                schemaversion=state.schema_version,
                schemaguid=state.schema_guid,
            )
        # What follows is read after the commit: a synchronisation that this one has replaced writes no more.
        at_hub = replace(pairing.at_hub, session=session, state=state.state, next_state=chosen)
        at_subscriber = replace(pairing.at_subscriber, session=session)
        values = {"of_source": pairing.at_hub.nickname, "since_generation": since}
        (node,), wanted, last = self.node.read_ahead(SELECT_NODE, SELECT_RETRIES, SELECT_GENERATIONS, values=values)
        self.pairing = replace(pairing, at_hub=at_hub, at_subscriber=at_subscriber)
        self.refused, self.again = state.refused, known_rows(group_retries(wanted))
        self._purge, self._last = purge_of(node), read_generations(last)
        uploaded = min(at_subscriber.sent, at_hub.received)
        return SessionTerms(session, chosen, uploaded, self.again, self._purge.generation, pairing.hub_priority)

    def receive(self, phase: Phase) -> UploadReceipt:
        """Return what receives the device's upload."""
        claims = check_lineages(self.node, self.pairing, self._last)
        return UploadReceipt(self.node, self.pairing, phase, self.again, self.refused, claims)

    def renew_ranges(self, there: Mapping[int, DeviceNumbering]) -> dict[int, GivenRanges]:
        """Return the device's new ranges, where it has used its own."""
        return renew_ranges(self.node, self.pairing.publication, self.pairing.articles, self.pairing.at_hub, there)

    @contextmanager
    def send(
        self, since: int, uploaded: UploadResult | None, *, repeats: bool = False
    ) -> Iterator[tuple[DownloadHeader, Spool]]:
        """Yield what the hub has for the device after a generation; `uploaded` is what the device has uploaded before.

        The memberships are stored before a row is sent.
        """
        pairing = self.pairing
        received = pairing.at_hub.received if uploaded is None else max(uploaded.generation, pairing.at_hub.received)
        request = ChangesRequest(
            pairing.going_down,
            since,
            pairing.at_hub.nickname,
            self.refused,
            pairing.filters,
            source=pairing.hub,
            received=received,
        )
        with read_changes(self.node, request) as (generation, outgoing, spool):
            self._mark(outgoing.marks, generation)
            self._moves = {nickname: _moves(each) for nickname, each in outgoing.marks.items()}
            yield DownloadHeader(generation, self._moves, repeats, spool.count), spool

    def _mark(self, marks: Mapping[int, CandidateMemberships], generation: int) -> None:
        """Store which rows the device is about to receive, and which are to leave it."""
        if not any(each.is_any for each in marks.values()):
            return
        with in_session(self.node, self.pairing.at_hub):
            for article in self.pairing.articles:
                if article.nickname in marks:
                    mark(
                        self.node.connection,
                        self.pairing.at_hub.nickname,
                        article,
                        marks[article.nickname],
                        generation,
                    )

    def acknowledge(
        self, said: Acknowledgement, also: Callable[[], None] = lambda: None, dated: ExchangeType | None = None
    ) -> None:
        """Store the session's mark, and what the device has received; `also` runs in the same transaction.

        `dated` are the directions that count as exchanged now, if not those of the session.

        The device has stored the mark before; between the two commits the hub accepts either. What the hub sent before
        this synchronisation is settled: any concurrent change of the device was uploaded in this one.
        """
        connection, pairing = self.node.connection, self.pairing
        subid, nickname = pairing.at_hub.subid, pairing.at_hub.nickname
        moves = self._confirmed(said.moves)
        settled = self._settled(said.exchange, is_waiting=said.is_waiting)
        with in_session(self.node, pairing.at_hub):
            set_exchanged(
                connection,
                subid,
                dated or said.exchange,
                replicastate=said.mark,
                next_replicastate=None,
                sentgen=said.received,
                settledgen=settled,
            )
            for article in pairing.articles:
                moved = moves.get(article.nickname, MembershipMoves())
                if moved.gone:
                    end_memberships(connection, pairing.at_hub, article, moved.gone)
                if moved.returned:
                    confirm_members(connection, nickname, article, moved.returned)
                if moved.stayed:
                    keep_stayed(connection, nickname, article, moved.stayed)
            self._report(said)
            also()
        at_hub = replace(pairing.at_hub, state=said.mark, next_state=None, sent=said.received, settled=settled)
        self.pairing = replace(pairing, at_hub=at_hub)

    def _confirmed(self, said: Mapping[int, MembershipMoves]) -> Mapping[int, MembershipMoves]:
        """Return the moves that a device says; where another process sent them, rows return only to their partition."""
        if self._moves is not None:
            return said
        return {nickname: self._judge(nickname, each) for nickname, each in said.items()}

    def _judge(self, nickname: int, moves: MembershipMoves) -> MembershipMoves:
        row_filter = self.pairing.filters.get(nickname)
        if row_filter is None:
            return MembershipMoves(moves.gone)
        belonging = self.node.rows.find_belonging(row_filter, moves.returned) if moves.returned else ()
        returned = [rowguid for rowguid in moves.returned if rowguid in belonging]
        return MembershipMoves(moves.gone, returned, () if row_filter.realigns else moves.stayed)

    def _report(self, said: Acknowledgement) -> None:
        """Record, in the caller's transaction, the rows that the device refused or has accepted since."""
        articles = {article.nickname: article for article in self.pairing.articles}
        connection, at_hub = self.node.connection, self.pairing.at_hub
        for article in articles.values():
            refused = [one for one in said.refused if one.article == article.nickname and one.conflict_type in REFUSALS]
            if refused and article.nickname in self.pairing.filters:
                # Of rows that it was never sent, it has nothing to say.
                sent = find_members(connection, at_hub.nickname, article, [one.rowguid for one in refused])
                refused = [one for one in refused if one.rowguid in sent]
            for one in refused:
                record(connection, self._conflict(one, article))
        for nickname, accepted in said.accepted.items():
            if nickname in articles:
                settle_refusals(connection, articles[nickname], accepted, at_hub.subid)

    def _conflict(self, refused: RefusedDownload, article: Article) -> ConflictRecord:
        version = refused.losing_lineage, refused.reason_code
        return ConflictRecord(
            conflict_id=identify_refusal(refused.rowguid, *version, self.pairing.at_hub.subid),
            pubid=self.pairing.publication.pubid,
            article=article,
            rowguid=refused.rowguid,
            conflict_type=ConflictType(refused.conflict_type),
            origin=self.pairing.hub,
            reason_code=refused.reason_code,
            reason_text=refused.reason_text,
            losing_row=refused.losing_row,
            winning_row=refused.winning_row,
            losing_lineage=refused.losing_lineage,
            origin_datasource=self.pairing.publication.name,
            parents=refused.parents,
            losing_columns=refused.losing_columns,
        )

    def conclude_upload(self, also: Callable[[], None]) -> None:
        """Store what an upload alone has settled; the marks stay as they are until a download."""
        connection, subid = self.node.connection, self.pairing.at_hub.subid
        settled = self._settled(ExchangeType.UPLOAD, is_waiting=any(self.refused.values()))
        with in_session(self.node, self.pairing.at_hub):
            set_exchanged(connection, subid, ExchangeType.UPLOAD, settledgen=settled)
            also()

    def _settled(self, exchange: ExchangeType, *, is_waiting: bool) -> int:
        """Return the hub's last generation that no later change of the device can conflict with."""
        at_hub = self.pairing.at_hub
        return at_hub.sent if exchange.uploads and not is_waiting else at_hub.settled

    @property
    def is_purge_due(self) -> bool:
        """Whether a day has passed since metadata were removed."""
        return self._purge is not None and is_due(self._purge)

    def purge_if_due(self) -> None:
        """Remove metadata that none needs, once a day."""
        if self.is_purge_due:
            purge(self.node)


def _moves(marks: CandidateMemberships) -> MembershipMoves:
    return MembershipMoves(
        [*marks.leaving, *marks.buried], [rowguid for rowguid, _ in marks.relinked], list(marks.staying)
    )
