"""What the log says besides rows: alterations of published tables, gaps, ends of tables, and tokens. Pure.

Gaps block delivery; a published table that ends does not block the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rowtide.core.lsn import Position
from rowtide.core.tables import ImageKind, TableShape
from rowtide.log.membership import ChangesOmitted, Disabled, Traced
from rowtide.log.store.state import LogGap, ManifestState, events_between, skipped_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.errors.delivery import (
    ArticleEnded,
    ArticleSuspended,
    PublishedTableDropped,
)


def find_gap(state: ManifestState, from_position: Position, to_position: Position) -> LogGap | None:
    """Return the first gap of a range, before which delivery stops; None if there is none."""
    return min(skipped_between(state, from_position, to_position), key=lambda gap: gap.after, default=None)


def find_difference(article: Article, shape: TableShape) -> str | None:
    """Describe what logged rows lack that an article needs, of a table that the catalogue no longer has.

    What is there is inferred as the log is read.
    """
    present = {column.name: column for column in shape.columns}
    for column in article.columns:
        now = present.get(column.name)
        if now is None:
            return f"column {column.name} is gone"
        if (now.type_code, now.type_modifier) != (column.type_code, column.type_modifier):
            return f"column {column.name} has another type"
    return None


def list_added(article: Article, shape: TableShape) -> Sequence[str]:
    """Return the columns of logged rows that an article of all columns does not know."""
    known = {*article.generated_columns, *(column.name for column in article.columns)}
    known |= {column.name for column in article.left_out}
    columns = (*shape.columns, *(shape.others or ())) if article.has_all_columns else ()
    return [column.name for column in columns if column.name not in known]


def find_lost_identity(article: Article, shape: TableShape) -> str | None:
    """Describe a replica identity that does not cover what an article's calls need: nulls would be in their place."""
    formats = {article.update.call_format, article.delete.call_format}
    if shape.identity is ImageKind.FULL or formats == {CallFormat.NONE}:
        return None
    if article.needs_whole_rows:
        return "its replica identity is no longer full"
    identity = {column.name for column in shape.columns if column.is_key}
    has_key = all(column.name in identity for column in article.key_columns)
    return None if has_key else "its replica identity no longer has the key"


def find_dropped(
    state: ManifestState, articles: Iterable[Article], from_position: Position, to_position: Position
) -> Iterator[ArticleEnded]:
    """Return the tables that end in a range: dropped at the publisher, or suspended after an omitted change."""
    tables = {article.article_id: article.qualified_name for article in articles}
    for event in events_between(state, from_position, to_position):
        match event:
            case Disabled(_, member_id) if member_id in tables:
                yield PublishedTableDropped(tables[member_id])
            case ChangesOmitted(lsn, member_id, reason, is_unclear) if member_id in tables and not is_unclear:
                yield ArticleSuspended(tables[member_id], str(lsn), reason)


def find_token(state: ManifestState, publication: str, from_position: Position, to_position: Position) -> Traced | None:
    """Return the first token of a publication in a range."""
    events = events_between(state, from_position, to_position)
    return next((event for event in events if isinstance(event, Traced) and event.publication == publication), None)
