"""Lists of the conflicts that subscribers have kept."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Engine

from rowtide.core.formats import Format
from rowtide.databases.postgres.errors import translated
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.errors.subscribing import SubscriptionUnknown
from rowtide.replication.publisher import read_source
from rowtide.replication.targets.kept_conflicts import KeptConflict
from rowtide.replication.targets.kinds import kind_of


def list_conflicts(engine: Engine, url: str, publication: str | None, subscriber: str | None) -> Sequence[KeptConflict]:
    """Return the conflicts of all subscriptions, or of a publication's or a subscriber's.

    Raises `PublicationUnknown`, `SubscriptionUnknown`, and what connecting raises.
    """
    wanted = None if subscriber is None else kind_of(subscriber).address(subscriber)
    with translated(), engine.connect() as connection:
        read_source(connection, url, Format.require_readable)
        if publication is not None:
            publication_records.get_publication(connection, publication)
        known = subscription_records.list_subscriptions(connection, publication)
    chosen = [found for found in known if wanted in (None, found.subscriber)]
    if wanted is not None and not chosen:
        raise SubscriptionUnknown(publication or "any", wanted)
    return [conflict for found in chosen for conflict in kind_of(found.subscriber).list_conflicts(found)]
