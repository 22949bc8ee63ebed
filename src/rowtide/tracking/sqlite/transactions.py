"""Transactions of rowtide's own on a SQLite file, with their own BSN and a tracking context."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.databases.sqlite import clock
from rowtide.databases.sqlite.connect import write_transaction
from rowtide.tracking.changes import OwnTransaction
from rowtide.tracking.errors import TransactionOpen
from rowtide.tracking.sqlite.system_tables import require_tracking


@contextmanager
def own_transaction(
    connection: sqlite3.Connection, context: UUID | None, seen: Anchor | None
) -> Iterator[OwnTransaction]:
    """Write in an epoch that no other transaction shares.

    Raises `TransactionOpen`, `NothingTracked`, `UnknownAnchor`, `FileBusy`.
    """
    if connection.in_transaction:
        raise TransactionOpen
    with write_transaction(connection):
        require_tracking(connection)
        bsn = clock.end_epoch(connection)
        renewed = None if seen is None else clock.renew(connection, seen)
        if context is not None:
            clock.set_context(connection, context, seen)
        yield OwnTransaction(bsn, renewed)
        clock.end_epoch(connection)
