"""The initial rows of a subscriber, and its tables, which are created and filled with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rowtide.merge.articles import (
    PUBLISHER_PRIORITY,
    Article,
    Publication,
    SubscriberType,
)
from rowtide.merge.catalogue import (
    put_article,
    put_publication,
    read_purged,
    set_definition,
    set_purged,
)
from rowtide.merge.errors.rows import CopiedRowRefused, RowsRefused
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.sending import Enumeration
from rowtide.merge.nodes.table_parts import Omission
from rowtide.merge.partitions.chains import link_members
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.partition_membership import (
    add_members,
    remove_all_members,
)
from rowtide.merge.publishing.vertical_partitions import restrict
from rowtide.merge.row_hashes import BATCH_ROWS, HashBatch, drop_hashes
from rowtide.merge.session.exchange import taken
from rowtide.merge.versions.changes import Row, Write

_NO_NODE = 0
"""The nickname of no node."""
SnapshotProgress = Callable[[str, int], None]
"""Called with an article and the number of its rows that are copied."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows that a subscriber starts with: all rows of the articles, or its partition of the filtered ones.

    `shared` are those whose tables it has from another publication, `prepared` those whose tables a program made there.
    """

    enumeration: Enumeration
    articles: Sequence[Article]
    filters: Mapping[int, RowFilter]
    shared: Sequence[Article] = ()
    subscriber_type: SubscriberType = SubscriberType.CLIENT
    hub_priority: float = PUBLISHER_PRIORITY
    prepared: Sequence[Article] = ()

    @property
    def new_articles(self) -> Sequence[Article]:
        """The articles whose tables the subscriber does not have."""
        return [article for article in self.articles if article not in (*self.shared, *self.prepared)]

    def there(self, article: Article) -> Article:
        """Return an article as the subscriber has it."""
        return article.at_subscriber(self.subscriber_type)

    def rows(self, article: Article) -> Iterator[Sequence[tuple[str, Row]]]:
        if article.is_upload_only:
            return iter(())
        return self.enumeration.rows(article, self.filters.get(article.nickname))

    def versions(self, article: Article, publisher: int) -> Iterator[Sequence[Write]]:
        """Yield the metadata to store for rows that have metadata at the hub, in batches.

        Each row keeps its own lineage: a change included in one row may not have reached another, because it waits at
        its node or was refused.
        """
        if article.is_upload_only or not self.there(article).is_tracked:
            return
        row_filter = self.filters.get(article.nickname)
        belonging = None
        if row_filter is not None:
            belonging = {rowguid for batch in self.enumeration.members(row_filter) for rowguid, _ in batch}
        for batch in self.enumeration.upserts(article, 0, _NO_NODE):
            there = (change for change in batch if belonging is None or change.rowguid in belonging)
            yield [taken(change, None, publisher, self.hub_priority)._replace(is_live=True) for change in there]

    def members(self) -> dict[Article, list[tuple[str, str | None]]]:
        """Return the rowguids of the filtered articles' rows, each with its parent's."""
        filtered = [(article, self.filters[article.nickname]) for article in self.articles if article.is_filtered]
        return link_members(
            {
                article: [pair for batch in self.enumeration.members(row_filter) for pair in batch]
                for article, row_filter in filtered
            }
        )


def hold(
    hub: Node, subscriber: int, members: Mapping[Article, Sequence[tuple[str, str | None]]], generation: int
) -> None:
    """Store the subscriber's partition membership at the hub before it receives the rows. Idempotent."""
    with hub.transaction():
        remove_all_members(hub.connection, subscriber, members)
        for article, rows in members.items():
            add_members(hub.connection, subscriber, article, rows, generation)


@contextmanager
def copying(subscriber: Node) -> Iterator[None]:
    """Write what a subscription begins with in one transaction. Raises `CopiedRowRefused`."""
    try:
        with subscriber.transaction():
            yield
    except RowsRefused as error:
        raise CopiedRowRefused(error.table, error.code, error.reason) from error


