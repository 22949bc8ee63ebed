"""One synchronisation of a subscriber with its hub: upload, then download (SQL Server: the Merge Agent).

Each end keeps how far it has sent and received; where these differ something was lost on the way, and the lower of both
is where it goes on. A mark that both ends keep changes with each synchronisation: an end that does not have the other's
was restored from a backup, or is a copy.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rowtide.merge.articles import Article, Publication, Subscription, Waiting
from rowtide.merge.catalogue import find_publication, get_publication, list_articles, read_nickname
from rowtide.merge.conflicts.records import record, settle_failures
from rowtide.merge.errors import (
    FiltersChanged,
    MergedTableAltered,
    MergeSubscriptionUnknown,
    NodeCopied,
    NodeRestored,
    SubscriptionExpired,
    UploadNotComparable,
)
from rowtide.merge.nodes.node import Node
from rowtide.merge.partitions.candidates import Marks
from rowtide.merge.partitions.filters import RowFilter, bind_articles
from rowtide.merge.partitions.partition_membership import mark, remove_members
from rowtide.merge.progress import (
    list_retries,
    list_subscriptions,
    put_received,
    read_last_sync,
    read_purge,
    set_subscription,
)
from rowtide.merge.session.exchange import Receiver, Refused, Transfer
from rowtide.merge.session.history import RUNNING, Phase, Summary, recorded
from rowtide.merge.session.purging import expiry, is_due, purge
from rowtide.merge.session.receiving import HubReceiver, SubscriberReceiver
from rowtide.merge.session.spooling import Outgoing, Spool


@dataclass(frozen=True, slots=True)
class Pairing:
    """A hub and a subscriber that know each other; each keeps its own `Subscription` of the other."""

    publication: Publication
    articles: tuple[Article, ...]
    at_hub: Subscription
    at_subscriber: Subscription
    hub: int

    @property
    def filters(self) -> dict[int, RowFilter]:
        """The filters of the subscriber's partition, by article; those that it has whole are left out."""
        return bind_articles(self.articles, self.at_hub.partition)


Progress = Callable[[str, int, int], None]
"""Told the direction, how many changes are dealt with, and how many there are."""


def pair(hub: Node, subscriber: Node, publication_name: str, subscriber_name: str) -> Pairing:
    """Find out how two nodes know each other. Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`."""
    publication = get_publication(hub.connection, publication_name)
    unknown = MergeSubscriptionUnknown(subscriber_name, publication_name)
    if not subscriber.tables.is_prepared() or find_publication(subscriber.connection, publication_name) is None:
        raise unknown
    own = list_subscriptions(subscriber.connection, publication.pubid)
    at_subscriber = next((one for one in own if one.nickname == publication.publisher), None)
    if at_subscriber is None:
        raise unknown
    known = list_subscriptions(hub.connection, publication.pubid)
    at_hub = next((one for one in known if one.subid == at_subscriber.subid), None)
    if at_hub is None:
        raise unknown
    articles = list_articles(hub.connection, publication.pubid)
    return Pairing(publication, articles, at_hub, at_subscriber, read_nickname(hub.connection))


def synchronise(
    hub: Node, subscriber: Node, pairing: Pairing, on_progress: Progress = lambda _phase, _done, _all: None
) -> Summary:
    """Exchange all changes of both nodes.

    Raises `NodeCopied`, `NodeRestored`, `SubscriptionExpired`, `MergedTableAltered`, `FiltersChanged`,
    `StoredFilterRefused`, `SessionReplaced`, `NodeBusy`.
    """
    _require_originals(hub, subscriber)
    _require_unexpired(hub, pairing)
    _require_met(subscriber, pairing)
    _require_whole(hub, "the publisher", pairing)
    _require_whole(subscriber, pairing.at_hub.subscriber, pairing)
    _require_filters(subscriber, pairing)
    for node in (hub, subscriber):
        node.tables.record_place()
    began, clock = datetime.now(UTC), time.monotonic()
    pairing = _begin(hub, subscriber, pairing)
    summary = Summary(pairing.at_hub.subscriber)
    with recorded(hub, pairing.at_hub.subid, summary, began, clock):
        sent = _upload(hub, subscriber, pairing, summary.upload, on_progress)
        received = _download(hub, subscriber, pairing, summary.download, on_progress)
        _part(hub, subscriber, pairing, Waiting(sent, received))
    for node in (hub, subscriber):
        if is_due(node):
            purge(node)
    return summary


