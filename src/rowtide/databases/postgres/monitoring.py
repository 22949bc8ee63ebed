"""Schemas with views of rowtide's tables, through which monitors read.

Each schema of rowtide's can have one, of the same owner: its views have the tables' names, so a monitor's sessions run
the same queries as the owner's, on other schemas. Views of another owner are never read: a view calls its functions
with the rights of who reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

PREFIX = "rowtide_monitor_"
MONITORED = "rowtide_monitored"
"""Key in the `info` of an engine's connections: the schemas that the session's role reads through views."""

FIND_MONITORED = f"""(
select pg_catalog.string_agg(n.nspname::pg_catalog.text, ',')
from pg_catalog.pg_namespace n join pg_catalog.pg_namespace m
  on m.nspname operator(pg_catalog.=) pg_catalog.concat('{PREFIX}', n.nspname)::pg_catalog.name
  and m.nspowner operator(pg_catalog.=) n.nspowner
where pg_catalog.has_schema_privilege(m.oid, 'usage') and not pg_catalog.pg_has_role(n.nspowner, 'usage'))"""  # noqa: S608
"""An expression, to be evaluated under any search path: the schemas, without their owners and members of these."""


def view_schema(schema: str) -> str:
    """Return the name of the schema that has the views of a schema's tables."""
    return f"{PREFIX}{schema}"


def reads_views(connection: Connection, schema: str) -> bool:
    """Return whether the connection's role reads a schema's tables through views."""
    monitored: frozenset[str] = connection.info.get(MONITORED, frozenset())
    return schema in monitored


def as_seen(connection: Connection, sql: str, schema: str) -> str:
    """Return a query on a schema's tables as a connection reads them."""
    return sql.replace(f"{schema}.", f"{view_schema(schema)}.") if reads_views(connection, schema) else sql


def map_schemas(connection: Connection, schemas: Mapping[str | None, str]) -> dict[str | None, str]:
    """Return where a connection reads the tables of schemas, by the names that queries have for these."""
    return {
        name: view_schema(schema) if reads_views(connection, schema) else schema for name, schema in schemas.items()
    }
