"""Transactions of rowtide's own on a PostgreSQL connection, with a tracking context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus

from rowtide.databases.postgres import clock
from rowtide.databases.postgres.clock import Taken
from rowtide.tracking.changes import OwnTransaction
from rowtide.tracking.errors import TransactionOpen


@contextmanager
def own_transaction(
    connection: psycopg.Connection, context: UUID | None, seen: Taken | None
) -> Iterator[OwnTransaction]:
    """Write in one transaction, committed at the end. Raises `TransactionOpen`."""
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise TransactionOpen
    with connection.transaction():
        row = connection.execute(f"select {clock.BSN}".encode()).fetchone()
        assert row is not None
        if context is not None:
            connection.execute(clock.context_setting(context, seen).encode())
        renewed = None
        if seen is not None:
            renewed, insertion = clock.renewal(seen)
            connection.execute(insertion.encode())
        yield OwnTransaction(int(row[0]), renewed)
