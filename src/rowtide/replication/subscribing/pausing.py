"""Pause and resume subscriptions; complete at a subscriber what a killed agent left prepared.

The agents of a paused subscription, wherever they run, stop until it is resumed. Its undelivered changes are kept for
the retention, as for any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Engine

from rowtide.databases.postgres.errors import translated
from rowtide.log.store.location import open_own_manifest
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import SubscriptionDeactivated
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.subscriber_kind import RecoveredTransaction


def pause(engine: Engine, database: str, publication: str, subscriber: str | None) -> None:
    """Stop delivery to one subscriber of a publication, or to all.

    Raises `PublicationUnknown`, `SubscriptionUnknown`.
    """
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        for subscription in _find(connection, publication, subscriber):
            subscription_records.set_status(connection, subscription.agent_id, SubscriptionState.INACTIVE)


def resume(engine: Engine, database: str, publication: str, subscriber: str | None) -> None:
    """Resume delivery, also after an error. Raises as `pause`, and `SubscriptionDeactivated`."""
    with translated(), engine.begin() as connection:
        manifest = open_own_manifest(read_source(connection, database))
        for subscription in _find(connection, publication, subscriber):
            is_joining = subscription.joins is not None
            if not is_joining and subscription.reader not in manifest.state.readers:
                raise SubscriptionDeactivated(publication, subscription.subscriber)
            # The agent of a joining article finds out whether the subscriber is prepared.
            state = SubscriptionState.WAITING if is_joining else SubscriptionState.ACTIVE
            subscription_records.count_resumption(connection, subscription.agent_id)
            subscription_records.set_status(connection, subscription.agent_id, state)


def _find(connection: Connection, publication: str, subscriber: str | None) -> Sequence[Subscription]:
    """Return subscriptions, with those of articles that join them."""
    known = subscription_records.list_subscriptions(connection, publication)
    if subscriber is None:
        publication_records.get_publication(connection, publication)
        return known
    wanted = subscription_records.get_subscription(connection, publication, kind_of(subscriber).address(subscriber))
    return [one for one in known if wanted.agent_id in (one.agent_id, one.joins)]


def recover(subscriber: str) -> Sequence[RecoveredTransaction]:
    """Commit or roll back what agents left prepared at a subscriber, each batch as a whole; return that.

    An agent that is at work there stops, as another has taken over (7113); start it again. Nothing is left prepared by
    one stream, nor in a SQLite file. Raises `DatabaseKindUnknown`, and what connecting to the subscriber raises.
    """
    server = kind_of(subscriber).server
    return () if server is None else server.recover(subscriber)
