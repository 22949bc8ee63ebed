"""The stores of a SQLite file: what each feature keeps in it."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.core.upgrades import PresentStore
from rowtide.databases.sqlite.formats import find_store
from rowtide.merge.nodes.sqlite.metadata import completing as merge
from rowtide.replication.targets.sqlite import progress as delivery
from rowtide.tracking.sqlite import system_tables as tracking


def list_stores(url: str) -> Iterator[PresentStore]:
    """Yield what is tracked, merged and delivered in a file."""
    found = (
        find_store(url, tracking.FORMAT, tracking.FORMAT_VIEW, tracking.TRACKED_OBJECTS),
        merge.find_store(url),
        find_store(url, delivery.FORMAT, delivery.FORMAT_VIEW, delivery.SUBSCRIPTIONS),
    )
    yield from (store for store in found if store is not None)
