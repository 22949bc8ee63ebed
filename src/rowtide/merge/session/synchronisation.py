"""One synchronisation of a subscriber with its hub: upload, then download (SQL Server: the Merge Agent).

Each end stores how far it has sent and received. If the two differ, something was lost in transit, and the exchange
continues from the lower one.

Synchronisations in one direction (SQL Server: -ExchangeType).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import Connection, select

from rowtide.core.garbage import collecting_rarely
from rowtide.core.values import frozen
from rowtide.merge.articles import Article, ExchangeType, Progress, SubscriberType, Subscription, Waiting
from rowtide.merge.conflicts.records import record, settle_failures
from rowtide.merge.definitions import subscriptions
from rowtide.merge.errors.subscribing import UploadNotComparable
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import ChangesRequest
from rowtide.merge.partitions.belonging import find_record_types
from rowtide.merge.partitions.candidates import CandidateMemberships
from rowtide.merge.partitions.partition_membership import confirm_members, keep_stayed, mark, part_members
from rowtide.merge.progress import (
    SELECT_NODE,
    SELECT_RETRIES,
    Purge,
    as_utc,
    group_retries,
    list_retries,
    purge_of,
    put_received,
    read_purge,
    set_subscription,
)
from rowtide.merge.row_hashes import HashBatch
from rowtide.merge.session.exchange import Receiver, Refused, Transfer
from rowtide.merge.session.history import RUNNING, History, Phase, Summary, is_due, purge, read_included, recorded
from rowtide.merge.session.hub.cascades import Cascades
from rowtide.merge.session.hub.parents import SELECT_GENERATIONS, LineageChecks, read_generations
from rowtide.merge.session.hub.receiving import HubReceiver
from rowtide.merge.session.hub.records import hub_records
from rowtide.merge.session.identity_ranges import are_overtaken, give_ranges
from rowtide.merge.session.pairing import Pairing, require_ready, require_same_ends
from rowtide.merge.session.receiving import SubscriberReceiver, SubscriberRecords
from rowtide.merge.session.record_transfer import RecordReceiver, RecordTransfer
from rowtide.merge.session.spooling import Outgoing, Spool
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.composition import are_rowguids


def exchanged(connection: Connection, subid: str, exchange: ExchangeType) -> dict[str, datetime | None]:
    """Return the dates to store of a subscription, at the hub, after a synchronisation."""
    now = datetime.now(UTC)
    if exchange is ExchangeType.BOTH:
        return dict.fromkeys(("last_upload_date", "last_download_date", "last_sync_date"), now)
    found = select(subscriptions.c.last_upload_date, subscriptions.c.last_download_date, subscriptions.c.last_sync_date)
    row = connection.execute(found.where(subscriptions.c.subid == subid)).one()
    uploaded, downloaded, synchronised = (None if date is None else as_utc(date) for date in row)
    uploaded = now if exchange.uploads else uploaded or synchronised
    downloaded = now if exchange.downloads else downloaded or synchronised
    both = None if uploaded is None or downloaded is None else min(uploaded, downloaded)
    return {"last_upload_date": uploaded, "last_download_date": downloaded, "last_sync_date": both}


def synchronise(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
    *,
    repeat_from: int | None = None,
) -> Summary:
    """Exchange all changes between two nodes, or those of one direction.

    With `repeat_from`, all that the hub has changed after one of its generations is downloaded and written again.

    Raises `NodeCopied`, `NodeRestored`, `SubscriptionExpired`, `SchemaAhead`, `DefinitionsDiffer`,
    `MergedTableAltered`, `StoredFilterRefused`, `SessionReplaced`, `NodeBusy`.
    """
    unsent = require_ready(hub, subscriber, pairing)
    began, clock = datetime.now(UTC), time.monotonic()
    since = min(pairing.at_hub.sent, pairing.at_subscriber.received)
    since = since if repeat_from is None else min(since, repeat_from)
    pairing, state = _begin(hub, subscriber, pairing, since)
    summary = Summary(pairing.at_hub.subscriber, unsent=unsent)
    history_of = recorded(hub, pairing.at_hub.subid, summary, began, clock)
    with history_of as history, collecting_rarely():
        uploaded = Uploaded(pairing.at_subscriber.sent, has_refused=bool(state.again))
        if exchange.uploads:
            uploaded = _upload(hub, subscriber, pairing, state, summary.upload, on_progress)
        give_ranges(hub, subscriber, pairing.publication, pairing.articles, pairing.at_hub)
        if exchange.downloads:
            is_repeated = repeat_from is not None
            downloaded = _download(
                hub, subscriber, pairing, uploaded, summary.download, on_progress, since, repeats=is_repeated
            )
            if are_overtaken(subscriber, pairing.articles, pairing.at_subscriber):
                give_ranges(hub, subscriber, pairing.publication, pairing.articles, pairing.at_hub)
            _part(hub, subscriber, pairing, state, uploaded, downloaded, history, exchange)
        else:
            _conclude_upload(hub, subscriber, pairing, history)
    for node, purged in ((hub, state.purge), (subscriber, read_purge(subscriber.connection))):
        if is_due(purged):
            purge(node)
    return summary


def upload(
    hub: Node, subscriber: Node, pairing: Pairing, on_progress: Progress = lambda _phase, _done, _all: None
) -> Summary:
    """Upload the subscriber's changes before its tables are copied again, even if the subscription has expired.

    Raises `NodeCopied`, `NodeRestored`, `SessionReplaced`, `NodeBusy`; `UploadNotComparable` if the hub has purged the
    metadata needed to compare them.
    """
    require_same_ends(hub, subscriber, pairing)
    subscriber_name = pairing.at_hub.subscriber
    if pairing.at_hub.settled < read_purge(hub.connection).generation:
        raise UploadNotComparable(subscriber_name, "the publisher has purged metadata that it had not got")
    began, clock = datetime.now(UTC), time.monotonic()
    pairing, state = _begin(hub, subscriber, pairing, min(pairing.at_hub.sent, pairing.at_subscriber.received))
    summary = Summary(subscriber_name)
    history_of = recorded(hub, pairing.at_hub.subid, summary, began, clock)
    with history_of as history, collecting_rarely():
        _upload(hub, subscriber, pairing, state, summary.upload, on_progress)
        with hub.transaction():
            history.put()
    return summary


@frozen
class HubState:
    """What the hub says as a synchronisation begins: its last purge, the rows to request again, and the last
    generations that it has, by the node's nickname.
    """

    purge: Purge
    again: dict[int, list[str]]
    last: dict[int, int]


@frozen
class Uploaded:
    """The subscriber's generation that the hub now has, and whether it has refused rows of the subscriber.

    `is_current`: something was uploaded in this synchronisation.
    """

    generation: int
    has_refused: bool
    is_current: bool = False


@frozen
class Downloaded:
    """The hub's generation that the subscriber now has, and rows by article.

    It no longer has those of `gone`; those of `returned` were leaving it, and it has them again; those of `stayed` left
    its partition, and it keeps them.
    """

    generation: int
    gone: dict[int, list[str]]
    returned: dict[int, list[str]]
    stayed: dict[int, list[str]]
    receiver: SubscriberReceiver


def _begin(hub: Node, subscriber: Node, pairing: Pairing, since: int) -> tuple[Pairing, HubState]:
    """Replace any other synchronisation of the subscription, and choose the mark that this one leaves.

    One that has begun since the pairing was read continues: the pairing is outdated then. `since` is the hub's
    generation after which the subscriber is sent changes. Returns what the hub has.
    """
    subid, mark = pairing.at_hub.subid, secrets.token_hex(16)
    session = max(pairing.at_hub.session, pairing.at_subscriber.session) + 1
    with _in_session(hub, pairing.at_hub):
        # What the subscriber has is what both have had: an interrupted synchronisation may have left it there.
        set_subscription(
            hub.connection,
            subid,
            session=session,
            replicastate=pairing.at_subscriber.state,
            next_replicastate=mark,
            last_sync_status=RUNNING,
            schemaversion=pairing.at_subscriber.schema_version,
            schemaguid=pairing.at_subscriber.schema_guid,
        )
    with _in_session(subscriber, pairing.at_subscriber):
        set_subscription(subscriber.connection, subid, session=session)
    at_hub = replace(pairing.at_hub, session=session, state=pairing.at_subscriber.state, next_state=mark)
    values = {"of_source": pairing.at_hub.nickname, "since_generation": since}
    (node,), refused, last = hub.read_ahead(SELECT_NODE, SELECT_RETRIES, SELECT_GENERATIONS, values=values)
    begun = replace(pairing, at_hub=at_hub, at_subscriber=replace(pairing.at_subscriber, session=session))
    return begun, HubState(purge_of(node), _known_rows(group_retries(refused)), read_generations(last))


def _known_rows(listed: Mapping[int, Sequence[str]]) -> dict[int, list[str]]:
    """Return rows by the table's nickname, without those whose rowguid is none: no node has them."""
    return {nickname: [each for each in rowguids if are_rowguids([each])] for nickname, rowguids in listed.items()}


