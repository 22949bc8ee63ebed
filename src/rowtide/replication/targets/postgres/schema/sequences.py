"""Sequences of a PostgreSQL subscriber's tables are moved to where the publisher's are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.subscriber_kind import COLUMN_SEQUENCE, PublishedSequence, SyncedSequence


def move(url: str, published: Sequence[PublishedSequence]) -> tuple[SyncedSequence, ...]:
    """Move the sequences of a subscriber's columns, none of them back; return those that were moved."""
    with connect(url, application_name="rowtide subscription") as connection, connection.transaction(), translated():
        moved = (_move(connection, url, one) for one in published)
        return tuple(one for one in moved if one is not None)


def _move(connection: psycopg.Connection[Any], url: str, published: PublishedSequence) -> SyncedSequence | None:
    table = quote_qualified(published.schema, published.table)
    row = connection.execute(sql.SQL(_SEQUENCE), {"table": table, "column": published.column}).fetchone()
    if row is None or row[0] is None:
        return None
    # Until the end of the transaction nobody else takes a value from it.
    found = connection.execute(sql.SQL(f"select last_value, is_called from {row[0]}")).fetchone()
    assert found is not None
    before = _next(found[0], published.increment, is_called=found[1])
    now = _next(published.last_value, published.increment, is_called=published.is_called)
    if (now - before) * published.increment <= 0:
        return None
    connection.execute("select setval(%s, %s, %s)", (row[0], published.last_value, published.is_called))
    return SyncedSequence(url, f"{published.schema}.{published.table}", published.column, before, now)


def _next(last_value: int, increment: int, *, is_called: bool) -> int:
    """Return the value that a sequence gives next."""
    return last_value + increment * is_called


_SEQUENCE = COLUMN_SEQUENCE.format(table="%(table)s", column="%(column)s")
