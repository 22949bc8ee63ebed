"""Views, materialized views, functions and procedures of a PostgreSQL subscriber, made from the publisher's text."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.replication.articles.types import ArticleType
from rowtide.replication.errors.subscribers import ScriptRefused
from rowtide.replication.snapshot.scripts import Script
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.schema.needed_objects import make_schema

_NOT_REPLACEABLE = ("42P16", "42P13", "42809")
"""Other columns of a view, another result of a function, or an object of another kind."""


def make_scripted(url: str, scripts: Sequence[Script]) -> None:
    """Create objects at a subscriber or bring them up to date, and fill materialized views, in one transaction.

    Raises `ScriptRefused`.
    """
    if not scripts:
        return
    with connect(url, application_name="rowtide subscription") as connection, connection.transaction():
        make(connection, scripts)
        for script in scripts:
            _run(connection, script, *script.filling)


def make(connection: psycopg.Connection, scripts: Sequence[Script]) -> None:
    """Create objects, or replace those that are there, in the caller's transaction. Raises `ScriptRefused`."""
    with translated():
        # The bodies of functions may name what comes later.
        connection.execute("set local check_function_bodies = off")
    for script in scripts:
        make_schema(connection, script.schema)
        if script.type is ArticleType.MATERIALIZED_VIEW:
            _run(connection, script, script.dropping)
        try:
            with connection.transaction():
                _run(connection, script, *script.creating)
        except ScriptRefused as refused:
            if refused.sqlstate not in _NOT_REPLACEABLE:
                raise
            _run(connection, script, script.dropping, *script.creating)


def drop(connection: psycopg.Connection, scripts: Sequence[Script]) -> None:
    """Drop objects where they are there, in the caller's transaction. Raises `ScriptRefused`."""
    for script in reversed(scripts):
        _run(connection, script, script.dropping)


def list_present(connection: psycopg.Connection, scripts: Sequence[Script]) -> list[Script]:
    """Return the scripts whose objects are there."""
    return [script for script in scripts if _is_there(connection, script)]


def _is_there(connection: psycopg.Connection, script: Script) -> bool:
    is_function = script.type in (ArticleType.FUNCTION, ArticleType.PROCEDURE)
    query = "select to_regprocedure(%s) is not null" if is_function else "select to_regclass(%s) is not null"
    with translated():
        return connection.execute(query, [script.name]).fetchone() == (True,)


def _run(connection: psycopg.Connection, script: Script, *statements: str) -> None:
    try:
        with translated():
            for statement in statements:
                connection.execute(sql.SQL(statement))
    except UnexpectedSqlError as error:
        kind = script.type.value.replace("-", " ")
        raise ScriptRefused(kind, script.name, error.sqlstate, error.reason) from error
