"""Whether a subscriber's server allows as many prepared transactions as its subscriptions' streams need."""

from __future__ import annotations

from contextlib import closing

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import translated
from rowtide.replication.errors.subscribing import PreparedTransactionsLacking
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.connecting import connect

_TABLE = sql.Identifier(SCHEMA, "MSreplication_subscriptions")


def require_streams(url: str, guid: str, streams: int) -> None:
    """Require that a subscription can be delivered in this number of streams, and record that at the subscriber.

    One stream needs nothing, and the subscriber is not contacted. Raises `PreparedTransactionsLacking`, and what
    connecting raises.
    """
    if streams > 1:
        with closing(connect(url, application_name="rowtide subscription")) as connection:
            require_prepared(connection, url, guid, streams)


def require_prepared(connection: psycopg.Connection, url: str, guid: str, streams: int) -> None:
    """As `require_streams`, over a connection, in autocommit mode."""
    with translated():
        is_made = progress.is_current(connection)
        if not is_made and progress.is_made(connection):
            progress.make_current(connection)
            is_made = True
        with connection.pipeline():
            allowing = connection.execute("select current_setting('max_prepared_transactions')::int")
            if is_made:
                counting = connection.execute(sql.SQL(_OTHERS).format(_TABLE), (guid,))
                connection.execute(sql.SQL(_RECORD).format(_TABLE), (streams, guid, streams))
    others, allowed = _scalar(counting) if is_made else 0, _scalar(allowing)
    if allowed < streams + others:
        raise PreparedTransactionsLacking(url, streams, streams + others, allowed)


def _scalar(cursor: psycopg.Cursor) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])


_RECORD = "update {} set streams = %s where subscription_guid = %s and streams <> %s"
_OTHERS = "select coalesce(sum(streams), 0) from {} where streams > 1 and subscription_guid <> %s"
