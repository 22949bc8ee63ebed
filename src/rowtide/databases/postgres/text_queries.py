"""Statements as text, run by psycopg alone: what is asked before the first row is read does without SQLAlchemy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import psycopg

Run: TypeAlias = Callable[..., Sequence[Any]]
"""Runs a statement with parameters `:name`, given by name; returns rows with their columns as attributes."""

_PARAMETER = re.compile(r"(?<!:):(\w+)")

HAS_TABLE = """
select exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = :schema and c.relname = :name and c.relkind in ('r', 'p', 'f', 'v', 'm')) as is_there
"""


def running(connection: psycopg.Connection) -> Run:
    """Return what runs statements on a connection."""
    from psycopg.rows import namedtuple_row

    def run(sql: str, **parameters: object) -> Sequence[Any]:
        statement = _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
        return connection.cursor(row_factory=namedtuple_row).execute(statement.encode(), parameters).fetchall()

    return run


def has_table(run: Run, schema: str, name: str) -> bool:
    """Return whether a table or view of exactly this name exists."""
    return bool(run(HAS_TABLE, schema=schema, name=name)[0].is_there)


def is_begun(run: Run, schema: str, name: str, *, made_with: str) -> bool:
    """Return whether a table of ours is there, or one that was made with it.

    If the first was dropped since, a query of it says so; without one it would seem that nothing was ever made.
    """
    return has_table(run, schema, name) or has_table(run, schema, made_with)
