"""Replication connections, over which the log is read, and who may open one."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq.abc import PGconn

from rowtide.databases.passwords import find_replication_url
from rowtide.databases.postgres.connect import libpq_url, network_parameters, options_of
from rowtide.databases.postgres.errors import ConnectionFailed, NoFreeSender, NoReplicationRight, ReplicationPooled
from rowtide.databases.postgres.poolers import refuses_parameters
from rowtide.databases.postgres.quoting import quote

if TYPE_CHECKING:
    from sqlalchemy import Connection


def open_replication_connection(url: str, *, application_name: str) -> PGconn:
    """Open a replication connection; its settings are not pinned yet.

    Raises `ConnectionFailed`, `NoFreeSender`, `NoReplicationRight`, `ReplicationPooled`.
    """
    target = find_replication_url(url)
    own = {"options": options_of(target), **network_parameters(target)}
    parameters = {"replication": "database", "application_name": application_name, **own}
    return _connect_to_replicate(_with_parameters(libpq_url(target), parameters))


def require_replication_right(connection: Connection) -> None:
    """Raise `NoReplicationRight` if the connection's role may not replicate, by trying it.

    A managed service gives the right to members of a group, whose roles lack the attribute in pg_roles. What else
    refuses the attempt (pg_hba.conf, a pooler, no free sender) does not report whether the role has the right.
    """
    session = connection.connection.driver_connection
    assert isinstance(session, psycopg.Connection)
    conninfo = make_conninfo(session.info.dsn, password=session.info.password or None, replication="database")
    with suppress(ConnectionFailed, NoFreeSender, ReplicationPooled):
        _connect_to_replicate(conninfo).finish()


def _connect_to_replicate(conninfo: str) -> PGconn:
    connection = pq.PGconn.connect(conninfo.encode())
    if connection.status != pq.ConnStatus.OK:
        raise _connection_error(connection.user.decode(), connection.get_error_message())
    return connection


def _with_parameters(url: str, parameters: dict[str, str]) -> str:
    return url + ("&" if "?" in url else "?") + urlencode(parameters).replace("+", "%20")


def _connection_error(role: str, message: str) -> Exception:
    reason = " ".join(message.split())
    if refuses_parameters(reason):
        return ReplicationPooled(reason)
    if "permission denied to start WAL sender" in reason or "must be superuser or replication role" in reason:
        return NoReplicationRight(role, quote(role))
    if "max_wal_senders" in reason or "too many clients" in reason:
        return NoFreeSender()
    return ConnectionFailed(reason)
