"""The articles' tables at a PostgreSQL subscriber: what they need, created, filled, with their sequences.

Unique constraints and foreign keys hold in every state that the publisher committed, but not while rows are copied
chunk by chunk. They are added when the copy is consistent. Foreign keys get no actions, because the effects of an
action at the publisher are in its log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.catalogue import COLUMN_SEQUENCE
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.databases.postgres.session_settings import REFUSE_VIEWS
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.snapshot.table_details import ForeignKey, TableDetails
from rowtide.replication.subscription_settings import IfExists
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.subscriber_kind import PublishedSequence, SyncedSequence


def create_table(article: Article, details: TableDetails) -> str:
    """Return the statement that creates an article's table with its key, without other constraints."""
    definitions = [(column.number, _stored(article, column.name, details)) for column in article.columns]
    if article.has_all_columns:
        definitions += [
            (
                column.number,
                f"{quote(column.name)} {column.type_text} generated always as ({column.expression}) stored",
            )
            for column in details.generated
        ]
    lines = [text for _, text in sorted(definitions)]
    if article.key_columns:
        lines.append(f"primary key ({_names(column.name for column in article.key_columns)})")
    return f"create table {_table(article)} (\n    " + ",\n    ".join(lines) + "\n)"


def clear_tables(articles: Sequence[Article], if_exists: IfExists, *, are_referenced: bool) -> list[str]:
    """Return the statements that empty or drop existing tables of one writer, which may reference each other.

    Those that others reference cannot be truncated, whether or not that is enforced.
    """
    tables = ", ".join(map(_table, articles))
    match if_exists:
        case IfExists.TRUNCATE if articles and not are_referenced:
            return [f"truncate {tables}"]
        case IfExists.DELETE | IfExists.TRUNCATE:
            return [f"delete from {_table(article)}" for article in articles]
        case IfExists.DROP:
            return [f"drop table {tables}"] if articles else []
        case _:
            return []


def constrain(
    details: Sequence[tuple[Article, TableDetails]], kept: Collection[Article] = ()
) -> list[tuple[Article, str]]:
    """Return the statements that add the tables' constraints, unique ones first: foreign keys may reference them.

    A foreign key is omitted unless all of its rows, and all that they reference, are published. Tables that are kept
    have their own.
    """
    by_table = {article.source_id: (article, found) for article, found in details}
    made = [(article, found) for article, found in details if article not in kept]
    return [
        *((article, statement) for article, found in made for statement in _unique(article, found)),
        *((article, statement) for article, found in made for _, statement in _foreign_keys(article, found, by_table)),
    ]


def find_joining_keys(
    joining: tuple[Article, TableDetails], others: Sequence[tuple[Article, TableDetails]]
) -> Iterator[tuple[Article, ForeignKey, str]]:
    """Yield the foreign keys between a table and others, with the statements that add them."""
    article, _ = joining
    by_table = {known.source_id: (known, found) for known, found in (joining, *others)}
    for known, found in by_table.values():
        for key, statement in _foreign_keys(known, found, by_table):
            if (known is article) is not (key.referenced_id == article.source_id):
                yield known, key, statement


def _stored(article: Article, name: str, details: TableDetails) -> str:
    column = next(column for column in article.columns if column.name == name)
    collation = f" collate {details.collations[name]}" if name in details.collations else ""
    return f"{quote(name)} {column.type_text}{collation}{'' if column.is_nullable else ' not null'}"


def _unique(article: Article, details: TableDetails) -> Iterator[str]:
    published = {column.name for column in article.columns}
    for constraint in details.unique:
        if published.issuperset(constraint.columns):
            yield f"alter table {_table(article)} add constraint {quote(constraint.name)} {constraint.definition}"


def _foreign_keys(
    article: Article, details: TableDetails, by_table: dict[int, tuple[Article, TableDetails]]
) -> Iterator[tuple[ForeignKey, str]]:
    published = {column.name for column in article.columns}
    for key in details.foreign_keys:
        if key.referenced_id not in by_table or not published.issuperset(key.columns):
            continue
        referenced, found = by_table[key.referenced_id]
        if not _can_be_referenced(referenced, found, set(key.referenced_columns)):
            continue
        # Deferred: a batch holds several of the publisher's transactions, each of which may have deferred its own.
        statement = (
            f"alter table {_table(article)} add constraint {quote(key.name)} foreign key ({_names(key.columns)}) "
            f"references {_table(referenced)} ({_names(key.referenced_columns)}) deferrable initially deferred"
        )
        yield key, statement


def _can_be_referenced(article: Article, details: TableDetails, columns: set[str]) -> bool:
    """Return whether the subscriber has all rows of an article, with a unique key of these columns."""
    if article.filter_clause is not None or article.insert.call_format is CallFormat.NONE:
        return False
    published = {column.name for column in article.columns}
    known = [{column.name for column in article.key_columns}, *(set(unique.columns) for unique in details.unique)]
    return published.issuperset(columns) and columns in known


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote, names))


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)


def move(url: str, published: Sequence[PublishedSequence]) -> tuple[SyncedSequence, ...]:
    """Move the sequences of a subscriber's columns, none of them back; return those that were moved."""
    with connect(url, application_name="rowtide subscription") as connection, connection.transaction(), translated():
        # The owner of a sequence could put a view in its place.
        connection.execute(REFUSE_VIEWS)
        moved = (_move(connection, url, one) for one in published)
        return tuple(one for one in moved if one is not None)


def _move(connection: psycopg.Connection[Any], url: str, published: PublishedSequence) -> SyncedSequence | None:
    table = quote_qualified(published.schema, published.table)
    row = connection.execute(sql.SQL(_SEQUENCE), {"table": table, "column": published.column}).fetchone()
    if row is None or row[0] is None:
        return None
    # Until the end of the transaction nobody else takes a value from it.
    found = connection.execute(sql.SQL(f"select last_value, is_called from {row[0]}")).fetchone()
    assert found is not None
    before = _next(found[0], published.increment, is_called=found[1])
    now = _next(published.last_value, published.increment, is_called=published.is_called)
    if (now - before) * published.increment <= 0:
        return None
    connection.execute("select setval(%s, %s, %s)", (row[0], published.last_value, published.is_called))
    return SyncedSequence(url, f"{published.schema}.{published.table}", published.column, before, now)


def _next(last_value: int, increment: int, *, is_called: bool) -> int:
    """Return the value that a sequence gives next."""
    return last_value + increment * is_called


_SEQUENCE = COLUMN_SEQUENCE.format(table="%(table)s", column="%(column)s")
