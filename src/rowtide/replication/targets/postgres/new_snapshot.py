"""Prepare a PostgreSQL subscriber for a snapshot: empty tables, and the list of chunks to copy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from rowtide.copying.chunks import uncut
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles import schema_changes
from rowtide.replication.articles.articles import Article
from rowtide.replication.errors.delivery import CopyRefused
from rowtide.replication.errors.subscribing import SubscriberTableExists
from rowtide.replication.snapshot.objects import Script
from rowtide.replication.snapshot.table_details import TableDetails
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.subscription_settings import IfExists
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.restorations import PostgresRestoration
from rowtide.replication.targets.postgres.schema import needed_objects, tables
from rowtide.replication.targets.postgres.schema.alterations import alter, rename
from rowtide.replication.targets.postgres.schema.kept_tables import find_whole, require_fitting
from rowtide.replication.targets.postgres.schema.own_objects import list_references, release_references, switch_off
from rowtide.replication.targets.postgres.writing_rights import WrittenTables
from rowtide.replication.targets.subscriber_kind import NewSnapshot, NewSubscription

_Connection = psycopg.Connection[tuple[Any, ...]]


@frozen
class MadeTables:
    """Tables that are ready to be copied to.

    `constraints`, `filling` and `restorations` are run when they are copied; `whole` are copied in one chunk, by
    article id; `altered` are those whose tables were altered for it.
    """

    constraints: Sequence[tuple[Article, str]]
    filling: Sequence[str]
    restorations: Sequence[PostgresRestoration]
    whole: Set[str]
    altered: Sequence[Article]


def make_tables(
    connection: _Connection, new: NewSubscription, snapshot: NewSnapshot, subscriber: str, written: WrittenTables
) -> MadeTables:
    """Create the tables, or empty existing ones and switch off what may not hold during the copy.

    In the caller's transaction. Raises `SubscriberTableExists`, `SubscriberLacks`, `SubscriberTablesUnfit`,
    `SubscriberTableBusy`, `CopyRefused`, `ScriptRefused`.
    """
    _rename(connection, new)
    present = [article for article in new.articles if _exists(connection, article)]
    scripted = needed_objects.list_present(connection, snapshot.scripts)
    if (present or scripted) and snapshot.if_exists is IfExists.FAIL:
        raise SubscriberTableExists(
            ", ".join((*(article.qualified_name for article in present), *(script.name for script in scripted)))
        )
    kept = [] if snapshot.if_exists is IfExists.DROP else present
    pairs = list(zip(new.articles, snapshot.details, strict=True))
    made = [(article, details) for article, details in pairs if article not in kept]
    needed_objects.provide(connection, [*new.needs, *(need for _, details in made for need in details.needs)])
    if not new.altered:
        require_fitting(connection, kept, [*new.articles, *(new.beside or ())], new.constraints)
    restorations = switch_off(connection, kept, new.constraints, subscriber)
    if new.beside is not None and snapshot.if_exists is IfExists.DROP:
        restorations += release_references(connection, present, subscriber)
    if snapshot.if_exists is IfExists.DROP:
        needed_objects.drop(connection, snapshot.scripts)
    are_referenced = bool(list_references(connection, present))
    _clear(connection, present, snapshot.if_exists, written, are_referenced=are_referenced)
    altered = [_alter(connection, each, written) if each.article in kept else each for each in new.altered]
    for article, details in made:
        needed_objects.make_schema(connection, article.schema)
        _run(connection, article.qualified_name, tables.create_table(article, details))
    needed_objects.make(
        connection, [script for script in snapshot.scripts if not (kept and _is_filled(script, scripted))]
    )
    filling = [statement for script in snapshot.scripts for statement in script.filling]
    articles = [followed.article for followed in altered]
    return MadeTables(
        tables.constrain(pairs, kept), filling, restorations, find_whole(connection, kept, written), articles
    )


def _clear(
    connection: _Connection,
    present: Sequence[Article],
    if_exists: IfExists,
    written: WrittenTables,
    *,
    are_referenced: bool,
) -> None:
    """Empty tables with their owners' rights, or drop them, which runs no code of theirs."""
    by_writer: dict[str, list[Article]] = defaultdict(list)
    for article in present:
        by_writer["" if if_exists is IfExists.DROP else written.writer_of(article).executing].append(article)
    for articles in by_writer.values():
        for statement in tables.clear_tables(articles, if_exists, are_referenced=are_referenced):
            writing = statement if if_exists is IfExists.DROP else written.writer_of(articles[0]).executed(statement)
            _run(connection, ", ".join(article.qualified_name for article in articles), writing)
            written.pin()


def _is_filled(script: Script, present: Sequence[Script]) -> bool:
    """Whether a materialized view is there, on which others may depend."""
    return script in present and bool(script.filling)