@contextmanager
def _in_session(node: Node, subscription: Subscription) -> Iterator[None]:
    """Open a transaction of this synchronisation. Raises `SessionReplaced` if another one has begun."""
    with node.transaction():
        node.require_session(subscription)
        yield


def _upload(
    hub: Node, subscriber: Node, pairing: Pairing, state: HubState, phase: Phase, on_progress: Progress
) -> Uploaded:
    """Upload the subscriber's changes."""
    source, hashes = pairing.at_hub.nickname, _SentHashes()
    claims = LineageChecks(pairing.at_hub.subscriber, source, pairing.at_hub.received, state.last)
    if pairing.at_hub.subscriber_type is not SubscriberType.SERVER:
        claims.read_seen = partial(read_included, hub, state.last[pairing.hub])
    receiver = receive_at_hub(hub, pairing, state.again, claims)
    received = [one.receiver for one in pairing.mappings.values()]
    # What additive columns are sent with is stored before, and logical records are put together.
    is_whole = any(one.additive_column is not None for one in received) or bool(find_record_types(received))

    @contextmanager
    def reading(request: ChangesRequest) -> Iterator[tuple[int, Spool]]:
        with (
            _read(subscriber, request, hashes.add, is_whole=is_whole) as (generation, outgoing, spool),
            hub.working(spool.read_ahead),
        ):
            claims.begin(generation)
            _keep_bases(subscriber, pairing, outgoing)
            yield generation, spool

    def store(generation: int) -> None:
        _put_received(receiver, generation, source)

    tell = _counting(on_progress, "upload")
    generation, changes, is_stored = upload_all(subscriber, receiver, pairing, reading, phase, tell, store)
    if not is_stored and (generation != pairing.at_hub.received or changes):
        _advance(receiver, partial(store, generation))
    receiver.conclude()
    if generation != pairing.at_subscriber.sent:
        with _in_session(subscriber, pairing.at_subscriber):
            set_subscription(subscriber.connection, pairing.at_hub.subid, sentgen=generation)
            hashes.put(subscriber, phase.refusals)
    return Uploaded(generation, receiver.has_refused, is_current=True)


