"""What tables need of a PostgreSQL subscriber: schemas and types are created, all else that is missing is listed.

Creating a type runs no code and takes no privilege but that on its schema. Functions, and extensions, which bring some
and need files on the server, are the user's to create. Objects of schema-only articles, such as views, are
created here, too, from the publisher's text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.errors.subscribing import ScriptRefused, SubscriberLacks
from rowtide.replication.snapshot.objects import Need, NeedKind, Script
from rowtide.replication.targets.postgres.connecting import connect

_CREATED = (NeedKind.COLLATION, NeedKind.ENUM, NeedKind.DOMAIN, NeedKind.COMPOSITE, NeedKind.RANGE)


def provide(connection: psycopg.Connection, needs: Sequence[Need]) -> None:
    """Create the schemas, types and collations that the subscriber lacks, in the caller's transaction.

    Raises `SubscriberLacks`, with all that it must be given first.
    """
    missing = [need for need in dict.fromkeys(needs) if not _is_there(connection, need)]
    listed = [
        *(_describe(need) for need in missing if need.kind not in _CREATED or need.statement is None),
        *(reason for need in needs if need not in missing for reason in _find_missing_labels(connection, need)),
    ]
    if listed:
        raise SubscriberLacks("; ".join(dict.fromkeys(listed)))
    for need in missing:
        assert need.statement is not None
        make_schema(connection, need.schema)
        with translated():
            connection.execute(sql.SQL(need.statement))


def make_schema(connection: psycopg.Connection, schema: str) -> None:
    """Create a schema that does not exist; where it does, the role needs no right to create any."""
    with translated():
        found = connection.execute("select to_regnamespace(%s)", [quote(schema)]).fetchone()
        if found is None or found[0] is None:
            connection.execute(sql.SQL(f"create schema {quote(schema)}"))


def _is_there(connection: psycopg.Connection, need: Need) -> bool:
    query = _FINDING.get(need.kind, "select to_regtype(%s) is not null")
    with translated():
        row = connection.execute(query, [need.name]).fetchone()
    return row is not None and bool(row[0])


def _describe(need: Need) -> str:
    how = "" if need.statement is None else f" ({need.statement})"
    return f"{need.kind} {need.name}{how}"


def _find_missing_labels(connection: psycopg.Connection, need: Need) -> Iterator[str]:
    if need.kind is not NeedKind.ENUM:
        return
    with translated():
        rows = connection.execute(_LABELS, [need.name]).fetchall()
    present = [label for (label,) in rows]
    renamed = _find_renamed(present, need.labels)
    for label in need.labels:
        if label not in present:
            altering = (
                f"rename value {quote_literal(renamed[label])} to {quote_literal(label)}"
                if label in renamed
                else f"add value {quote_literal(label)}"
            )
            yield f"label {label} of enum {need.name} (alter type {need.name} {altering})"


def _find_renamed(present: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    """Return the labels that others have become, by the new ones.

    They were renamed if enums of one length differ only in labels that the other one lacks: added beside the former
    one, a label would be in another place of the order, and rows would keep the former one.
    """
    if len(present) != len(wanted):
        return {}
    differing = {new: old for old, new in zip(present, wanted, strict=True) if old != new}
    return {} if differing.keys() & {*present} or {*differing.values()} & {*wanted} else differing


_FINDING = {
    NeedKind.EXTENSION: "select exists (select from pg_extension where quote_ident(extname) = %s)",
    NeedKind.FUNCTION: "select to_regprocedure(%s) is not null",
    NeedKind.COLLATION: "select to_regcollation(%s) is not null",
}
_LABELS = "select enumlabel::text from pg_enum where enumtypid = to_regtype(%s) order by enumsortorder"


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
    return [script for script in scripts if _has_scripted(connection, script)]


def _has_scripted(connection: psycopg.Connection, script: Script) -> bool:
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
