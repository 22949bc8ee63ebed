"""The views and functions of a PostgreSQL node, which are this build's: those of another one are replaced.

A comment on the schema says which form they have. It is read with the format of the metadata, with the first query that
is made in any case: a node which is complete costs no round trip.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import TypeAlias

from sqlalchemy import Connection, text

from rowtide.core.formats import Format
from rowtide.databases.postgres.alterations import execute_all
from rowtide.databases.postgres.formats import format_creation, recorded_definition
from rowtide.databases.postgres.quoting import quote_literal, quote_qualified
from rowtide.merge.articles import Article
from rowtide.merge.catalogue import list_articles, list_publications
from rowtide.merge.definitions import SCHEMA, publications, replinfo
from rowtide.merge.documented.names import view_names
from rowtide.merge.nodes.postgres.metadata import system_tables
from rowtide.merge.nodes.postgres.metadata.documented_tables import drop_functions, members_statement, view_statements

FORMAT = Format("merge metadata of the database")
_WRITTEN = (
    f"obj_description(to_regnamespace('{SCHEMA}')::oid, 'pg_namespace') as form, current_database()::text as place, "
    f"{recorded_definition(SCHEMA)} as definition"
)
FORM = f"select {_WRITTEN}"
"""The query of the form of a node's views and functions, of the database's name, and of the metadata's format."""
_MADE = " or ".join(
    f"to_regclass({quote_literal(quote_qualified(SCHEMA, made.name))}) is not null" for made in (replinfo, publications)
)
"""One of them may have been dropped since: then a query of it says so."""
STATE = f"select {_MADE}, {_WRITTEN}"
"""The query of whether a node has metadata, and of what `FORM` asks."""
_LOCK = int.from_bytes(b"rtform")
_RIGHTS = "42501"
_READ_ONLY = "25006"
_FUNCTIONS = "functions of triggers 3"
"""The form of the functions of the tables' triggers: a node with another one gets this build's."""
OUTDATED = (_RIGHTS, _READ_ONLY)
"""SQLSTATEs of a role or a server that may not complete a node."""


@cache
def form() -> str:
    """Return the form that this build's views and functions have."""
    return f"rowtide merge {sha256(chr(10).join([_FUNCTIONS, *view_statements()]).encode()).hexdigest()[:16]}"


Placing: TypeAlias = Callable[[tuple[Article, ...]], tuple[Article, ...]]
"""Returns articles with the places of their tables."""


def create(connection: Connection, placing: Placing) -> None:
    """Create a node's metadata, in the caller's transaction. Idempotent."""
    system_tables.create(connection)
    execute_all(connection, [format_creation(SCHEMA, FORMAT)])
    renew(connection, placing)


def renew(connection: Connection, placing: Placing) -> None:
    """Give a node this build's views and functions, in the caller's transaction. Idempotent."""
    connection.execute(text(f"select pg_advisory_xact_lock({_LOCK})"))
    views = sorted(set(view_names()) & set(connection.execute(text(_VIEWS), {"schema": SCHEMA}).scalars()))
    if views:
        connection.execute(text(f"drop view {', '.join(quote_qualified(SCHEMA, name) for name in views)}"))
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


_VIEWS = "select relname::text from pg_class where relnamespace = to_regnamespace(:schema) and relkind = 'v'"
