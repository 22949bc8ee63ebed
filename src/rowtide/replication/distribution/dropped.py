"""Published tables that end: nothing of them comes any more, and the others go on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.core.lsn import Position
from rowtide.log.membership import Disabled, LeftOut
from rowtide.log.state import ManifestState, events_between
from rowtide.replication.articles import Article
from rowtide.replication.errors import ArticleEnded, ArticleSuspended, PublishedTableDropped


def find_dropped(
    state: ManifestState, articles: Iterable[Article], from_position: Position, to_position: Position
) -> Iterator[ArticleEnded]:
    """Return the tables that end in a range: dropped at the publisher, or without a change that was left out."""
    tables = {article.article_id: f"{article.schema}.{article.table}" for article in articles}
    for event in events_between(state, from_position, to_position):
        match event:
            case Disabled(_, member_id) if member_id in tables:
                yield PublishedTableDropped(tables[member_id])
            case LeftOut(lsn, member_id, reason) if member_id in tables:
                yield ArticleSuspended(tables[member_id], str(lsn), reason)
