"""What the log's events mean for a subscription: what blocks delivery, which tables end, where tokens are. Pure.

Schema changes and gaps block delivery; a published table that ends does not block the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import ImageKind, TableShape
from rowtide.log.alterations import Alteration
from rowtide.log.membership import Altered, Disabled, Event, LeftOut, Reshaped, Traced
from rowtide.log.state import ManifestState, events_between, skipped_between
from rowtide.replication.articles import Article
from rowtide.replication.call_formats import CallFormat
from rowtide.replication.errors import ArticleEnded, ArticleSuspended, ChangesLost, PublishedTableDropped, SchemaChanged

Blocker = tuple[CommitLsn, SchemaChanged | ChangesLost]


def find_blocker(
    state: ManifestState, articles: Iterable[Article], from_position: Position, to_position: Position
) -> Blocker | None:
    """Return the first schema change or gap of a range, before which delivery stops; None if there is none."""
    found = [
        *_gaps(state, from_position, to_position),
        *_schema_changes(state, list(articles), from_position, to_position),
    ]
    return min(found, key=lambda blocker: blocker[0], default=None)


def _gaps(state: ManifestState, from_position: Position, to_position: Position) -> Iterator[Blocker]:
    for gap in skipped_between(state, from_position, to_position):
        yield CommitLsn(gap.after.value), ChangesLost(str(CommitLsn(gap.after.value)), gap.reason)


def _schema_changes(
    state: ManifestState, articles: list[Article], from_position: Position, to_position: Position
) -> Iterator[Blocker]:
    for event in events_between(state, from_position, to_position):
        for article in articles:
            change = _find_change(state, article, event)
            if change is not None:
                lsn = event.commit_lsn
                yield lsn, SchemaChanged(f"{article.schema}.{article.table}", str(lsn), change)


def _find_change(state: ManifestState, article: Article, event: Event) -> str | None:
    match event:
        case Altered() if event.alteration.source_id == article.source_id:
            return describe_alteration(article, event.alteration)
        case Reshaped():
            shape = state.tables[event.table_id].shape
            return describe_shape(article, shape) if shape.source_id == article.source_id else None
        case _:
            return None


def describe_alteration(article: Article, alteration: Alteration) -> str | None:
    """Describe what a statement changed of the published table; None if nothing."""
    if (alteration.schema, alteration.table) != (article.schema, article.table):
        return f"it was renamed to {alteration.schema}.{alteration.table}"
    present = {column.number: column for column in alteration.columns}
    for column in article.columns:
        now = present.get(column.number)
        if now is None:
            return f"column {column.name} was dropped"
        if now.name != column.name:
            return f"column {column.name} was renamed to {now.name}"
        if now.type_text != column.type_text:
            return f"column {column.name} became {now.type_text}"
    known = {column.number for column in article.columns}
    added = [column.name for number, column in present.items() if number not in known and not column.is_generated]
    return f"column {added[0]} was added" if added and article.has_all_columns else None


def describe_shape(article: Article, shape: TableShape) -> str | None:
    """Describe how logged rows differ from the published table, for changes made without event triggers.

    A publisher's role without the right to create event triggers reports no statements. A replica identity that no
    longer covers the values that the article's calls need would leave nulls in their place.
    """
    present = {column.name: column for column in shape.columns}
    for column in article.columns:
        now = present.get(column.name)
        if now is None:
            return f"column {column.name} is gone"
        if (now.type_code, now.type_modifier) != (column.type_code, column.type_modifier):
            return f"column {column.name} has another type"
    known = {*article.generated_columns, *(column.name for column in article.columns)}
    added = [column.name for column in (*shape.columns, *(shape.others or ())) if column.name not in known]
    if added and article.has_all_columns:
        return f"column {added[0]} was added"
    return _describe_identity(article, shape)


def _describe_identity(article: Article, shape: TableShape) -> str | None:
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
    tables = {article.article_id: f"{article.schema}.{article.table}" for article in articles}
    for event in events_between(state, from_position, to_position):
        match event:
            case Disabled(_, member_id) if member_id in tables:
                yield PublishedTableDropped(tables[member_id])
            case LeftOut(lsn, member_id, reason) if member_id in tables:
                yield ArticleSuspended(tables[member_id], str(lsn), reason)


def find_token(state: ManifestState, publication: str, from_position: Position, to_position: Position) -> Traced | None:
    """Return the first token of a publication in a range."""
    events = events_between(state, from_position, to_position)
    return next((event for event in events if isinstance(event, Traced) and event.publication == publication), None)