def upload(
    hub: Node, subscriber: Node, pairing: Pairing, on_progress: Progress = lambda _phase, _done, _all: None
) -> Summary:
    """Bring the subscriber's changes to the hub alone, before it is filled anew, expired or not.

    Raises `NodeCopied`, `NodeRestored`, `SessionReplaced`, `NodeBusy`; `UploadNotComparable` where the hub has
    purged what it takes to compare them.
    """
    _require_originals(hub, subscriber)
    _require_met(subscriber, pairing)
    subscriber_name = pairing.at_hub.subscriber
    if pairing.at_hub.settled < read_purge(hub.connection).generation:
        raise UploadNotComparable(subscriber_name, "the publisher has purged metadata that it had not got")
    began, clock = datetime.now(UTC), time.monotonic()
    pairing = _begin(hub, subscriber, pairing)
    summary = Summary(subscriber_name)
    with recorded(hub, pairing.at_hub.subid, summary, began, clock):
        _upload(hub, subscriber, pairing, summary.upload, on_progress)
    return summary


def _require_unexpired(hub: Node, pairing: Pairing) -> None:
    """The hub's clock alone says how long ago it was."""
    last = read_last_sync(hub.connection, pairing.at_hub.subid)
    expires = expiry(pairing.publication, last)
    if expires is not None and last is not None and expires < datetime.now(UTC):
        raise SubscriptionExpired(pairing.at_hub.subscriber, f"{last:%Y-%m-%d}", pairing.publication.retention_days)


def require_original(node: Node, *, is_sure: bool = True) -> None:
    """Raise `NodeCopied` where the database that a node was copied from is there; not sure: where it may be.

    Of a copy and an original on different servers, who synchronises first goes on: the marks tell the other.
    """
    original = node.tables.find_original()
    if original is not None and (original.is_here or not is_sure):
        raise NodeCopied(original.copy, original.description)


def _require_originals(hub: Node, subscriber: Node) -> None:
    for node in (hub, subscriber):
        require_original(node)


def has_met(subscriber: Node, pairing: Pairing) -> bool:
    """Whether both ends are as they parted last: none was restored from a backup, or is a copy of another."""
    is_same = read_nickname(subscriber.connection) == pairing.at_hub.nickname
    return is_same and pairing.at_subscriber.state in (pairing.at_hub.state, pairing.at_hub.next_state)


def _require_met(subscriber: Node, pairing: Pairing) -> None:
    if not has_met(subscriber, pairing):
        raise NodeRestored(pairing.at_hub.subscriber)


def _require_whole(node: Node, name: str, pairing: Pairing) -> None:
    """What is not tracked would be lost in silence, what has no column would be refused row by row."""
    for article in pairing.articles:
        damage = node.tables.find_damage(article)
        if damage is not None and node.tables.take_in_partitions(article):
            damage = node.tables.find_damage(article)
        if damage is not None:
            raise MergedTableAltered(name, article.qualified_name, damage)


def _require_filters(subscriber: Node, pairing: Pairing) -> None:
    """Which rows a subscriber has follows from the filters that it was filled by, and from what was changed since."""
    filtered = pairing.filters
    known = {article.name: article for article in list_articles(subscriber.connection, pairing.publication.pubid)}
    changed = [
        article.qualified_name
        for article in pairing.articles
        if article.nickname in filtered and article.name in known and not article.is_filtered_as(known[article.name])
    ]
    if changed:
        raise FiltersChanged(pairing.at_hub.subscriber, ", ".join(changed))


