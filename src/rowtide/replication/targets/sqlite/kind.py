"""A SQLite file as a kind of subscriber."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from rowtide.core.failpoints import failpoint
from rowtide.replication.articles.articles import Article
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.targets.sqlite import comparison, delivery, progress, snapshot_target, subscriber
from rowtide.replication.targets.sqlite.files import SubscriberFile, find_inode, path_of
from rowtide.replication.targets.subscriber_kind import UNKNOWN_ORIGINS, DatabaseIdentity, SubscriberKind


def identify(url: str) -> DatabaseIdentity:
    """Return the identity of a file, if it exists. Raises `FileNotOpened`, `SubscriberFileFailed`."""
    inode = find_inode(path_of(url))
    if inode is None:
        return DatabaseIdentity(None)
    with closing(SubscriberFile(url)) as file, file.undone_by_errors():
        receives = dict.fromkeys(progress.list_recorded(file.connection), UNKNOWN_ORIGINS)
        return DatabaseIdentity("{}:{}".format(*inode), receives)


def find_status(url: str, guid: str) -> SnapshotStatus | None:
    """Return how far the snapshot of a subscription is; None if the file does not know it, or does not exist."""
    if find_inode(path_of(url)) is None:
        return None
    with closing(SubscriberFile(url)) as file, file.undone_by_errors():
        found = progress.find_status(file.connection, guid)
    return None if found is None else SnapshotStatus(found)


def has_joined(url: str, guid: str) -> bool:
    """Return whether the article of a joining subscription became one of its subscription's."""
    if find_inode(path_of(url)) is None:
        return False
    with closing(SubscriberFile(url)) as file, file.undone_by_errors():
        return progress.has_joined(file.connection, guid)


def detach(url: str, guid: str, articles: Sequence[Article]) -> None:
    """Remove the records of articles that left a subscription; their rows stay. Idempotent."""
    with closing(SubscriberFile(url)) as file:
        with file.transaction() as connection:
            for article in articles:
                progress.detach(connection, guid, article)
            failpoint("article_detachment.before")
        failpoint("article_detachment.after")


KIND = SubscriberKind(
    address=subscriber.address,
    identify=identify,
    prepare=subscriber.prepare,
    creations=subscriber.creations,
    forget=subscriber.forget,
    server=None,
    open_snapshot=snapshot_target.SqliteSnapshotTarget.open,
    open_delivery=delivery.SqliteDelivery.open,
    require_streams=subscriber.require_streams,
    find_status=find_status,
    has_joined=has_joined,
    detach=detach,
    open_rows=comparison.open_subscribed,
    open_repair=comparison.open_repair,
    open_outbox=comparison.open_outbox,
)
