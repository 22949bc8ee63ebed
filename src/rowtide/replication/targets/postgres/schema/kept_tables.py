"""Tables that a PostgreSQL subscriber had before it subscribed: whether published rows fit, and how they are copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_BASE_TYPE_TEXT, COLUMN_TYPE_TEXT
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.values import can_hold
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.errors.subscribing import SubscriberTablesUnfit
from rowtide.replication.subscription_settings import Constraints
from rowtide.replication.targets.postgres.schema.own_objects import list_foreign_keys
from rowtide.replication.targets.postgres.writing_rights import WrittenTables


@frozen
class _Column:
    """A column of a subscriber's table; `is_filled`: a row that is inserted without it gets a value."""

    name: str
    value_type_text: str
    is_nullable: bool
    is_filled: bool
    is_generated: bool


def require_fitting(
    connection: psycopg.Connection,
    kept: Sequence[Article],
    articles: Sequence[Article],
    constraints: Constraints | None,
) -> None:
    """Raise `SubscriberTablesUnfit`, with everything in kept tables that published rows would not fit."""
    reasons = [f"{article.qualified_name}: {reason}" for article in kept for reason in _find_unfit(connection, article)]
    if constraints is not Constraints.NOT_FOR_REPLICATION:
        reasons += _find_dangling(connection, kept, articles)
    if reasons:
        raise SubscriberTablesUnfit("; ".join(reasons))


def find_whole(connection: psycopg.Connection, kept: Sequence[Article], written: WrittenTables) -> Set[str]:
    """Return, by article id, the kept tables that must be copied in one chunk.

    Those that are unique by more than their key: it holds in one snapshot, not between several. Those with rows: a
    copy that a truncate tears begins again with an empty table.
    """
    found = set()
    for article in kept:
        table = quote_qualified(article.schema, article.table)
        with translated():
            is_unique = connection.execute(sql.SQL(_UNIQUE_BESIDES_KEY), {"table": table}).fetchone()
        # It may be a view, whose functions are its owner's.
        has_rows = written.execute(article, f"select from {table} limit 1") > 0
        if is_unique is not None or has_rows:
            found.add(article.article_id)
    return found


def _find_unfit(connection: psycopg.Connection, article: Article) -> Iterator[str]:
    with translated():
        rows = connection.execute(sql.SQL(_COLUMNS), [quote_qualified(article.schema, article.table)]).fetchall()
    present = {column.name: column for column in (_Column(*row) for row in rows)}
    for column in article.columns:
        reason = _find_reason(column, present.pop(column.name, None))
        if reason is not None:
            yield f"column {column.name} {reason}"
    if article.insert.call_format is not CallFormat.NONE:
        for other in present.values():
            if not other.is_nullable and not other.is_filled:
                yield f"column {other.name} is not null, has no default and is not published"


def _find_reason(published: PublishedColumn, column: _Column | None) -> str | None:
    """Return why a column does not take what is published; None if it does."""
    if column is None:
        return f"({published.type_text}) is missing"
    if column.is_generated:
        return "is generated"
    if not can_hold(column.value_type_text, published.value_type_text):
        return f"is {column.value_type_text}, published as {published.type_text}"
    if published.is_nullable and not column.is_nullable:
        return "is not null, but published with nulls"
    return None


def _find_dangling(
    connection: psycopg.Connection, kept: Sequence[Article], articles: Sequence[Article]
) -> Iterator[str]:
    """Yield the foreign keys of kept tables whose rows reference nothing: that table is empty and not published."""
    filled = {article.qualified_name for article in articles if article.insert.call_format is not CallFormat.NONE}
    for key in list_foreign_keys(connection, kept):
        if not key.is_enforced or f"{key.referenced_schema}.{key.referenced_table}" in filled:
            continue
        referenced = quote_qualified(key.referenced_schema, key.referenced_table)
        with translated():
            is_empty = connection.execute(sql.SQL(f"select from {referenced} limit 1")).fetchone() is None
        if is_empty:
            yield f"foreign key {key.name} of {key.table} references {referenced}, which is empty and not published"


_COLUMNS = f"""
select a.attname::text, coalesce({COLUMN_BASE_TYPE_TEXT}, {COLUMN_TYPE_TEXT}), not a.attnotnull,
       a.atthasdef or a.attidentity <> '', a.attgenerated <> ''
from pg_attribute a where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

_UNIQUE_BESIDES_KEY = """
select from pg_index i
where i.indrelid = to_regclass(%(table)s) and (i.indisunique or i.indisexclusion) and not i.indisprimary limit 1
"""