def receive_at_hub(
    hub: Node, pairing: Pairing, again: dict[int, list[str]], claims: LineageChecks | None = None
) -> HubReceiver:
    """Return what receives an upload; `again` are the rows to request once more."""
    articles = {article.nickname: article for article in pairing.articles}
    sent = min(pairing.at_hub.sent, pairing.at_subscriber.received)
    return HubReceiver(
        hub,
        pairing.at_hub,
        pairing.at_hub.nickname,
        pairing.at_hub.subscriber,
        again,
        is_upload=True,
        hub_name=pairing.publication.name,
        hub_priority=pairing.hub_priority,
        filters=pairing.filters,
        articles=articles,
        claims=claims,
        cascades=Cascades(
            hub,
            articles | {article.nickname: article for article in pairing.leaving},
            pairing.filters,
            pairing.at_hub.nickname,
            sent,
            pairing.publication,
        ),
    )


def upload_all(
    subscriber: Node,
    receiver: HubReceiver,
    pairing: Pairing,
    reading: Reading,
    phase: Phase,
    tell: Callable[[int, int], None],
    store: Callable[[int], None] = lambda _generation: None,
) -> tuple[int, int, bool]:
    """Transfer what a subscriber has for the hub; `store` is called with the generation that has come completely.

    Return the generation, the number of changes, and whether `store` was called, in the last transaction.
    """
    mappings = pairing.mappings
    received = [one.receiver for one in mappings.values()]
    # The hub's references, by whose places the parents are read there.
    sent = [replace(one.sender, references=one.receiver.references) for one in mappings.values()]
    carried = {nickname: one for nickname, one in mappings.items() if one.is_needed}
    since = min(pairing.at_subscriber.sent, pairing.at_hub.received)
    if receiver.cascades is not None:
        receiver.cascades.unreceived = partial(list_retries, subscriber.connection, pairing.hub)
    with reading(ChangesRequest(sent, since, pairing.hub, receiver.again, {}, names_parents=True)) as (
        generation,
        spool,
    ):
        spool.mappings = carried
        records = hub_records(subscriber, receiver, replace(pairing, articles=tuple(received)), spool)
        is_stored = _transfer(spool, receiver, received, phase, tell, records, partial(store, generation))
        changes = spool.changes
    while records is not None and records.wants_more:
        with reading(ChangesRequest(sent, generation, pairing.hub, records.request(), {})) as (generation, spool):
            spool.mappings = carried
            _transfer(spool, receiver, received, phase, tell, records)
            changes += spool.changes
    if records is not None and records.wanted:
        with _in_session(receiver.node, pairing.at_hub):
            records.request_later()
    return generation, changes, is_stored


