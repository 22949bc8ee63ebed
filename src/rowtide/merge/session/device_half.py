"""The device's half of a synchronisation: it reads and writes the device's database alone, and exchanges messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from rowtide.merge.articles import Article, ExchangeType, Subscription, Waiting
from rowtide.merge.catalogue import read_nickname
from rowtide.merge.conflicts.records import ConflictRecord
from rowtide.merge.exchange_state import list_retries, put_awaited, set_subscription
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import Examination
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.partitions.logical_records import find_record_types
from rowtide.merge.row_hashes import HashBatch
from rowtide.merge.session.dropped_columns import DroppedColumns, UploadingNode
from rowtide.merge.session.history import Phase
from rowtide.merge.session.identity_ranges import are_overtaken, read_numberings, take_ranges
from rowtide.merge.session.messages import (
    Acknowledgement,
    DeviceNumbering,
    DeviceState,
    DownloadHeader,
    GivenRanges,
    MembershipMoves,
    RefusedDownload,
    RefusedUpload,
    RowsByArticle,
    SessionTerms,
    TopsQuestion,
    UploadHeader,
    UploadResult,
)
from rowtide.merge.session.node_receiver import SubscriberReceiver
from rowtide.merge.session.pairing import OWED, find_damages, find_proposal, propose_mark, require_original_of
from rowtide.merge.session.record_groups import find_tops
from rowtide.merge.session.spool import Outgoing, Spool, map_articles
from rowtide.merge.session.spool_transfer import (
    OnTransferred,
    in_session,
    known_rows,
    read_changes,
    store_received,
    transfer,
)
from rowtide.merge.session.subscriber_records import SubscriberRecords
from rowtide.merge.versions.changes import RowChange


def upload_request(
    known: Sequence[Article],
    definitions: Sequence[Article],
    since: int,
    hub: int,
    wanted: RowsByArticle,
    *,
    names_parents: bool,
) -> ChangesRequest:
    """Return the request for a device's changes, by definitions that may be earlier than the hub's."""
    # The hub's references, by whose places the parents are read there.
    sent = [
        replace(each.sender, references=each.receiver.references) for each in map_articles(known, definitions).values()
    ]
    return ChangesRequest(sent, since, hub, wanted, {}, names_parents=names_parents)


def answer_questions(
    node: Node, articles: Sequence[Article], questions: Sequence[TopsQuestion]
) -> dict[int, dict[str, str]]:
    """Return in which logical records a device has rows; see `UploadHeader.tops`."""
    kinds = {kind.top.nickname: kind for kind in find_record_types(articles)}
    found: dict[int, dict[str, str]] = {}
    for question in questions:
        tops = found.setdefault(question.top, {})
        for nickname, rowguids in question.rows.items():
            tops.update(find_tops(node, kinds[question.top], nickname, rowguids))
    return found


class _SentHashes:
    """The hashes of uploaded rows, which the device keeps."""

    def __init__(self) -> None:
        self._batches: dict[int, HashBatch] = {}

    def add(self, article: Article, changes: Sequence[RowChange]) -> None:
        batch = self._batches.setdefault(article.nickname, HashBatch(article))
        batch.add([(change.rowguid, change.row) for change in changes])

    def put(self, device: Node, refused: Sequence[RefusedUpload]) -> None:
        """Store them, in the caller's transaction, without those that the hub refused."""
        for each in refused:
            if each.article in self._batches:
                self._batches[each.article].add_unknown([each.rowguid])
        for batch in self._batches.values():
            batch.put(device.connection)


