"""Nulls that a published table allows since, without an event trigger's report, and its subscriber's table does not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import Engine

from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.schema_changes import Followed, NullsChanged
from rowtide.replication.errors.delivery import CommandRefused

_NULL_REFUSED = ("23502", "SQLITE_CONSTRAINT_NOTNULL")


def find_allowed(engine: Engine, articles: Iterable[Article], error: CommandRefused) -> Followed | None:
    """Return what lets a subscriber take nulls that it has refused; None unless its publisher's table has them."""
    article = next((one for one in articles if f"{one.schema}.{one.table}" == error.table), None)
    if article is None or error.sqlstate not in _NULL_REFUSED:
        return None
    with translated(), engine.connect() as connection:
        table = find_by_id(connection, article.source_id)
    nullable = {column.number for column in table.columns if column.is_nullable} if table is not None else set()
    columns = tuple(
        replace(column, is_nullable=column.is_nullable or column.number in nullable) for column in article.columns
    )
    changed = (NullsChanged(now) for now, known in zip(columns, article.columns, strict=True) if now != known)
    followed = Followed(article, replace(article, columns=columns), tuple(changed))
    return followed if followed.changes else None
