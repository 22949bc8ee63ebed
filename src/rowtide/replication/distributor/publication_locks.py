"""A publication's articles stay as they are while a subscription to it is added: it begins with all of them."""

from __future__ import annotations

import time

from sqlalchemy import Connection, Select, select

from rowtide.replication.distributor.definitions import publications
from rowtide.replication.distributor.location import distributor
from rowtide.replication.errors.publishing import SubscriptionBeingAdded

PATIENCE_S = 10.0
_PAUSE_S = 0.1


def keep_articles(connection: Connection, publication: str) -> None:
    """Let no article be added to a publication, changed or dropped until the transaction ends."""
    distributor(connection).execute(_row_of(publication).with_for_update(read=True))


def begin_changing(connection: Connection, publication: str) -> None:
    """Let no subscription be added to a publication until the transaction ends. Raises `SubscriptionBeingAdded`."""
    deadline = time.monotonic() + PATIENCE_S
    locking = _row_of(publication).with_for_update(key_share=True, skip_locked=True)
    while distributor(connection).execute(locking).first() is None:
        if time.monotonic() >= deadline:
            raise SubscriptionBeingAdded(publication)
        time.sleep(_PAUSE_S)


def _row_of(publication: str) -> Select[tuple[int]]:
    return select(publications.c.publication_id).where(publications.c.publication == publication)