@dataclass(slots=True)
class DeviceHalf:
    """A device in a synchronisation.

    `subscription` is as the device stores it, `known` are its definitions, `hub` is the hub's nickname. `definitions`
    are the hub's, where they differ. `refused` are the hub's rows that the device has refused.
    """

    node: Node
    publication: str
    subscription: Subscription
    known: tuple[Article, ...]
    hub: int
    definitions: tuple[Article, ...] | None = None
    refused: RowsByArticle = field(default_factory=dict)
    _examination: Examination | None = None
    _hashes: _SentHashes = field(default_factory=_SentHashes)
    _dropped: DroppedColumns | None = None
    _receiver: SubscriberReceiver | None = None
    _store_received: Callable[[], None] = lambda: None
    """Stores that a download was received completely, which `confirm` does with the mark."""

    @property
    def at_hub(self) -> tuple[Article, ...]:
        """The hub's definitions of the articles that the device has."""
        definitions = self.known if self.definitions is None else self.definitions
        return tuple(each.receiver for each in map_articles(self.known, definitions).values())

    @property
    def has_records(self) -> bool:
        """Whether rows are uploaded in logical records."""
        return bool(find_record_types(self.at_hub))

    def describe(self, *, examines: bool = True) -> DeviceState:
        """Return the device's state; tables are examined before an exchange in both directions. Raises `NodeCopied`."""
        node, own = self.node, self.subscription
        damages: dict[int, str] = {}
        if examines:
            self._examination = node.tables.examine(self.known)
            require_original_of(self._examination.original)
            damages = find_damages(node, self.known, self._examination)
        else:
            require_original_of(node.tables.find_original())
        self.refused = known_rows(list_retries(node.connection, self.hub))
        return DeviceState(
            publication=self.publication,
            subid=own.subid,
            nickname=read_nickname(node.connection),
            hub=self.hub,
            state=own.state,
            session=own.session,
            sent=own.sent,
            received=own.received,
            schema_version=own.schema_version,
            schema_guid=own.schema_guid,
            definitions=self.known,
            damages=damages,
            refused=self.refused,
        )

    def describe_for_question(self) -> DeviceState:
        """Return the device's state for a question beside a session, with its definitions. Raises `NodeCopied`.

        A session that is not confirmed yet has left its proposed mark at the hub: a device without it is a copy.
        """
        state, proposed = self.describe(examines=False), find_proposal(self.subscription)
        return replace(state, definitions=self.known, proposed=proposed or "")

    def require_ready(self) -> Mapping[int, Sequence[str]]:
        """Raise unless the device may write with its rights; return its columns that are not sent, by article.

        Raises `OwnersDiffer`, `OwnerNotHeld`, `DeferredCodeOfOwner`.
        """
        assert self._examination is not None
        self.node.tables.require_owners(self.known)
        if not self._examination.is_recorded:
            self.node.tables.record_identity()
        return self._examination.unsent

    def begin(self, terms: SessionTerms, result: UploadResult | None = None) -> None:
        """Replace any other synchronisation of the device; with a result, do at once what `conclude_upload` does.

        Raises `SessionReplaced` if a later one has begun.
        """
        own, sent = self.subscription, self.subscription.sent if result is None else result.generation
        with in_session(self.node, own):
            set_subscription(self.node.connection, own.subid, session=terms.session)
            if result is not None and sent != own.sent:
                set_subscription(self.node.connection, own.subid, sentgen=sent)
                self._put_sent(result)
        self.subscription = replace(self.subscription, session=terms.session, sent=sent)

    def _put_sent(self, result: UploadResult) -> None:
        """Store the hashes of uploaded rows, and what they lose at the hub, in the caller's transaction."""
        self._hashes.put(self.node, result.refused)
        if self._dropped is not None:
            self._dropped.put_at_subscriber(self.node)

    @contextmanager
    def read(
        self, since: int, wanted: RowsByArticle, number: int = 0, *, frees: bool = False
    ) -> Iterator[tuple[UploadHeader, Spool]]:
        """Yield what the device has for the hub after a generation, or in a later round only the rows it wants.

        `frees` is as in `read_changes`: a snapshot that is held during a long upload keeps the write-ahead log growing.
        """
        received = self.at_hub
        if number == 0:
            own = self.subscription
            sender = UploadingNode(own.pubid, read_nickname(self.node.connection), own.subscriber, since)
            self._hashes, self._dropped = _SentHashes(), DroppedColumns(sender)
        # The sent values of additive columns have to be stored before they are sent, and logical records are sent as a
        # whole: so all is read first.
        is_whole = any(one.additive_column is not None for one in received) or self.has_records
        definitions = self.known if self.definitions is None else self.definitions
        request = upload_request(self.known, definitions, since, self.hub, wanted, names_parents=number == 0)
        mappings = map_articles(self.known, definitions)

        def note(article: Article, changes: Sequence[RowChange]) -> None:
            self._hashes.add(article, changes)
            if self._dropped is not None:
                self._dropped.note(mappings[article.nickname], changes)

        with read_changes(self.node, request, note, is_whole=is_whole, frees=frees) as (
            generation,
            outgoing,
            spool,
        ):
            self._keep_bases(outgoing)
            yield UploadHeader(since, generation, wanted, number, is_rest=number > 0), spool

    def _keep_bases(self, outgoing: Outgoing) -> None:
        """Store the additive values about to be sent: the hub may commit them before the device learns of it."""
        if any(outgoing.bases.values()):
            with in_session(self.node, self.subscription):
                for article in self.known:
                    self.node.versions.keep_bases(article, outgoing.bases.get(article.nickname, {}))

    def answer(self, questions: Sequence[TopsQuestion]) -> Mapping[int, Mapping[str, str]]:
        """Return in which logical records the device has rows."""
        return answer_questions(self.node, self.at_hub, questions)

    def conclude_upload(self, result: UploadResult) -> None:
        """Store that the hub has what the device has sent."""
        if result.generation != self.subscription.sent:
            with in_session(self.node, self.subscription):
                set_subscription(self.node.connection, self.subscription.subid, sentgen=result.generation)
                self._put_sent(result)
            self.subscription = replace(self.subscription, sent=result.generation)

    @property
    def _nicknames(self) -> frozenset[int]:
        return frozenset(article.nickname for article in self.known)

    def list_awaited(self) -> dict[int, list[str]]:
        """Return the device's rows that the hub has refused and will request again, as its last answer said."""
        listed = known_rows(list_retries(self.node.connection, read_nickname(self.node.connection)))
        # Other publications of the device may have other hubs, which list what they refused.
        return {nickname: rowguids for nickname, rowguids in listed.items() if nickname in self._nicknames}

    def keep_awaited(self, result: UploadResult) -> None:
        """Store which rows the hub will request again, so that they come with the next request."""
        with in_session(self.node, self.subscription):
            own, known = read_nickname(self.node.connection), self._nicknames
            put_awaited(self.node.connection, own, [*known], result.awaited)

    def number(self) -> dict[int, DeviceNumbering]:
        """Return how far articles with identity ranges are numbered."""
        return read_numberings(self.node, self.subscription, self.known)

    def take_ranges(self, given: Mapping[int, GivenRanges]) -> None:
        """Store the ranges that the hub has given."""
        take_ranges(self.node, self.subscription, self.known, given)

    @property
    def is_overtaken(self) -> bool:
        """Whether the device has received keys above its ranges, so that its programs would get no numbers."""
        return are_overtaken(self.node, self.known, self.subscription)

    def receive(
        self,
        terms: SessionTerms,
        header: DownloadHeader,
        spool: Spool,
        uploaded: int,
        phase: Phase,
        tell: OnTransferred,
    ) -> None:
        """Write a download; `uploaded` is the device's generation that the hub has."""
        self.node.writer.spare(self.known)
        receiver = self._receiver = SubscriberReceiver(
            self.node,
            self.subscription,
            self.hub,
            self.publication,
            self.refused,
            is_upload=False,
            repeats=header.repeats,
            hub_priority=terms.hub_priority,
        )
        store = partial(store_received, receiver, header.generation)
        records = SubscriberRecords(receiver, uploaded)
        is_concluded = transfer(spool, receiver, self.known, phase, tell, records, store)
        is_new = header.generation != self.subscription.received or spool.changes > 0
        self._store_received = store if is_new and not is_concluded else lambda: None

    def confirm(
        self,
        terms: SessionTerms,
        header: DownloadHeader,
        uploaded: UploadResult,
        phase: Phase,
        exchange: ExchangeType,
        *,
        may_defer: bool = False,
    ) -> Acknowledgement:
        """Store the session's mark, and return what the hub is to store.

        What the device sent is settled once the hub has purged it, because all other subscribers have received it by
        then; until that point, which columns it changed may matter in a conflict. With `may_defer`, a plain
        acknowledgement can be made again from what is stored, until a later session stores its mark.
        """
        receiver, own = self._receiver, self.subscription
        assert receiver is not None
        settled, waiting = self._settle(terms, header, uploaded)
        still = list_retries(self.node.connection, self.hub)
        accepted = {
            nickname: taken
            for nickname, asked in self.refused.items()
            if (taken := [rowguid for rowguid in asked if rowguid not in still.get(nickname, ())])
        }
        acknowledgement = Acknowledgement(
            session=own.session,
            mark=terms.mark,
            received=header.generation,
            exchange=exchange,
            moves=self._moves(header, receiver, phase),
            accepted=accepted,
            refused=[_refused(conflict) for conflict in receiver.kept],
            is_waiting=bool(still),
            counts=phase.articles,
        )
        defers = may_defer and acknowledgement.may_wait
        with in_session(self.node, own):
            self._store_received()
            set_subscription(
                self.node.connection,
                own.subid,
                replicastate=terms.mark,
                # The mark of an acknowledgement that is owed is also the next one: `owed` makes it again from that.
                next_replicastate=terms.mark if defers else None,
                settledgen=settled,
                waitinggen=None if waiting is None else waiting.own,
                waitingpubgen=None if waiting is None else waiting.other,
            )
        return acknowledgement

    def _settle(
        self, terms: SessionTerms, header: DownloadHeader, uploaded: UploadResult
    ) -> tuple[int, Waiting | None]:
        """Return the device's generation that all subscribers have, and the next one, with the hub's that has it.

        One pair is followed at a time: until the hub has purged its generation, later uploads begin no other.
        """
        settled, waiting = self.subscription.settled, self.subscription.waiting
        if waiting is not None and waiting.other <= terms.purged:
            settled, waiting = waiting.own, None
        if waiting is None and not uploaded.has_refused:
            waiting = Waiting(uploaded.generation, header.generation)
        return settled, waiting

    def propose(self) -> str:
        """Store the mark that the device proposes for a session by requests, and return it.

        It stays the same until the session is confirmed, whichever messages are lost. Raises `SessionReplaced`.
        """
        own = self.subscription
        known = find_proposal(own)
        if known is not None:
            return known
        proposal = propose_mark()
        stored = proposal if self.owed is None else proposal + OWED
        with in_session(self.node, own):
            set_subscription(self.node.connection, own.subid, next_replicastate=stored)
        self.subscription = replace(own, next_state=stored)
        return proposal

    @property
    def owed(self) -> Acknowledgement | None:
        """The acknowledgement of the last session, if it was left to the next one; see `confirm`."""
        own = self.subscription
        if own.next_state is None or not (own.next_state == own.state or own.next_state.endswith(OWED)):
            return None
        return Acknowledgement(own.session, own.state, own.received, is_waiting=any(self.refused.values()))

    def _moves(self, header: DownloadHeader, receiver: SubscriberReceiver, phase: Phase) -> dict[int, MembershipMoves]:
        """Return the moves of a download, without rows that should be gone and are there."""
        there = receiver.staying | {each.change.rowguid for each in phase.refusals}
        moves = {
            nickname: replace(each, gone=[rowguid for rowguid in each.gone if rowguid not in there])
            for nickname, each in header.moves.items()
        }
        return {nickname: each for nickname, each in moves.items() if each.gone or each.returned or each.stayed}


def _refused(conflict: ConflictRecord) -> RefusedDownload:
    return RefusedDownload(
        article=conflict.article.nickname,
        rowguid=conflict.rowguid,
        conflict_id=conflict.conflict_id,
        conflict_type=int(conflict.conflict_type),
        reason_code=conflict.reason_code,
        reason_text=conflict.reason_text,
        losing_row=conflict.losing_row,
        winning_row=conflict.winning_row,
        losing_lineage=conflict.losing_lineage,
        parents=conflict.parents,
        losing_columns=conflict.losing_columns,
    )
