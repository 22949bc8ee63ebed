"""Decide about conflicts that subscribers keep, and list them of all subscribers, reachable or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import (
    Engine,
)

from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.conflict_decisions import ConflictDecision, ConflictOutcome, KeptConflict, ListedConflicts
from rowtide.replication.distributor import history, publication_records, subscription_records
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.conflicts import ConflictsUnknown, DeliveryConflictUnknown
from rowtide.replication.errors.subscribing import SubscriptionUnknown
from rowtide.replication.targets.kinds import kind_of


@frozen
class UnreadSubscriber:
    """A subscriber whose conflicts could not be read, and are not known since it was last delivered to.

    `since` None: nothing was delivered to it in the last 48 hours.
    """

    publication: str
    subscriber: str
    since: datetime | None
    reason: str


@frozen
class KeptConflicts:
    """The conflicts of subscribers, newest first for each subscription, and the subscribers that could not be read.

    `listed` are those of each subscription, by its guid.
    """

    listed: Mapping[str, ListedConflicts]
    unread: tuple[UnreadSubscriber, ...]

    @property
    def conflicts(self) -> tuple[KeptConflict, ...]:
        """The conflicts of all of them."""
        return tuple(conflict for one in self.listed.values() for conflict in one.conflicts)


NO_CONFLICTS = KeptConflicts({}, ())


def read_conflicts(
    engine: Engine, url: str, publication: str | None, subscriber: str | None, known: KeptConflicts = NO_CONFLICTS
) -> KeptConflicts:
    """Return the conflicts of all subscriptions, or of a publication's or a subscriber's.

    Of subscribers where nothing changed since `known` was read, no row is read again. Raises `PublicationUnknown`,
    `SubscriptionUnknown`.
    """
    with translated(), engine.connect() as connection:
        chosen = _choose(engine, url, publication, subscriber)
        reached = history.list_last_reached(connection)
    # Without a transaction at the publisher: a subscriber may not answer for long.
    listed: dict[str, ListedConflicts] = {}
    unread: list[UnreadSubscriber] = []
    for one in chosen:
        try:
            server = kind_of(one.subscriber).server
            found = ListedConflicts() if server is None else server.list_conflicts(one, known.listed.get(one.guid))
            listed[one.guid] = found
        except RowtideError as error:
            since = reached.get(one.agent_id)
            unread.append(UnreadSubscriber(one.publication, redact(one.subscriber), since, str(error)))
    return KeptConflicts(listed, tuple(unread))


def require_read(unread: Sequence[UnreadSubscriber]) -> None:
    """Raise `ConflictsUnknown` if a subscriber could not be read."""
    if unread:
        raise ConflictsUnknown("; ".join(map(_describe_unread, unread)))


def _describe_unread(one: UnreadSubscriber) -> str:
    since = "" if one.since is None else f" since {one.since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{one.subscriber} of {one.publication}{since} ({one.reason})"


def resolve(
    engine: Engine, url: str, publication: str | None, subscriber: str, decision: ConflictDecision
) -> ConflictOutcome:
    """Decide about a conflict that a subscriber keeps.

    Raises `PublicationUnknown`, `SubscriptionUnknown`, and as `ServerSubscribers.settle_conflict`.
    """
    unknown: DeliveryConflictUnknown | None = None
    for one in _choose(engine, url, publication, subscriber):
        server = kind_of(one.subscriber).server
        if server is None:
            unknown = DeliveryConflictUnknown(one.subscriber, decision.conflict_id)
            continue
        try:
            return server.settle_conflict(one, _list_articles(engine, one), decision)
        except DeliveryConflictUnknown as error:
            unknown = error
    assert unknown is not None
    raise unknown


def _choose(engine: Engine, url: str, publication: str | None, subscriber: str | None) -> Sequence[Subscription]:
    """Return subscriptions. Raises `PublicationUnknown`, `SubscriptionUnknown`."""
    wanted = None if subscriber is None else kind_of(subscriber).address(subscriber)
    with translated(), engine.connect() as connection:
        read_source(connection, url, StoreFormat.require_readable)
        if publication is not None:
            publication_records.get_publication(connection, publication)
        known = subscription_records.list_subscriptions(connection, publication)
    chosen = [found for found in known if wanted in (None, found.subscriber)]
    if wanted is not None and not chosen:
        raise SubscriptionUnknown(publication or "any", wanted)
    return chosen


def _list_articles(engine: Engine, subscription: Subscription) -> Sequence[Article]:
    with translated(), engine.connect() as connection:
        return subscription_records.list_subscribed(connection, subscription.agent_id)
