"""The identity of a PostgreSQL database: the server's system identifier, and the database's oid."""

from __future__ import annotations

import psycopg
from psycopg import sql

from rowtide.databases.postgres.clock import INCARNATION
from rowtide.databases.postgres.errors import ConnectionFailed, translated
from rowtide.log.catalogue import SCHEMA as LOG_SCHEMA
from rowtide.replication.distributor.definitions import SCHEMA
from rowtide.replication.targets.postgres import origins, progress
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.subscriber_kind import DatabaseIdentity, Delivered


def identify(url: str) -> DatabaseIdentity:
    """Connect, and return the database's identity. Raises `ConnectionFailed`."""
    with connect(url, application_name="rowtide subscription") as connection:
        return read_identity(connection)


def read_identity(connection: psycopg.Connection) -> DatabaseIdentity:
    """Return the identity of a connection's database.

    What it delivers is omitted if the role may not read it.
    """
    with translated():
        (database,) = connection.execute(sql.SQL(f"select {INCARNATION}")).fetchall()[0]
        delivers = _read_delivers(connection)
    receives = origins.read_received(connection, progress.list_recorded(connection))
    return DatabaseIdentity(database, receives, delivers)


def _read_delivers(connection: psycopg.Connection) -> dict[str, Delivered]:
    """Return what a database delivers, from its distribution database; nothing if that cannot be reached."""
    if not _is_readable(connection, LOG_SCHEMA, "distributor"):
        return _read_subscriptions(connection, SCHEMA)
    place = connection.execute(sql.SQL(f"select url, schema_name from {LOG_SCHEMA}.distributor")).fetchone()
    if place is None:
        return _read_subscriptions(connection, SCHEMA)
    url, schema = place
    try:
        with connect(url, application_name="rowtide subscription") as other:
            return _read_subscriptions(other, schema)
    except ConnectionFailed:
        return {}


def _read_subscriptions(connection: psycopg.Connection, schema: str) -> dict[str, Delivered]:
    tables = ("MSdistribution_agents", "MSsubscriptions", "MSarticles")
    if not all(_is_readable(connection, schema, table) for table in tables):
        return {}
    rows = connection.execute(sql.SQL(_DELIVERS).format(schema=sql.Identifier(schema))).fetchall()
    return {
        guid: Delivered(subscriber, frozenset(tables), forwards=forwards, conflicts=conflicts)
        for guid, subscriber, forwards, conflicts, tables in rows
    }


def _is_readable(connection: psycopg.Connection, schema: str, table: str) -> bool:
    return connection.execute(_READABLE, (schema, table)).fetchone() is not None


_READABLE = """
select from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
      and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
"""

_DELIVERS = """
select g.subscription_guid, g.subscriber, coalesce((to_jsonb(g) ->> 'forwards')::boolean, true),
       (to_jsonb(g) ->> 'settings')::jsonb ->> 'conflicts', array_agg(a.source_owner || '.' || a.source_object)
from {schema}."MSdistribution_agents" g
join {schema}."MSsubscriptions" s on s.agent_id = g.id
join {schema}."MSarticles" a on a.article_id = s.article_id
group by 1, 2, 3, 4
"""