Reading = Callable[[ChangesRequest], AbstractContextManager[tuple[int, Spool]]]
"""What reads a node's changes: the generation read up to, and a spool of them."""


def _download(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    uploaded: Uploaded,
    phase: Phase,
    on_progress: Progress,
    since: int,
    *,
    repeats: bool,
) -> Downloaded:
    """Download the hub's changes after a generation."""
    again = _known_rows(list_retries(subscriber.connection, pairing.hub))
    subscriber.writer.spare(pairing.there)
    receiver = SubscriberReceiver(
        subscriber,
        pairing.at_subscriber,
        pairing.hub,
        pairing.publication.name,
        again,
        is_upload=False,
        repeats=repeats,
        hub_priority=pairing.hub_priority,
    )
    destination = pairing.at_hub.nickname
    received = max(uploaded.generation, pairing.at_hub.received) if uploaded.is_current else pairing.at_hub.received
    request = ChangesRequest(
        pairing.going_down, since, destination, again, pairing.filters, source=pairing.hub, received=received
    )
    with _read(hub, request) as (generation, outgoing, spool):
        marks = outgoing.marks
        _mark(hub, pairing, marks, generation)
        records = SubscriberRecords(receiver, uploaded.generation)
        tell, store = _counting(on_progress, "download"), partial(_put_received, receiver, generation, pairing.hub)
        is_concluded = _transfer(spool, receiver, pairing.there, phase, tell, records, store)
    if not is_concluded and (generation != pairing.at_subscriber.received or spool.changes):
        _advance(receiver, store)
    returned = {nickname: [rowguid for rowguid, _ in each.relinked] for nickname, each in marks.items()}
    stayed = {nickname: each.staying for nickname, each in marks.items()}
    return Downloaded(generation, _gone(marks, receiver, phase.refusals), returned, stayed, receiver)


