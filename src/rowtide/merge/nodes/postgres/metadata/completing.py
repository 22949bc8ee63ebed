"""Metadata of a PostgreSQL node that another build created: what this build has beside it is added.

A comment on the schema says which form the metadata have. It is read with the first query that is made in any case, so
that a node which is complete costs no round trip.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import TypeAlias

from sqlalchemy import Connection, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from rowtide.databases.postgres.alterations import execute_all
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.merge.articles import Article
from rowtide.merge.catalogue import list_articles, list_publications
from rowtide.merge.definitions import SCHEMA, metadata, publications, replinfo
from rowtide.merge.definitions import complete as add_missing
from rowtide.merge.documented.names import RENAMED, view_names
from rowtide.merge.nodes.postgres.metadata import system_tables
from rowtide.merge.nodes.postgres.metadata.documented_tables import drop_functions, members_statement, view_statements

FORM = f"select obj_description(to_regnamespace('{SCHEMA}')::oid, 'pg_namespace') as form"
"""The query of the form of a node's metadata; null without metadata, and of the earliest builds' nodes."""
_MADE = " or ".join(
    f"to_regclass({quote_literal(quote_qualified(SCHEMA, made.name))}) is not null" for made in (replinfo, publications)
)
"""One of them may have been dropped since: then a query of it says so."""
STATE = f"select {_MADE}, ({FORM})"
"""The query of whether a node has metadata, and of their form."""
_LOCK = int.from_bytes(b"rtform")
_RIGHTS = "42501"
_READ_ONLY = "25006"
_FUNCTIONS = "functions of triggers 3"
"""The form of the functions of the tables' triggers: a node with another one gets this build's."""
OUTDATED = (_RIGHTS, _READ_ONLY)
"""SQLSTATEs of a role or a server that may not complete a node."""


@cache
def form() -> str:
    """Return the form that this build's metadata have."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    tables = [str(CreateTable(table).compile(dialect=dialect)) for table in metadata.sorted_tables]
    raw = [f"{table} {columns}" for table, columns in system_tables.COLUMN_DEFINITIONS.items()]
    raw += [system_tables.GENERATIONS_INDEX, system_tables.LOG_INDEX, _FUNCTIONS]
    return f"rowtide merge {sha256(chr(10).join([*tables, *raw, *view_statements()]).encode()).hexdigest()[:16]}"


Placing: TypeAlias = Callable[[tuple[Article, ...]], tuple[Article, ...]]
"""Returns articles with the places of their tables."""


def complete(connection: Connection, placing: Placing) -> None:
    """Give a node's metadata this build's form, in the caller's transaction. Idempotent."""
    connection.execute(text(f"select pg_advisory_xact_lock({_LOCK})"))
    present = _present_columns(connection)
    views = sorted(name for name, kind in present if kind == "v" and name in view_names())
    if views:
        connection.execute(text(f"drop view {', '.join(quote_qualified(SCHEMA, name) for name in views)}"))
    for old in sorted(name for name, kind in present if kind == "r" and name in RENAMED):
        connection.execute(text(f"alter table {quote_qualified(SCHEMA, old)} rename to {quote(RENAMED[old])}"))
    system_tables.create(connection)
    _add_columns(connection)
    execute_all(connection, drop_functions())
    renew_members(connection, placing)
    execute_all(connection, view_statements())
    connection.execute(text(f"comment on schema {SCHEMA} is {quote_literal(form())}"))


def renew_members(connection: Connection, placing: Placing) -> None:
    """Make the function that evaluates filters for the documented tables, in the caller's transaction."""
    published: dict[str, tuple[Article, ...]] = {
        publication.pubid: placing(list_articles(connection, publication.pubid))
        for publication in list_publications(connection)
    }
    execute_all(connection, [members_statement(published)])


def _present_columns(connection: Connection) -> dict[tuple[str, str], set[str]]:
    """Return the columns of the schema's tables and views, by their names and kinds."""
    listed = text(
        "select relname, relkind, array_agg(attname::text) from pg_class join pg_attribute on attrelid = pg_class.oid "
        "and attnum > 0 and not attisdropped where relnamespace = to_regnamespace(:schema) and relkind in ('r', 'v') "
        "group by 1, 2"
    )
    return {(name, kind): set(columns) for name, kind, columns in connection.execute(listed, {"schema": SCHEMA})}


def _add_columns(connection: Connection) -> None:
    present = _present_columns(connection)
    known = {name: columns for (name, kind), columns in present.items() if kind == "r"}
    execute_all(connection, add_missing(known, connection.dialect, SCHEMA))
    for table, definitions in system_tables.COLUMN_DEFINITIONS.items():
        for definition in definitions:
            if definition.partition(" ")[0] not in known[table]:
                connection.execute(text(f"alter table {quote_qualified(SCHEMA, table)} add column {definition}"))