def _rename(connection: _Connection, new: NewSubscription) -> None:
    """Give a table that is copied again the name that the published one has by now."""
    if new.renamed is None:
        return
    (schema, table), article = new.renamed
    if _find(connection, schema, table) and not _exists(connection, article):
        for statement in rename((schema, table), schema_changes.ArticleTableRenamed(article.schema, article.table)):
            _run(connection, article.qualified_name, statement)


def _alter(
    connection: _Connection, followed: schema_changes.Followed, written: WrittenTables
) -> schema_changes.Followed:
    """Bring an empty table, which has its name already, through the changes of the published one.

    Returns them without the dropping of columns that other objects use.
    """
    for change in followed.changes:
        try:
            with connection.transaction():
                _make(connection, followed.article, change, written)
        except CopyRefused as error:
            if not isinstance(change, schema_changes.ColumnDropped):
                raise
            followed = followed.keeping(change.column, error.reason)
            _make(
                connection,
                followed.article,
                schema_changes.NullsChanged(replace(change.column, is_nullable=True)),
                written,
            )
    return followed


def _make(
    connection: _Connection, article: Article, change: schema_changes.SchemaChange, written: WrittenTables
) -> None:
    if isinstance(change, schema_changes.ArticleTableRenamed):
        return
    for statement in alter((article.schema, article.table), change, written.writer_of(article)):
        _run(connection, article.qualified_name, statement)
        written.pin()


def record_snapshot(connection: _Connection, guid: str, snapshot: NewSnapshot, made: MadeTables) -> None:
    """Record the chunks to copy, and the statements to run afterwards, in the caller's transaction."""
    chunks = uncut(snapshot.chunks, made.whole)
    with translated():
        connection.execute(_BEGIN, [SnapshotStatus.COPYING, guid])
        statements = [(article.article_id, text) for article, text in made.constraints]
        _add_statements(connection, guid, [*statements, *((None, text) for text in made.filling)])
        _insert_all(
            connection,
            _ADD_CHUNK,
            ((guid, chunk.member_id, chunk.number, _array(chunk.low), _array(chunk.high)) for chunk in chunks),
        )


def renew_constraints(connection: _Connection, guid: str, details: Sequence[tuple[Article, TableDetails]]) -> None:
    """Record the constraints that tables have now, in the caller's transaction: they were altered since.

    Only of tables that get any: those that were there have their own.
    """
    with translated():
        found = connection.execute(sql.SQL(_CONSTRAINED), [guid]).fetchall()
        constrained = {article_id for (article_id,) in found}
        kept = [article for article, _ in details if article.article_id not in constrained]
        rest = connection.execute(sql.SQL(_FORGET_STATEMENTS), [guid]).fetchall()
        statements = [(article.article_id, text) for article, text in tables.constrain(details, kept)]
        _add_statements(connection, guid, [*statements, *((None, text) for _, text in sorted(rest))])


def _add_statements(connection: _Connection, guid: str, statements: Iterable[tuple[str | None, str]]) -> None:
    _insert_all(connection, _ADD_STATEMENT, ((guid, index, *known) for index, known in enumerate(statements)))


def _insert_all(connection: _Connection, statement: str, rows: Iterable[Sequence[object]]) -> None:
    connection.cursor().executemany(statement, list(rows))


def _array(key: Sequence[str] | None) -> list[str] | None:
    return None if key is None else list(key)


def _exists(connection: _Connection, article: Article) -> bool:
    return _find(connection, article.schema, article.table)


def _find(connection: _Connection, schema: str, table: str) -> bool:
    with translated():
        row = connection.execute("select to_regclass(%s)", [quote_qualified(schema, table)]).fetchone()
    return row is not None and row[0] is not None


def _run(connection: _Connection, table: str, statement: str) -> None:
    try:
        with translated():
            connection.execute(sql.SQL(statement))
    except UnexpectedSqlError as error:
        raise CopyRefused(table, error.sqlstate, error.reason) from error


_BEGIN = f'update {SCHEMA}."MSreplication_subscriptions" set snapshot_status = %s where subscription_guid = %s'
_STATEMENTS = f'{SCHEMA}."MSsnapshot_statements"'
_ADD_STATEMENT = f"insert into {_STATEMENTS} (subscription_guid, place, article_id, statement) values (%s, %s, %s, %s)"
_CONSTRAINED = f"select article_id from {_STATEMENTS} where subscription_guid = %s and article_id is not null"
_FORGET_STATEMENTS = f"""
with gone as (delete from {_STATEMENTS} where subscription_guid = %s returning place, article_id, statement)
select place, statement from gone where article_id is null
"""
_ADD_CHUNK = f"""
insert into {SCHEMA}."MSsnapshot_chunks" (subscription_guid, article_id, chunk, low, high) values (%s, %s, %s, %s, %s)
"""
