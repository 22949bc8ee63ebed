"""Remove metadata that no synchronisation needs any more (SQL Server: sp_mergemetadataretentioncleanup).

A change that the hub sends in one synchronisation can conflict with a change that the subscriber made before receiving
it; that conflict appears in the next synchronisation. Generations for which this is past, for all subscriptions, are
settled: the hub may purge them, and then the subscribers. A subscription that has not synchronised within the retention
period, by the hub's clock, does not hold metadata back.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection, delete, select

from rowtide.merge.articles import Publication, Subscription
from rowtide.merge.catalogue import list_merged, list_publications, read_nickname, read_purged, set_purged
from rowtide.merge.conflicts.records import forget_conflicts
from rowtide.merge.definitions import article_history, sessions
from rowtide.merge.exchange_state import (
    Purge,
    forget_generations,
    has_retries,
    list_subscriptions,
    read_last_sync,
    read_purge,
    set_purge,
)
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.row_hashes import compact_hashes
from rowtide.merge.versions.comparison import Lineage, NodeChange

CHUNK_ROWS = 10_000
_EVERY = timedelta(days=1)
_HISTORY = timedelta(days=14)
"""How long sessions are kept."""


def is_due(last: Purge) -> bool:
    """Whether a day has passed since a node's last purge."""
    # One in the future was noted by a clock that was wrong: waiting for it could take years.
    return not timedelta() <= datetime.now(UTC) - last.at <= _EVERY


def purge(node: Node, on_progress: Callable[[int], None] = lambda _rows: None) -> int:
    """Remove, in batches, the metadata that all subscriptions have settled; return the number of rows removed.

    A table with refused rows keeps all of its metadata, because these rows will be requested again. Raises `NodeBusy`.
    """
    bound = _bound(node)
    kept = False
    removed = 0
    for article in list_merged(node.connection) if bound else ():
        if has_retries(node.connection, article.nickname):
            kept = True
            continue
        transact_at(node, partial(_include, node, article.nickname, bound))
        while rows := transact_at(node, partial(node.versions.forget, article, bound, CHUNK_ROWS)):
            removed += rows
            on_progress(removed)
    for article in list_merged(node.connection):
        transact_at(node, partial(compact_hashes, node.connection, article))
    transact_at(node, partial(_conclude, node, bound, keeps_generations=kept))
    return removed


def expiry(publication: Publication, last_sync: datetime | None) -> datetime | None:
    """Return when a subscription expires, given its last synchronisation; None for never."""
    if not publication.retention_days or last_sync is None:
        return None
    return last_sync + timedelta(days=publication.retention_days)


def _bound(node: Node) -> int:
    """Return the last generation that all subscriptions have settled; 0 if there is none."""
    settled = [
        subscription.settled
        for publication in list_publications(node.connection)
        for subscription in list_subscriptions(node.connection, publication.pubid)
        if not _is_expired(node, publication, subscription)
    ]
    return min(settled, default=0)


def _is_expired(node: Node, publication: Publication, subscription: Subscription) -> bool:
    if publication.publisher != read_nickname(node.connection):
        return False
    expires = expiry(publication, read_last_sync(node.connection, subscription.subid))
    return expires is not None and expires < datetime.now(UTC)


def _include(node: Node, nickname: int, bound: int) -> None:
    """Add the lineages of the metadata to be removed to the lineage of rows without metadata."""
    own = NodeChange(read_nickname(node.connection), bound)
    set_purged(node.connection, nickname, read_included(node, bound, nickname).with_change(own).encode())


def read_included(node: Node, generation: int, nickname: int) -> Lineage:
    """Return the union of a table's lineages up to a generation, but for this node's own changes, and what was purged.

    A purge meanwhile takes nothing from it: what was purged is read last.
    """
    lineages = node.versions.lineages(nickname, generation) if generation else ()
    found = [*lineages, read_purged(node.connection, nickname)]
    return Lineage.of(change for each in found for change in Lineage.decode(each).changes)


def _conclude(node: Node, bound: int, *, keeps_generations: bool) -> None:
    last = read_purge(node.connection)
    if bound and not keeps_generations:
        forget_generations(node.connection, read_nickname(node.connection), bound)
    now = datetime.now(UTC)
    _forget_sessions(node.connection, now - _HISTORY)
    for publication in list_publications(node.connection):
        if publication.conflict_retention_days:
            before = now - timedelta(days=publication.conflict_retention_days)
            forget_conflicts(node.connection, publication.pubid, before)
    set_purge(node.connection, max(bound, last.generation), now)


def _forget_sessions(connection: Connection, before: datetime) -> None:
    """Remove the records of synchronisations that began before a time, in the caller's transaction."""
    old = select(sessions.c.session_id).where(sessions.c.start_time < before)
    connection.execute(delete(article_history).where(article_history.c.session_id.in_(old)))
    connection.execute(delete(sessions).where(sessions.c.start_time < before))
