"""The stores of a SQLite file: what each feature keeps in it."""

from __future__ import annotations

from rowtide.databases.sqlite.guarding import find_store
from rowtide.merge.nodes.sqlite.metadata import completing as merge
from rowtide.replication.targets.sqlite import progress as delivery
from rowtide.tracking.sqlite import system_tables as tracking
from rowtide.upgrading.present import Present


def find_present(url: str) -> Present:
    """Return what is tracked, merged and delivered in a file."""
    found = (
        find_store(url, tracking.FORMAT, tracking.FORMAT_VIEW, tracking.TRACKED_OBJECTS),
        merge.find_store(url),
        find_store(url, delivery.FORMAT, delivery.FORMAT_VIEW, delivery.SUBSCRIPTIONS),
    )
    return Present(tuple(store for store in found if store is not None))
