"""Subscribe a database from a prepared snapshot (SQL Server: MSsnapshotdeliveryprogress).

Each file is delivered in a transaction of its own, which also records it: a repeat continues with the next. The hub's
tables are not read; the first synchronisation downloads what was changed since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sqlalchemy import delete, insert, select

from rowtide.merge import catalogue
from rowtide.merge.articles import Article, Partition, Publication, Subscription
from rowtide.merge.definitions import snapshot_progress
from rowtide.merge.errors.subscribing import (
    MergeSubscriptionExists,
    SnapshotOutdated,
    SnapshotUnfit,
    SubscriberHasTable,
)
from rowtide.merge.exchange_state import put_subscription, read_purge
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.table_definitions import Omission
from rowtide.merge.partitions.filters import bind_articles
from rowtide.merge.publishing import snapshots
from rowtide.merge.publishing.requests import MergeSubscriptionRequest
from rowtide.merge.publishing.schema_changes import notice, read_version
from rowtide.merge.publishing.subscriptions import begin_subscription, choose_partition, new_subscription
from rowtide.merge.publishing.vertical_partitions import find_cycles, restrict
from rowtide.merge.row_hashes import HashBatch
from rowtide.merge.session.identity_ranges import give_ranges, require_fit

_TABLES = "tables"
"""What is recorded once the tables are made, before any file."""


def make_snapshot(
    hub: Node,
    publication_name: str,
    partition: Partition,
    folder: Path,
    on_progress: snapshots.SnapshotProgress = lambda _article, _rows: None,
) -> snapshots.PartitionSnapshot:
    """Write what a subscriber of a partition starts with to a folder, which is created.

    (SQL Server: sp_adddynamicsnapshot_job.) Raises `MergePublicationUnknown`, `PartitionValueMissing`,
    `FileNotWritable`.
    """
    publication = catalogue.get_publication(hub.connection, publication_name)
    notice(hub, publication)
    articles = catalogue.list_articles(hub.connection, publication.pubid)
    chosen = choose_partition(publication, articles, partition)
    with hub.changes.enumerating() as enumeration:
        snapshot = snapshots.SubscriberSnapshot(enumeration, articles, bind_articles(articles, chosen))
        return snapshots.write_snapshot(folder, publication, chosen, snapshot, on_progress)


def subscribe_from_snapshot(
    hub: Node,
    subscriber: Node,
    request: MergeSubscriptionRequest,
    folder: Path,
) -> Subscription:
    """Subscribe a database, and fill it from the files of `make_snapshot`; a repeat continues an interrupted call.

    The request's `subscriber` is the name that is stored. A partition that is given must be the snapshot's. Raises
    `MergePublicationUnknown`, `MergeSubscriptionExists`, `SubscriberHasTable`, `SnapshotUnfit`, `SnapshotOutdated`,
    `SnapshotDamaged`, `IdentityRangeUnfit`, `AddressTaken`, `CopiedRowRefused`.
    """
    publication = replace(catalogue.get_publication(hub.connection, request.publication), run_as=request.run_as)
    notice(hub, publication)
    articles = catalogue.list_articles(hub.connection, publication.pubid)
    schema = read_version(hub.connection, publication)
    snapshot = snapshots.read_snapshot(folder)
    _require_fit(snapshot, publication, articles, request.chosen_partition)
    _require_fresh(hub, snapshot)
    require_fit(hub, subscriber, publication, articles)
    subscriber.tables.prepare()
    if catalogue.find_publication(subscriber.connection, request.publication) is not None:
        raise MergeSubscriptionExists(request.subscriber, request.publication)
    nickname = catalogue.read_nickname(subscriber.connection)
    begun = new_subscription(publication, schema, nickname, snapshot.partition, request)
    subscription = replace(begun, sent=snapshot.generation)
    delivery = _Delivery(subscriber, snapshot, articles, request.on_progress)
    delivery.require_place()
    with hub.transaction():
        begin_subscription(hub, publication, articles, subscription)
    snapshots.store_memberships(
        hub, subscription.nickname, snapshots.read_members(snapshot, articles), snapshot.generation
    )
    found = hub.tables.describe_all(articles)
    restricted = [(article, restrict(article, found[article])) for article in articles]
    omissions = [omission for _, (_, unpublished) in restricted for omission in unpublished]
    omissions += delivery.run([(article, described) for article, (described, _) in restricted])
    # No purge has removed meanwhile what the first synchronisation is to send.
    _require_fresh(hub, snapshot)
    received = snapshot.generation
    delivery.conclude(publication, replace(subscription, nickname=publication.publisher, sent=0, received=received))
    give_ranges(hub, subscriber, publication, articles, subscription)
    for omission in omissions:
        request.on_omission(omission)
    return subscription


def _require_fit(
    snapshot: snapshots.PartitionSnapshot,
    publication: Publication,
    articles: Sequence[Article],
    partition: Partition | None,
) -> None:
    if snapshot.pubid != publication.pubid:
        raise SnapshotUnfit(snapshot.folder, f"it is of another publication, {snapshot.publication}")
    if partition not in (None, Partition(), snapshot.partition):
        raise SnapshotUnfit(snapshot.folder, f"it is of {_described(snapshot.partition)}")
    if snapshot.articles != tuple(articles):
        raise SnapshotOutdated(snapshot.folder, snapshot.taken, "articles were changed since")


def _described(partition: Partition | None) -> str:
    if partition is None:
        return "a publication without filters"
    values = {"host_name()": partition.host_name, "suser_name()": partition.suser_name}
    return ", ".join(f"{name} = {value!r}" for name, value in values.items() if value is not None)


def _require_fresh(hub: Node, snapshot: snapshots.PartitionSnapshot) -> None:
    if read_purge(hub.connection).generation > snapshot.generation:
        reason = "the publisher has removed the metadata of changes made after it"
        raise SnapshotOutdated(snapshot.folder, snapshot.taken, reason)


class _Delivery:
    """The delivery of a snapshot's files to a subscriber."""

    def __init__(
        self,
        subscriber: Node,
        snapshot: snapshots.PartitionSnapshot,
        articles: Sequence[Article],
        on_progress: snapshots.SnapshotProgress,
    ) -> None:
        self._subscriber = subscriber
        self._snapshot = snapshot
        self._articles = {article.name: article for article in articles}
        self._on_progress = on_progress
        self._rows: dict[str, int] = {}
        found = subscriber.connection.execute(
            select(snapshot_progress.c.session_token, snapshot_progress.c.progress_token)
        )
        self._delivered = {(row.session_token, row.progress_token) for row in found}

    def require_place(self) -> None:
        """Raise `SubscriberHasTable` if a table exists that no delivery has made."""
        for article in self._articles.values():
            if not self._delivered and self._subscriber.tables.is_there(article):
                raise SubscriberHasTable(article.qualified_name)

    def run(self, described: Sequence[tuple[Article, TableDescription]]) -> Sequence[Omission]:
        """Make the tables, and deliver the files that have not been."""
        omissions: Sequence[Omission] = ()
        if not self._is_delivered(_TABLES):
            with self._subscriber.transaction():
                omissions = self._begin(described)
        for files in self._units(dict(described)):
            if not all(self._is_delivered(file.name) for file in files):
                # Rows and the record of their file are committed together: a repeat continues with the next file.
                with snapshots.copying(self._subscriber):
                    self._subscriber.writer.defer_constraints()
                    for file in files:
                        self._deliver(file)
            for file in files:
                self._report(file)
        return omissions

    def conclude(self, publication: Publication, at_subscriber: Subscription) -> None:
        """Make a subscriber of what was filled: from now on writes are tracked."""
        with self._subscriber.transaction():
            catalogue.put_publication(self._subscriber.connection, publication)
            for article in self._articles.values():
                there = article.at_subscriber(at_subscriber.subscriber_type)
                included = bytes.fromhex(self._snapshot.included[article.name])
                snapshots.put_at_subscriber(self._subscriber, publication, there, included)
                self._subscriber.tables.track(there)
            put_subscription(self._subscriber.connection, at_subscriber)
            # Atomically with the subscription: a repeat finds either an unfinished delivery or a subscriber.
            self._subscriber.connection.execute(delete(snapshot_progress))

    def _begin(self, described: Sequence[tuple[Article, TableDescription]]) -> Sequence[Omission]:
        """Make the tables; those that the delivery of another snapshot has made are emptied."""
        present = [article for article, _ in described if self._subscriber.tables.is_there(article)]
        self._subscriber.writer.defer_constraints()
        for article in reversed(present):
            self._subscriber.tables.clear(article)
        self._subscriber.connection.execute(delete(snapshot_progress))
        omissions = self._subscriber.tables.make(described, present=present)
        self._record(_TABLES)
        return omissions

    def _units(self, described: Mapping[Article, TableDescription]) -> Iterator[Sequence[snapshots.SnapshotFile]]:
        """Yield the files of each transaction: those of tables that reference each other, or themselves, together."""
        files = [file for file in self._snapshot.files if file.kind is snapshots.FileKind.ROWS]
        for circle in find_cycles(described):
            names = {article.name for article in circle.articles}
            listed = [file for file in files if file.article in names]
            yield from [listed] if circle.is_cycle else [[file] for file in listed]
        yield from ([file] for file in self._snapshot.files if file.kind is snapshots.FileKind.VERSIONS)

    def _deliver(self, file: snapshots.SnapshotFile) -> None:
        article, lines = self._articles[file.article], self._snapshot.lines(file)
        if file.kind is snapshots.FileKind.ROWS:
            rows = [(line[0], tuple(line[1:])) for line in lines]
            self._subscriber.tables.load(article, iter([rows]))
            hashes = HashBatch(article)
            hashes.add(rows)
            hashes.put(self._subscriber.connection)
        else:
            self._subscriber.writer.write(
                article, [snapshots.read_write(line, self._snapshot.publisher) for line in lines]
            )
        self._record(file.name)

    def _report(self, file: snapshots.SnapshotFile) -> None:
        if file.kind is snapshots.FileKind.ROWS:
            self._rows[file.article] = self._rows.get(file.article, 0) + file.rows
            self._on_progress(file.article, self._rows[file.article])

    def _is_delivered(self, name: str) -> bool:
        return (self._snapshot.token, name) in self._delivered

    def _record(self, name: str) -> None:
        values = {"session_token": self._snapshot.token, "progress_token": name}
        self._subscriber.connection.execute(insert(snapshot_progress).values(values))
