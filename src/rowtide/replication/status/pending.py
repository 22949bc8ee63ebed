"""Undelivered changes in the log store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rowtide.core.lsn import Position
from rowtide.core.operations import Operation
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.storage.store import Store

_COLUMNS = ("commit_lsn", "operation", "table_id")
_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)


def count_pending(store: Store, state: ManifestState, subscription: Subscription, articles: Sequence[Article]) -> int:
    """Count the undelivered changes without reading their values, so before any row filter.

    (SQL Server: UndelivCmdsInDistDB.)
    """
    reader = state.readers.get(subscription.reader)
    from_position = reader.position if reader is not None else state.low
    wanted = [
        (table_id, max(from_position, subscription.starts[article.article_id]), _delivered(article))
        for article in articles
        for table_id, version in state.tables.items()
        if version.shape.source_id == article.source_id
    ]
    waiting = [
        segment.path
        for segment in segments_between(state, from_position, state.position)
        if any(table_id in segment.tables for table_id, _, _ in wanted)
    ]
    return sum(_count(store, path, wanted) for path in waiting)


def _count(store: Store, path: str, wanted: Iterable[tuple[int, Position, Sequence[int]]]) -> int:
    import numpy as np

    from rowtide.log.store.segments import read_segment

    records = read_segment(store, path, _COLUMNS)
    lsns, operations, table_ids = (records[name].to_numpy() for name in _COLUMNS)
    return sum(
        int(np.count_nonzero((table_ids == table_id) & (lsns >= start.value) & np.isin(operations, delivered)))
        for table_id, start, delivered in wanted
    )


def _delivered(article: Article) -> Sequence[int]:
    """Return the operations that are delivered; a truncate counts as a delete."""
    chosen = [
        int(operation) for operation in _OPERATIONS if article.command(operation).call_format is not CallFormat.NONE
    ]
    return [*chosen, int(Operation.TRUNCATE)] if int(Operation.DELETE) in chosen else chosen
