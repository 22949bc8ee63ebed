"""The identity of a PostgreSQL database: the server's system identifier, and the database's oid."""

from __future__ import annotations

import psycopg
from psycopg import sql

from rowtide.databases.postgres.clock import INCARNATION
from rowtide.databases.postgres.errors import translated
from rowtide.replication import definitions
from rowtide.replication.targets.identity import DatabaseIdentity, Delivered
from rowtide.replication.targets.postgres import origins, progress
from rowtide.replication.targets.postgres.connecting import connect


def identify(url: str) -> DatabaseIdentity:
    """Connect, and return the database's identity. Raises `ConnectionFailed`."""
    with connect(url, application_name="rowtide subscription") as connection:
        return read_identity(connection)


def read_identity(connection: psycopg.Connection) -> DatabaseIdentity:
    """Return the identity of a connection's database.

    What it delivers is left out if the role may not read it.
    """
    with translated():
        (database,) = connection.execute(sql.SQL(f"select {INCARNATION}")).fetchall()[0]
        delivers: dict[str, Delivered] = {}
        if all(_is_readable(connection, table) for table in ("MSdistribution_agents", "MSsubscriptions", "MSarticles")):
            rows = connection.execute(_DELIVERS).fetchall()
            delivers = {
                guid: Delivered(subscriber, frozenset(tables), forwards=forwards, conflicts=conflicts)
                for guid, subscriber, forwards, conflicts, tables in rows
            }
    receives = origins.read_received(connection, progress.list_recorded(connection))
    return DatabaseIdentity(database, receives, delivers)


def _is_readable(connection: psycopg.Connection, table: str) -> bool:
    return connection.execute(_READABLE, (definitions.SCHEMA, table)).fetchone() is not None


_READABLE = """
select from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
      and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
"""

_DELIVERS = f"""
select g.subscription_guid, g.subscriber, coalesce((to_jsonb(g) ->> 'forwards')::boolean, true),
       (to_jsonb(g) ->> 'settings')::jsonb ->> 'conflicts', array_agg(a.source_owner || '.' || a.source_object)
from {definitions.SCHEMA}."MSdistribution_agents" g
join {definitions.SCHEMA}."MSsubscriptions" s on s.agent_id = g.id
join {definitions.SCHEMA}."MSarticles" a on a.article_id = s.article_id
group by 1, 2, 3, 4
"""