def _begin(hub: Node, subscriber: Node, pairing: Pairing) -> Pairing:
    """Put any other synchronisation of the subscription out, and choose the mark that this one leaves."""
    subid, mark = pairing.at_hub.subid, secrets.token_hex(16)
    session = max(pairing.at_hub.session, pairing.at_subscriber.session) + 1
    with hub.transaction():
        # What the subscriber has is what both have had: an interrupted synchronisation may have left it there.
        set_subscription(
            hub.connection,
            subid,
            session=session,
            replicastate=pairing.at_subscriber.state,
            next_replicastate=mark,
            last_sync_status=RUNNING,
        )
    with subscriber.transaction():
        set_subscription(subscriber.connection, subid, session=session)
    at_hub = replace(pairing.at_hub, session=session, state=pairing.at_subscriber.state, next_state=mark)
    return replace(pairing, at_hub=at_hub, at_subscriber=replace(pairing.at_subscriber, session=session))


def _upload(hub: Node, subscriber: Node, pairing: Pairing, phase: Phase, on_progress: Progress) -> int:
    """Return the subscriber's generation that the hub has now."""
    source = pairing.at_hub.nickname
    again = list_retries(hub.connection, source)
    receiver = HubReceiver(
        hub,
        pairing.at_hub,
        source,
        pairing.at_hub.subscriber,
        again,
        is_upload=True,
        hub_name=pairing.publication.name,
        filters=pairing.filters,
    )
    since = min(pairing.at_subscriber.sent, pairing.at_hub.received)
    with _read(subscriber, pairing.articles, since, pairing.hub, again, {}) as (generation, outgoing, spool):
        _keep_bases(subscriber, pairing, outgoing)
        _transfer(spool, receiver, pairing.articles, phase, _counting(on_progress, "upload"))
    if generation != pairing.at_hub.received or spool.changes:
        _advance(receiver, received=generation, source=source)
    receiver.conclude()
    if generation != pairing.at_subscriber.sent:
        with subscriber.transaction():
            set_subscription(subscriber.connection, pairing.at_hub.subid, sentgen=generation)
    return generation


def _download(hub: Node, subscriber: Node, pairing: Pairing, phase: Phase, on_progress: Progress) -> int:
    """Return the hub's generation that the subscriber has now."""
    again = list_retries(subscriber.connection, pairing.hub)
    receiver = SubscriberReceiver(
        subscriber, pairing.at_subscriber, pairing.hub, pairing.publication.name, again, is_upload=False
    )
    since = min(pairing.at_hub.sent, pairing.at_subscriber.received)
    destination = pairing.at_hub.nickname
    with _read(hub, pairing.articles, since, destination, again, pairing.filters) as (generation, outgoing, spool):
        marks = outgoing.marks
        _mark(hub, pairing, marks, generation)
        _transfer(spool, receiver, pairing.articles, phase, _counting(on_progress, "download"))
    if generation != pairing.at_subscriber.received or spool.changes:
        _advance(receiver, received=generation, source=pairing.hub)
    gone = _gone(marks, receiver, phase.refused)
    if generation != pairing.at_hub.sent or any(gone.values()):
        with hub.transaction():
            set_subscription(hub.connection, pairing.at_hub.subid, sentgen=generation)
            for article in pairing.articles:
                remove_members(hub.connection, destination, article, gone.get(article.nickname, ()))
    if again or receiver.kept:
        _tell_hub(hub, receiver, pairing.articles)
    return generation


def _tell_hub(hub: Node, receiver: SubscriberReceiver, articles: Sequence[Article]) -> None:
    """Let the hub know too what the subscriber did not take, and what it has taken at last."""
    still = list_retries(receiver.node.connection, receiver.source)
    with hub.transaction():
        for conflict in receiver.kept:
            record(hub.connection, conflict)
        for article in articles:
            asked = receiver.again.get(article.nickname, ())
            taken = [rowguid for rowguid in asked if rowguid not in still.get(article.nickname, ())]
            settle_failures(hub.connection, article, taken)


@contextmanager
def _read(
    sender: Node,
    articles: Sequence[Article],
    since: int,
    destination: int,
    again: dict[int, list[str]],
    filters: dict[int, RowFilter],
) -> Iterator[tuple[int, Outgoing, Spool]]:
    """Yield what a node changed after a generation, with the generation that it is up to now and what is to be kept."""
    with sender.enumerating() as enumeration:
        outgoing = Outgoing(enumeration, articles, since, destination, again, filters)
        spool, generation = outgoing.spool(), enumeration.generation
    with spool:
        yield generation, outgoing, spool


