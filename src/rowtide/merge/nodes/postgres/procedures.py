"""Functions of a PostgreSQL hub that resolve conflicts (SQL Server: the stored procedure resolver).

`function(tableowner text, tablename text, rowguid uuid, subscriber text, publisher_row T, subscriber_row T) returns T`,
where T is the table's row type. It runs in the agent's transaction, with the rights of the role that runs the
table's code (`execution`): the agent's role, or the table's owner where that is not trusted. A function of a further
role is used only if it is `security definer`. It is given both rows, where SQL Server's procedure reads the
subscriber's by a linked server; of SQL Server's parameters `log_conflict` is missing: a conflict is always recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.databases.postgres.functions import OWN_PATH
from rowtide.databases.postgres.owner_functions import functions_path
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_literal
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.errors.nodes import HandlerFailed
from rowtide.merge.errors.publishing import ResolverRefused
from rowtide.merge.nodes.postgres.execution import Execution, as_block
from rowtide.merge.nodes.postgres.metadata.row_metadata import sent, table_of, uuid_array
from rowtide.merge.nodes.postgres.sendable_texts import array_of
from rowtide.merge.nodes.postgres.stored_tables import StoredColumn
from rowtide.merge.nodes.untyped_values import as_stored_by_server
from rowtide.merge.versions.changes import Row

_OF_OTHERS = ("40001", "40P01", "55P03", "57014")
"""SQLSTATEs that are not about the function: conflicts with other sessions, and cancelled statements."""


def require_procedure(session: BatchingConnection, article: Article, execution: Execution) -> None:
    """Raise `ResolverRefused` unless the function that an article's resolver names is there, and fits its table."""
    try:
        with session.transaction(force_rollback=True):
            found = session.execute(sql.SQL(_found(article))).fetchone()
    except psycopg.Error as error:
        raise ResolverRefused(article.resolver, article.name, error.diag.message_primary or str(error)) from error
    if found is None or found[0] is None:
        raise ResolverRefused(article.resolver, article.name, f"there is no function {_signature(article)}")
    if not _is_trusted(found, execution):
        reason = f"the function belongs to {found[3]}: give it to the role, or to the table's owner"
        raise ResolverRefused(article.resolver, article.name, reason)
    if not found[1]:
        raise ResolverRefused(article.resolver, article.name, f"the function does not return {table_of(article)}")


def ask_procedure(
    session: BatchingConnection,
    article: Article,
    columns: Sequence[StoredColumn],
    subscriber: str,
    pairs: Sequence[tuple[str, Row]],
    execution: Execution,
) -> list[Row | None]:
    """Return the function's row for each of the rows, given with the subscriber's version; None where it is NULL.

    In two round trips. Raises `HandlerFailed`.
    """
    (found,), names = session.read((_found(article), None), (_COLUMNS, [table_of(article)]), texts=True)
    if found[0] is None:
        raise HandlerFailed(article.resolver, _signature(article), article.name, "it is not there")
    if not _is_trusted(found, execution):
        reason = f"the function belongs to {found[3]}"
        raise HandlerFailed(article.resolver, _signature(article), article.name, reason)
    query = _question(article, str(found[0]), columns, [name for (name,) in names])
    rows = [as_stored_by_server(article, row) for _, row in pairs]
    values = [array_of(row[index] for row in rows) for index in range(len(columns))]
    rowguids = uuid_array([rowguid for rowguid, _ in pairs])
    named = [article.schema or "public", article.table, subscriber]
    try:
        (answers,) = _ask(session, query, [*named, rowguids, *values], columns, execution)
    except psycopg.Error as error:
        if error.sqlstate is None or error.sqlstate in _OF_OTHERS:
            raise
        reason = error.diag.message_primary or str(error)
        raise HandlerFailed(article.resolver, str(found[0]), article.name, reason) from error
    answered = {int(place): sent(article, row) for place, is_null, *row in answers if is_null == "f"}
    return [answered.get(index) for index in range(1, 1 + len(pairs))]


def _ask(
    session: BatchingConnection,
    query: str,
    parameters: Sequence[str],
    columns: Sequence[StoredColumn],
    execution: Execution,
) -> list[list[tuple[Any, ...]]]:
    """Return the rows of the question; what the function did to the session's settings is undone."""
    if execution.owner is None:
        before, after = functions_path(), [OWN_PATH]
        for each in before:
            session.put(each)
        answers = session.read((query, parameters), *((each, None) for each in after), texts=True)
        return answers[:1]
    parts = [part.replace("%%", "%") for part in query.split("%s")]
    written = "".join(part + value for part, value in zip(parts, [*map(quote_literal, parameters), ""], strict=True))
    types = {"place": "bigint", "is_null": "boolean"}
    types |= {f"v{index}": column.base_type for index, column in enumerate(columns)}
    asked = f"select q.* from {execution.rows(written, types)}".replace("%", "%%")
    answers = session.read((asked, []), (as_block(execution.after), None), texts=True)
    return answers[:1]


def _is_trusted(found: Sequence[Any], execution: Execution) -> bool:
    """Whether a function may run: its author gains no rights.

    In the session itself even one that is `security definer` could declare a cursor that is read as the session.
    """
    _, _, is_of_session, author, is_definer, *_ = found
    if is_of_session in (True, "t"):
        return True
    return execution.owner is not None and (execution.owner.name == author or is_definer in (True, "t"))


def _signature(article: Article) -> str:
    table = table_of(article)
    return f"{article.procedure}(text, text, uuid, text, {table}, {table})"


def _found(article: Article) -> str:
    """Return the query of the function: its name as SQL, and whether it returns the table's row type."""
    return (
        "select p.oid::regproc::text, p.prorettype = r.reltype and not p.proretset, "
        "o.rolname = current_user or o.rolsuper, o.rolname::text, p.prosecdef "
        f"from (select to_regprocedure({quote_literal(_signature(article))}) as oid) f "
        "left join pg_proc p on p.oid = f.oid left join pg_roles o on o.oid = p.proowner "
        f"left join pg_class r on r.oid = to_regclass({quote_literal(table_of(article))})"
    ).replace("%", "%%")


def _question(article: Article, function: str, columns: Sequence[StoredColumn], names: Sequence[str]) -> str:
    """Return the query that asks the function; columns that are not published have the publisher's values."""
    values = {column.name: column.parse(f"s.v{index}") for index, column in enumerate(columns)}
    row = ", ".join(values.get(name, f"h.{quote(name)}") for name in names)
    answered = ", ".join(f"t.{quote(column.name)}" for column in article.columns)
    listed = ", ".join(["rowguid", *(f"v{index}" for index in range(len(columns)))])
    arrays = ", ".join(
        [f"pg_catalog.unnest({_MARK}::uuid[])", *(f"pg_catalog.unnest({_MARK}::text[])" for _ in columns)]
    )
    table = table_of(article)
    # The key of a row is never null.
    text = (
        f"select s.place, t.{quote(article.key_columns[0].name)} is null, {answered} "
        f"from (select {_MARK}::text as owner, {_MARK}::text as name, {_MARK}::text as subscriber) n, "
        f"rows from ({arrays}) with ordinality s ({listed}, place) "
        f"join {table} h on h.{ROWGUID} {EQUALS} s.rowguid "
        f"cross join lateral {function}(n.owner, n.name, h.{ROWGUID}, n.subscriber, h, row({row})::{table}) t "
        "order by s.place"
    )
    return text.replace("%", "%%").replace(_MARK, "%s")


_MARK = "\1"
"""Stands for a parameter while what names have of % is doubled."""
_COLUMNS = """
select attname::text from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
"""