def fill(
    hub: Node, subscriber: Node, publication: Publication, snapshot: Snapshot, on_progress: SnapshotProgress
) -> Sequence[Omission]:
    """Create and fill all tables in the caller's transaction; later writes are tracked.

    Return what the tables do not have of the publisher's.
    """
    put_publication(subscriber.connection, publication)
    return fill_articles(hub, subscriber, publication, snapshot, on_progress)


def fill_articles(
    hub: Node,
    subscriber: Node,
    publication: Publication,
    snapshot: Snapshot,
    on_progress: SnapshotProgress = lambda _article, _rows: None,
    *,
    present: Sequence[Article] = (),
) -> Sequence[Omission]:
    """Create and fill the tables of a snapshot's articles in the caller's transaction; later writes are tracked.

    Tables of `present` exist, and may be referenced. Return what the tables do not have of the publisher's.
    """
    articles = (*snapshot.articles, *present)
    described = hub.tables.describe_all(articles)
    restricted = [(article, restrict(article, described[article])) for article in articles]
    tables = [(article, published) for article, (published, _) in restricted]
    made = [unpublished for article, (_, unpublished) in restricted if article not in present]
    omissions = [omission for unpublished in made for omission in unpublished]
    there = (*snapshot.shared, *snapshot.prepared, *present)
    omissions += subscriber.tables.make(tables, present=there, refers_later=bool(present))
    subscriber.defer_constraints()
    for article in snapshot.new_articles:
        _load(subscriber, article, snapshot, on_progress)
    for article in snapshot.shared:
        purged = read_purged(subscriber.connection, article.nickname)
        put_at_subscriber(subscriber, publication, snapshot.there(article), purged)
    for article in snapshot.new_articles:
        for versions in snapshot.versions(article, publication.publisher):
            subscriber.write(article, versions)
        put_at_subscriber(subscriber, publication, snapshot.there(article), snapshot.enumeration.included(article))
        subscriber.tables.track(snapshot.there(article))
    if present:
        subscriber.tables.refer(tables, present=there)
    return omissions


def put_at_subscriber(subscriber: Node, publication: Publication, article: Article, purged_lineage: bytes) -> None:
    """Write an article at a subscriber, in the caller's transaction."""
    connection = subscriber.connection
    put_article(connection, publication.pubid, article, purged_lineage=purged_lineage, preserve_rowguidcol=True)


def refill(subscriber: Node, pubid: str, publisher: int, snapshot: Snapshot, on_progress: SnapshotProgress) -> None:
    """Fill the tables again, in the caller's transaction; rows of upload-only articles stay with their changes."""
    articles = [article for article in snapshot.articles if not article.is_upload_only]
    for article in set(snapshot.articles) - set(articles):
        set_definition(subscriber.connection, pubid, snapshot.there(article))
        subscriber.tables.track(snapshot.there(article))
    subscriber.defer_constraints()
    for article in reversed(articles):
        subscriber.tables.untrack(article)
        subscriber.tables.clear(article)
    for article in articles:
        _load(subscriber, article, snapshot, on_progress)
    for article in articles:
        for versions in snapshot.versions(article, publisher):
            subscriber.write(article, versions)
        set_definition(subscriber.connection, pubid, snapshot.there(article))
        set_purged(subscriber.connection, article.nickname, snapshot.enumeration.included(article))
        subscriber.tables.track(snapshot.there(article))


def _load(subscriber: Node, article: Article, snapshot: Snapshot, on_progress: SnapshotProgress) -> None:
    """Fill an empty table, and store the hashes of its rows, in the caller's transaction."""
    batches = [HashBatch(article)]

    def told() -> Iterator[Sequence[tuple[str, Row]]]:
        rows = 0
        for batch in snapshot.rows(article):
            yield batch
            if len(batches[-1]) >= BATCH_ROWS:
                batches.append(HashBatch(article))
            batches[-1].add(batch)
            rows += len(batch)
            on_progress(article.name, rows)

    subscriber.tables.load(article, told())
    drop_hashes(subscriber.connection, article.nickname)
    for hashes in batches:
        hashes.put(subscriber.connection)
