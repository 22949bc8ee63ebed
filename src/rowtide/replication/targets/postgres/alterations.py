"""A schema change of an article at a PostgreSQL subscriber, as statements. Pure.

Columns get no default there: their values come from the publisher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import assert_never

from rowtide.databases.postgres.locks import LOCK_TIMEOUT_S
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.replication.articles import Article, PublishedColumn, encode_article
from rowtide.replication.schema_changes import (
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    Followed,
    NullsChanged,
    SchemaChange,
    TableRenamed,
)
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls import array_procedures, procedures

_KINDS = (procedures, array_procedures)


def within_batch(statements: Iterable[str]) -> Sequence[str]:
    """Return statements that alter tables as they are run in a batch, between its calls."""
    return (
        # The server alters no table with checks that wait.
        "set constraints all immediate",
        # Readers of the table would wait behind this session for as long as it waits.
        f"set local lock_timeout = '{LOCK_TIMEOUT_S}s'",
        *statements,
        "set local lock_timeout = 0",
        "set constraints all deferred",
    )


def alter(table: tuple[str, str], change: SchemaChange) -> Iterator[str]:
    """Yield the statements that make a change in a table, given by schema and name."""
    altering = f"alter table {quote_qualified(*table)}"
    match change:
        case TableRenamed(schema, name):
            if schema != table[0]:
                yield f"create schema if not exists {quote(schema)}"
                yield f"{altering} set schema {quote(schema)}"
            if name != table[1]:
                yield f"alter table {quote_qualified(schema, table[1])} rename to {quote(name)}"
        case ColumnAdded(column, value, collation):
            yield f"{altering} add column if not exists {_definition(column, collation)}{_default(column, value)}"
            if value is not None:
                yield f"{altering} alter column {quote(column.name)} drop default"
        case ColumnDropped(column):
            yield f"{altering} drop column if exists {quote(column.name)}"
        case ColumnRenamed(column, name):
            yield f"{altering} rename column {quote(column.name)} to {quote(name)}"
        case ColumnRetyped(column, collation):
            name = quote(column.name)
            yield f"{altering} alter column {name} type {_type(column, collation)} using {name}::{column.type_text}"
        case NullsChanged(column):
            verb = "drop" if column.is_nullable else "set"
            yield f"{altering} alter column {quote(column.name)} {verb} not null"
        case _:
            assert_never(change)


def table_after(table: tuple[str, str], change: SchemaChange) -> tuple[str, str]:
    """Return a table's schema and name after a change."""
    return (change.schema, change.table) if isinstance(change, TableRenamed) else table


def renew(followed: Followed, guid: str) -> Iterator[str]:
    """Yield the statements that renew an article's procedures after its changes, and record it for a subscription."""
    article = followed.article
    if followed.renews_calls:
        yield from renew_procedures(article)
    yield record(article, guid)


def record(article: Article, guid: str) -> str:
    """Return the statement that records an article, as a subscription has it."""
    values = (guid, article.article_id, encode_article(article))
    return progress.RECORD_ARTICLE.format(*map(quote_literal, values))


def run_script(script: str) -> str:
    """Return one statement that runs a script of several; the server refuses those that end the transaction."""
    return f"do {quote_literal(f'begin execute {quote_literal(script)}; end')}"


def renew_procedures(article: Article) -> Iterator[str]:
    """Yield the statements that replace an article's generated procedures, whose parameters are its columns."""
    for operation, kind in product(procedures.OPERATIONS, _KINDS):
        yield f"drop procedure if exists {quote_qualified(procedures.SCHEMA, kind.name_of(article, operation))}"
        yield from kind.creations(article, operation)


def _definition(column: PublishedColumn, collation: str | None) -> str:
    return f"{quote(column.name)} {_type(column, collation)}{'' if column.is_nullable else ' not null'}"


def _type(column: PublishedColumn, collation: str | None) -> str:
    return column.type_text if collation is None else f"{column.type_text} collate {collation}"


def _default(column: PublishedColumn, value: str | None) -> str:
    return "" if value is None else f" default {quote_literal(value)}::{column.type_text}"