def _report_to_hub(hub: Node, receiver: SubscriberReceiver, articles: Sequence[Article]) -> None:
    """Record at the hub, in the caller's transaction, the rows that the subscriber refused or has accepted since."""
    still = list_retries(receiver.node.connection, receiver.source)
    for conflict in receiver.kept:
        record(hub.connection, conflict)
    for article in articles:
        asked = receiver.again.get(article.nickname, ())
        taken = [rowguid for rowguid in asked if rowguid not in still.get(article.nickname, ())]
        if taken:
            settle_failures(hub.connection, article, taken)


@contextmanager
def _read(
    sender: Node,
    request: ChangesRequest,
    watch: Callable[[Article, Sequence[RowChange]], None] = lambda _article, _changes: None,
    *,
    is_whole: bool = True,
) -> Iterator[tuple[int, Outgoing, Spool]]:
    """Yield a node's changes after a generation, the generation read up to, and what to store before sending.

    All changes have been read where `is_whole`, and where the node's programs would have to wait.
    """
    with ExitStack() as held:
        with ExitStack() as reading:
            sending = reading.enter_context(sender.changes.sending(request))
            outgoing = Outgoing(sending, request, watch)
            spool, generation = held.enter_context(outgoing.spool(sender.limits)), sending.generation
            if is_whole or sending.blocks_writers:
                spool.complete()
            else:
                held.push(reading.pop_all())
        yield generation, outgoing, spool


class _SentHashes:
    """The hashes of uploaded rows, which the subscriber keeps."""

    def __init__(self) -> None:
        self._batches: dict[int, HashBatch] = {}

    def add(self, article: Article, changes: Sequence[RowChange]) -> None:
        batch = self._batches.setdefault(article.nickname, HashBatch(article))
        batch.add([(change.rowguid, change.row) for change in changes])

    def put(self, subscriber: Node, refused: Sequence[Refused]) -> None:
        """Store them, in the caller's transaction, without those that the hub refused."""
        for each in refused:
            if each.article.nickname in self._batches:
                self._batches[each.article.nickname].add_unknown([each.change.rowguid])
        for batch in self._batches.values():
            batch.put(subscriber.connection)


def _transfer(
    spool: Spool,
    receiver: Receiver,
    articles: Sequence[Article],
    phase: Phase,
    on_progress: Callable[[int, int], None],
    handling: RecordReceiver | None,
    conclude: Callable[[], None] = lambda: None,
) -> bool:
    """Transfer a spool to a node, and add to the phase's result; `handling` is for logical records.

    Return whether `conclude` was done, in the last transaction.
    """
    began = time.monotonic()
    done = 0

    def tell(changes: int) -> None:
        nonlocal done
        done += changes
        on_progress(done, spool.changes)

    known = {article.nickname: article for article in articles}
    transfer = Transfer(receiver, known, tell, phase.articles, conclude=conclude)
    kinds = find_record_types(articles)
    if kinds and handling is not None:
        transfer.records = RecordTransfer(kinds, receiver, handling, transfer.count)
    transfer.run(spool)
    phase.refused += transfer.left
    phase.refusals += transfer.refused
    phase.seconds += time.monotonic() - began
    return transfer.is_concluded


def _keep_bases(subscriber: Node, pairing: Pairing, outgoing: Outgoing) -> None:
    """Store the additive values about to be sent: the hub may commit them before the subscriber learns of it."""
    if any(outgoing.bases.values()):
        with _in_session(subscriber, pairing.at_subscriber):
            for article in pairing.known:
                subscriber.versions.keep_bases(article, outgoing.bases.get(article.nickname, {}))


def _mark(hub: Node, pairing: Pairing, marks: dict[int, CandidateMemberships], generation: int) -> None:
    """Store at the hub which rows the subscriber is about to receive, and which are to leave it."""
    if not any(each.is_any for each in marks.values()):
        return
    with _in_session(hub, pairing.at_hub):
        for article in pairing.articles:
            if article.nickname in marks:
                mark(hub.connection, pairing.at_hub.nickname, article, marks[article.nickname], generation)


