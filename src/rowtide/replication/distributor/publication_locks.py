"""A publication's articles stay as they are while a subscription to it is added: it begins with all of them.

And a publication is not dropped meanwhile, nor is anything added to one that is being dropped.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, Select, select, text

from rowtide.replication.distributor.definitions import publications
from rowtide.replication.distributor.location import distributor
from rowtide.replication.errors.publishing import PublicationBeingDropped, SubscriptionBeingAdded

PATIENCE_S = 10.0
_PAUSE_S = 0.1
_CLASS = 0x726F7776


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


def keep_publication(connection: Connection, publication: str) -> None:
    """Let nobody drop a publication until the transaction ends. Raises `PublicationBeingDropped`."""
    kept = "select pg_try_advisory_xact_lock_shared(:class, :key)"
    if not connection.execute(text(kept), _key_of(publication)).scalar_one():
        raise PublicationBeingDropped(publication)


@contextmanager
def begin_dropping(engine: Engine, publication: str) -> Iterator[None]:
    """Let nobody add anything to a publication meanwhile. Raises `SubscriptionBeingAdded`."""
    deadline = time.monotonic() + PATIENCE_S
    with engine.connect() as opened:
        connection = opened.execution_options(isolation_level="AUTOCOMMIT")
        taken = "select pg_try_advisory_lock(:class, :key)"
        while not connection.execute(text(taken), _key_of(publication)).scalar_one():
            if time.monotonic() >= deadline:
                raise SubscriptionBeingAdded(publication)
            time.sleep(_PAUSE_S)
        try:
            yield
        finally:
            # The lock ends with its session, which an engine may keep.
            connection.invalidate()


def _key_of(publication: str) -> dict[str, int]:
    return {"class": _CLASS, "key": zlib.crc32(publication.encode()) >> 1}


def _row_of(publication: str) -> Select[tuple[int]]:
    return select(publications.c.publication_id).where(publications.c.publication == publication)
