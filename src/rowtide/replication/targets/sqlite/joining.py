"""Articles that join or leave a subscription of a SQLite file while it is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from rowtide.core.failpoints import failpoint
from rowtide.replication.articles.articles import Article
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.files import SubscriberFile, find_inode, path_of


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
