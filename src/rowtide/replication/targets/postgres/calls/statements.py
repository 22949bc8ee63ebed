"""The statement for an operation at a PostgreSQL subscriber: a call, or a plain statement with the same check."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.operations import Operation
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.targets.postgres.calls import procedures


def statement(article: Article, operation: Operation) -> str:
    """Return the statement for an operation; its parameters are the call format's. A truncate has none."""
    if operation is Operation.TRUNCATE:
        return f'select {procedures.SCHEMA}."sp_MStruncate"({quote_literal(_table(article))})'
    if article.command(operation).call_format is not CallFormat.SQL:
        return procedures.call(article, operation)
    return {Operation.INSERT: _insert, Operation.UPDATE: _update, Operation.DELETE: _delete}[operation](article)


def _insert(article: Article) -> str:
    names = ", ".join(quote(column.name) for column in article.columns)
    values = ", ".join(_parameter(column, place) for place, column in enumerate(article.columns, 1))
    return f"insert into {_table(article)} ({names}) overriding system value values ({values})"


def _update(article: Article) -> str:
    columns = enumerate(article.columns, 1)
    values = ", ".join(f"{quote(column.name)} = {_parameter(column, place)}" for place, column in columns)
    key = _old_key(article, len(article.columns) + 1)
    return _checked(article, Operation.UPDATE, f"update {_table(article)} set {values}", key)


def _delete(article: Article) -> str:
    return _checked(article, Operation.DELETE, f"delete from {_table(article)}", _old_key(article, 1))


def _checked(article: Article, operation: Operation, change: str, key: Sequence[str]) -> str:
    """Return a statement that itself raises 20598 if it found no row: in a pipeline, its row count arrives too late."""
    pairs = zip(article.key_columns, key, strict=True)
    has_key = " and ".join(f"{quote(column.name)} = {value}" for column, value in pairs)
    raising = procedures.raising(article, operation, key)
    return (
        f"with changed as ({change} where {has_key} returning 1) "
        f"select {raising} where not exists (select from changed)"
    )


def _old_key(article: Article, first: int) -> Sequence[str]:
    """Return the parameters with the key before the change."""
    return [_parameter(column, place) for place, column in enumerate(article.key_columns, first)]


def _parameter(column: PublishedColumn, place: int) -> str:
    return f"${place}::{column.type_text}"


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)