def _gone(
    marks: dict[int, CandidateMemberships], receiver: SubscriberReceiver, refused: Sequence[Refused]
) -> dict[int, list[str]]:
    """Return the rows that the subscriber no longer has, by article."""
    there = receiver.staying | {each.change.rowguid for each in refused}
    return {
        nickname: [rowguid for rowguid in (*each.leaving, *each.buried) if rowguid not in there]
        for nickname, each in marks.items()
    }


def _counting(on_progress: Progress, phase: str) -> Callable[[int, int], None]:
    return lambda done, all_: on_progress(phase, done, all_)


def _advance(receiver: HubReceiver | SubscriberReceiver, store: Callable[[], None]) -> None:
    """Store that a generation was received completely; this commit also flushes everything received before it."""
    with receiver.node.transaction():
        receiver.check()
        store()


def _put_received(receiver: HubReceiver | SubscriberReceiver, generation: int, source: int) -> None:
    """Store that a generation was received completely, in the caller's transaction."""
    set_subscription(receiver.node.connection, receiver.subscription.subid, recgen=generation)
    put_received(receiver.node.connection, source, generation)


def _part(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    state: HubState,
    uploaded: Uploaded,
    downloaded: Downloaded,
    history: History,
    exchange: ExchangeType,
) -> None:
    """Store the new mark at both ends, and at the hub what the subscriber has; between the two commits the hub accepts
    either mark.

    What the hub sent before this synchronisation is settled: any concurrent change of the subscriber was uploaded in
    this one. What the subscriber sent is settled once the hub has purged it, because all other subscribers have
    received it by then; until that point, which columns it changed may matter in a conflict.
    """
    subid, mark = pairing.at_hub.subid, pairing.at_hub.next_state
    at_hub, at_subscriber, waiting = (
        pairing.at_hub.settled,
        pairing.at_subscriber.settled,
        pairing.at_subscriber.waiting,
    )
    if exchange.uploads:
        at_hub = _settled(subscriber, pairing)
    if waiting is not None and waiting.other <= state.purge.generation:
        at_subscriber, waiting = waiting.own, None
    if waiting is None and not uploaded.has_refused:
        waiting = Waiting(uploaded.generation, downloaded.generation)
    with _in_session(subscriber, pairing.at_subscriber):
        set_subscription(
            subscriber.connection,
            subid,
            replicastate=mark,
            settledgen=at_subscriber,
            waitinggen=None if waiting is None else waiting.own,
            waitingpubgen=None if waiting is None else waiting.other,
        )
    with _in_session(hub, pairing.at_hub):
        set_subscription(
            hub.connection,
            subid,
            replicastate=mark,
            next_replicastate=None,
            sentgen=downloaded.generation,
            settledgen=at_hub,
            **exchanged(hub.connection, subid, exchange),
        )
        for article in pairing.articles:
            gone = downloaded.gone.get(article.nickname)
            if gone:
                part_members(hub.connection, pairing.at_hub, article, gone)
            returned = downloaded.returned.get(article.nickname)
            if returned:
                confirm_members(hub.connection, pairing.at_hub.nickname, article, returned)
            stayed = downloaded.stayed.get(article.nickname)
            if stayed:
                keep_stayed(hub.connection, pairing.at_hub.nickname, article, stayed)
        _report_to_hub(hub, downloaded.receiver, pairing.articles)
        history.put()


def _conclude_upload(hub: Node, subscriber: Node, pairing: Pairing, history: History) -> None:
    """Store what an upload alone has settled; the marks stay as they are until a download."""
    subid, settled = pairing.at_hub.subid, _settled(subscriber, pairing)
    with _in_session(hub, pairing.at_hub):
        dates = exchanged(hub.connection, subid, ExchangeType.UPLOAD)
        set_subscription(hub.connection, subid, settledgen=settled, **dates)
        history.put()


def _settled(subscriber: Node, pairing: Pairing) -> int:
    """Return the hub's last generation that no later change of the subscriber can conflict with, after an upload."""
    is_asking = bool(list_retries(subscriber.connection, pairing.hub))
    return pairing.at_hub.settled if is_asking else pairing.at_hub.sent
