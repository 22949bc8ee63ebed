"""The stores of a SQLite file: what each feature keeps in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from sqlalchemy.dialects import sqlite

from rowtide.actions.entries import FORMAT as AUDIT, TABLE as ACTIONS
from rowtide.actions.sqlite import audit
from rowtide.core.formats import PresentStore
from rowtide.databases.sqlite.connect import open_url
from rowtide.databases.sqlite.guarding import find_store, migrating_alone
from rowtide.merge.exchange_state import SELECT_SUBSCRIBERS
from rowtide.merge.nodes.sqlite.metadata import node_form as merge
from rowtide.replication.targets.sqlite import progress as delivery
from rowtide.tracking.sqlite import system_tables as tracking
from rowtide.upgrading.upgrade import FoundStores

__all__ = ["find_at_subscriber", "find_present", "migrating_alone"]


def find_present(url: str) -> FoundStores:
    """Return what is tracked, merged, delivered and audited in a file."""
    tracked = find_store(url, tracking.FORMAT, tracking.FORMAT_VIEW, tracking.TRACKED_OBJECTS)
    subscribed = find_at_subscriber(url).stores
    audited = find_store(url, AUDIT, audit.FORMAT_VIEW, ACTIONS)
    stores = tuple(store for store in (tracked, *subscribed, audited) if store is not None)
    return FoundStores(stores, subscribers=tuple(_find_subscribers(url, subscribed)))


def find_at_subscriber(url: str) -> FoundStores:
    """Return what is merged and delivered in a file."""
    found = (merge.find_store(url), find_store(url, delivery.FORMAT, delivery.FORMAT_VIEW, delivery.SUBSCRIPTIONS))
    return FoundStores(tuple(store for store in found if store is not None))


def _find_subscribers(url: str, stores: tuple[PresentStore, ...]) -> Iterator[str]:
    """Yield the URLs that a hub records, where its format is not newer."""
    if any(store.format is merge.FORMAT and store.find_refusal() is None for store in stores):
        query = str(SELECT_SUBSCRIBERS.compile(dialect=sqlite.dialect()))
        with closing(open_url(url)) as connection:
            yield from (name for (name,) in connection.execute(query))
