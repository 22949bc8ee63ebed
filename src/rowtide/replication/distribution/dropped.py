"""Published tables that were dropped at the publisher: nothing of them comes any more, and the others go on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rowtide.core.lsn import Position
from rowtide.log.membership import Disabled
from rowtide.log.state import ManifestState, events_between
from rowtide.replication.articles import Article
from rowtide.replication.errors import PublishedTableDropped


def find_dropped(
    state: ManifestState, articles: Iterable[Article], from_position: Position, to_position: Position
) -> Iterator[PublishedTableDropped]:
    """Return the tables that end in a range: an article that is subscribed to ends in no other way."""
    tables = {article.article_id: f"{article.schema}.{article.table}" for article in articles}
    for event in events_between(state, from_position, to_position):
        if isinstance(event, Disabled) and event.member_id in tables:
            yield PublishedTableDropped(tables[event.member_id])