def _transfer(
    spool: Spool,
    receiver: Receiver,
    articles: Sequence[Article],
    phase: Phase,
    on_progress: Callable[[int, int], None],
) -> None:
    """Bring what was read to a node."""
    began = time.monotonic()
    done = 0

    def tell(changes: int) -> None:
        nonlocal done
        done += changes
        on_progress(done, spool.changes)

    transfer = Transfer(receiver, {article.nickname: article for article in articles}, tell)
    transfer.run(spool)
    phase.articles, phase.refused, phase.seconds = transfer.counts, transfer.refused, time.monotonic() - began


def _keep_bases(subscriber: Node, pairing: Pairing, outgoing: Outgoing) -> None:
    """Keep what of additive columns is about to be sent: the hub may have it before the subscriber knows."""
    if any(outgoing.bases.values()):
        with subscriber.transaction():
            for article in pairing.articles:
                subscriber.keep_bases(article, outgoing.bases.get(article.nickname, {}))


def _mark(hub: Node, pairing: Pairing, marks: dict[int, Marks], generation: int) -> None:
    """Keep which rows the subscriber is about to have, and which are to leave it."""
    if not any(each.is_any for each in marks.values()):
        return
    with hub.transaction():
        for article in pairing.articles:
            if article.nickname in marks:
                mark(hub.connection, pairing.at_hub.nickname, article, marks[article.nickname], generation)


def _gone(marks: dict[int, Marks], receiver: SubscriberReceiver, refused: Sequence[Refused]) -> dict[int, list[str]]:
    """Return what the subscriber has no more, by article."""
    there = receiver.staying | {each.change.rowguid for each in refused}
    return {
        nickname: [rowguid for rowguid in (*each.leaving, *each.buried) if rowguid not in there]
        for nickname, each in marks.items()
    }


def _counting(on_progress: Progress, phase: str) -> Callable[[int, int], None]:
    return lambda done, all_: on_progress(phase, done, all_)


def _advance(receiver: HubReceiver | SubscriberReceiver, *, received: int, source: int) -> None:
    """Note that a generation has come whole; with that, all that was received is on disk."""
    with receiver.node.transaction():
        receiver.check()
        set_subscription(receiver.node.connection, receiver.subscription.subid, recgen=received)
        put_received(receiver.node.connection, source, received)


def _part(hub: Node, subscriber: Node, pairing: Pairing, exchanged: Waiting) -> None:
    """Leave the new mark at both ends; between both steps the hub knows either.

    What the hub had sent before this synchronisation is settled: whatever the subscriber had changed concurrently came
    up in it. What the subscriber has sent is settled when the hub has purged it, since all others have it then: which
    columns it changed counts until nobody can have changed them concurrently.
    """
    subid, state = pairing.at_hub.subid, pairing.at_hub.next_state
    at_hub, at_subscriber, waiting = (
        pairing.at_hub.settled,
        pairing.at_subscriber.settled,
        pairing.at_subscriber.waiting,
    )
    if not list_retries(subscriber.connection, pairing.hub):
        at_hub = pairing.at_hub.sent
    if waiting is not None and waiting.other <= read_purge(hub.connection).generation:
        at_subscriber, waiting = waiting.own, None
    if waiting is None and not list_retries(hub.connection, pairing.at_hub.nickname):
        waiting = exchanged
    with subscriber.transaction():
        set_subscription(
            subscriber.connection,
            subid,
            replicastate=state,
            settledgen=at_subscriber,
            waitinggen=None if waiting is None else waiting.own,
            waitingpubgen=None if waiting is None else waiting.other,
        )
    with hub.transaction():
        set_subscription(
            hub.connection,
            subid,
            replicastate=state,
            next_replicastate=None,
            settledgen=at_hub,
            last_sync_date=datetime.now(UTC),
        )
