"""Apply the publisher's schema changes at a subscriber, once it has uploaded, before it synchronises.

All is one transaction at the subscriber: its tables, the publisher's values of new columns, its definitions, and the
version of the schema. Killed at any point, it has all of it or nothing, and the next synchronisation repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from sqlalchemy import delete, insert

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.merge import row_hashes
from rowtide.merge.articles import Article, ExchangeType, Progress, Publication, Subscription
from rowtide.merge.catalogue import get_publication, list_articles, list_publications, set_definition
from rowtide.merge.definitions import schema_changes
from rowtide.merge.errors.publishing import DefinitionsDiffer
from rowtide.merge.errors.subscribing import SubscriberHasTable
from rowtide.merge.exchange_state import set_subscription
from rowtide.merge.nodes.node import Node
from rowtide.merge.nodes.node_tables import NOT_THERE, TableAlteration, TableDescription
from rowtide.merge.nodes.table_definitions import Omission, TableChange
from rowtide.merge.publishing.exchange_requests import Recovered
from rowtide.merge.publishing.partition_moves import follow_filters
from rowtide.merge.publishing.publications import drop_from, finish_drops
from rowtide.merge.publishing.recovery import Rebuilt, recover
from rowtide.merge.publishing.rows_at_hub import NodeRows
from rowtide.merge.publishing.schema_changes import notice
from rowtide.merge.publishing.schema_steps import HubSchema, SchemaStep, SentSchema, reading_schema
from rowtide.merge.publishing.snapshots import fill_articles
from rowtide.merge.publishing.vertical_partitions import restrict
from rowtide.merge.session.device_half import DeviceHalf
from rowtide.merge.session.history import Summary
from rowtide.merge.session.pairing import (
    Pairing,
    SchemaVersion,
    find_lost,
    pair,
    require_known_schema,
    require_same_ends,
    require_tracked,
)
from rowtide.merge.session.synchronisation import synchronise, upload


@frozen
class _Following:
    """A subscriber that follows: `known` are its definitions, `there` the hub's as it has them."""

    subscriber: Node
    publication: Publication
    subscription: Subscription
    known: tuple[Article, ...]
    articles: tuple[Article, ...]
    there: tuple[Article, ...]
    version: SchemaVersion
    on_omission: Callable[[Omission], None]

    def follow(self, reading: AbstractContextManager[HubSchema]) -> None:
        known = {article.nickname: article for article in self.known}
        published = {article.nickname: article for article in self.there}
        with self.subscriber.altering(), reading as schema:
            for nickname, article in known.items():
                if nickname not in published:
                    drop_from(self.subscriber, self.publication, article)
            changed = [one for one in self.there if known.get(one.nickname, one) != one]
            for article, described in schema.describe(changed).items():
                self._change(schema, known[article.nickname], article, described)
            added = [article for article in self.articles if article.nickname not in known]
            if added:
                self._add(schema, added)
            self._put_version(schema)
        self.subscriber.forget_tables()

    def _add(self, schema: HubSchema, added: Sequence[Article]) -> None:
        """Create and fill the tables of new articles, parents first."""
        for article in added:
            if self.subscriber.tables.is_there(article):
                raise SubscriberHasTable(article.qualified_name)
        present = [article for article in self.articles if article not in added]
        described = schema.describe([*added, *present])
        for omission in fill_articles(
            self.subscriber, self.publication, described, schema.starting(added), present=present
        ):
            self.on_omission(omission)

    def _change(self, schema: HubSchema, before: Article, after: Article, described: TableDescription) -> None:
        """Alter an article's table and definition to match the publisher's."""
        subscriber, publication = self.subscriber, self.publication
        if described.fingerprint != after.fingerprint:
            raise DefinitionsDiffer(self.subscription.subscriber, after.qualified_name)
        by_hand = schema.by_hand(after)
        published, _ = restrict(after, described)
        change = TableChange(before, after, published.kind, published.statement, by_hand)
        subscriber.tables.lock(before)
        # What is left to the user is not there yet.
        # A table without triggers is to be filled again, and its rows may have no rowguids.
        is_hashed_again = _is_hashed_otherwise(before, after) and not by_hand and find_lost(subscriber, before) is None
        known = row_hashes.read_hashes(subscriber.connection, before) if is_hashed_again else {}
        # Before the alteration. Afterwards a row that a program changed cannot be distinguished from one that only has
        # other columns.
        unchanged = self._find_unchanged(before, known)
        subscriber.versions.redefine(before, after)
        alteration: TableAlteration | None = None
        filled: set[str] = set()
        if change.is_of_table:
            alteration = subscriber.tables.alter(change)
            alteration.begin()
            failpoint("merge_schema_change.altered")
            for rows in schema.values(change, alteration):
                subscriber.writer.fill(replace(after, columns=change.filled), rows)
                filled |= {rowguid for rowguid, _ in rows} if alteration.adopted else set()
            failpoint("merge_schema_change.filled")
            alteration.finish()
        # A table may be merged by several publications, each with a definition of its own.
        for other in list_publications(subscriber.connection):
            for article in list_articles(subscriber.connection, other.pubid):
                if article.nickname == after.nickname:
                    now = after if other.pubid == publication.pubid else after.as_table_of(article, before)
                    set_definition(subscriber.connection, other.pubid, now)
        subscriber.tables.track(after)
        if known and not (alteration is not None and alteration.adopted):
            # Columns that the subscriber had already hold values of its own.
            self._hash_again(after, known, unchanged)
        if alteration is not None:
            if alteration.adopted and after.is_tracked:
                subscriber.versions.log_own(after, sorted(alteration.adopted), filled)
            for omission in alteration.omissions:
                self.on_omission(omission)

    def _find_unchanged(self, article: Article, known: row_hashes.Hashes) -> set[str]:
        """Return the rows that are as they were exchanged last."""
        found: set[str] = set()
        for batch in self.subscriber.rebuilt.rows(article) if known else ():
            hashed = row_hashes.hash_rows(article, [row for _, row in batch])
            found.update(
                rowguid
                for (rowguid, _), value in zip(batch, hashed, strict=True)
                if known.get(row_hashes.key_of(rowguid)) == value
            )
        return found

    def _hash_again(self, article: Article, known: row_hashes.Hashes, unchanged: set[str]) -> None:
        """Replace the hashes of rows by hashes of the columns that they have now."""
        connection, batch = self.subscriber.connection, row_hashes.HashBatch(article)
        row_hashes.drop_hashes(connection, article.nickname)
        batch.add([(row_hashes.rowguid_of(key), None) for key, value in known.items() if value == row_hashes.GONE])
        for rows in self.subscriber.rebuilt.rows(article):
            batch.add([(rowguid, row) for rowguid, row in rows if rowguid in unchanged])
            if len(batch) >= row_hashes.BATCH_ROWS:
                batch.put(connection)
        batch.put(connection)

    def _put_version(self, schema: HubSchema) -> None:
        """Store the schema's version at the subscriber, and what led to it."""
        connection = self.subscriber.connection
        set_subscription(
            connection, self.subscription.subid, schemaversion=self.version.version, schemaguid=self.version.guid
        )
        rows = schema.changes()
        connection.execute(delete(schema_changes).where(schema_changes.c.pubid == self.publication.pubid))
        if rows:
            connection.execute(insert(schema_changes), [dict(row) for row in rows])


def follow(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    *,
    on_omission: Callable[[Omission], None] = lambda _omission: None,
) -> None:
    """Alter a subscriber's tables and definitions to match the publisher's. Idempotent.

    `on_omission` is called with each part of the publisher's tables that the subscriber's database does not have.
    Raises `ColumnsCollide`, `SchemaChangeRefused`, `DefinitionsDiffer`, `NodeBusy`.
    """
    follow_filters(hub, pairing)
    following = _Following(
        subscriber,
        pairing.publication,
        pairing.at_hub,
        pairing.known,
        pairing.articles,
        pairing.there,
        pairing.schema,
        on_omission,
    )
    following.follow(reading_schema(hub, pairing))
    # After the subscriber: until the hub records it, a repeat follows again, and finds nothing to change.
    with hub.transaction():
        set_subscription(
            hub.connection,
            pairing.at_hub.subid,
            schemaversion=pairing.schema.version,
            schemaguid=pairing.schema.guid,
        )


def follow_sent(
    device: DeviceHalf,
    step: SchemaStep,
    *,
    on_omission: Callable[[Omission], None] = lambda _omission: None,
) -> None:
    """Alter a device's tables and definitions to match a message. Idempotent; raises as `follow` does."""
    node, own = device.node, device.subscription
    publication = get_publication(node.connection, device.publication)
    schema = SentSchema(step, own.pubid, own.subscriber_type)
    there = tuple(article.at_subscriber(own.subscriber_type) for article in step.articles)
    following = _Following(node, publication, own, device.known, step.articles, there, schema.version, on_omission)
    following.follow(nullcontext(schema))


def _is_hashed_otherwise(before: Article, after: Article) -> bool:
    return [column.name for column in before.columns] != [column.name for column in after.columns]


_MOST_CHANGES = 5
"""How often the schema may change during one synchronisation."""


def synchronise_following(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_progress: Progress = lambda _phase, _done, _all: None,
    exchange: ExchangeType = ExchangeType.BOTH,
) -> Summary:
    """Synchronise; a subscriber whose publisher's schema was changed uploads and follows first.

    Raises what `pair`, `synchronise`, `notice` and `follow` raise.
    """
    pairing = pair(hub, subscriber, publication, subscriber_name)
    before: list[Summary] = []
    omissions: list[Omission] = []
    for _ in range(_MOST_CHANGES):
        try:
            summary = synchronise(hub, subscriber, pairing, on_progress, exchange)
        except DefinitionsDiffer:
            # What was changed before the subscriber follows has the columns and filters of its earlier definitions, and
            # is uploaded by these.
            pairing = _upload_earlier(hub, subscriber, pairing, on_progress, before, omissions)
        else:
            for earlier in before:
                summary.upload.add(earlier.upload)
            summary.omissions = omissions
            if pairing.leaving:
                finish_drops(hub, pairing.publication)
            return summary
    # Raises `DefinitionsDiffer` if the schema was changed once more.
    return synchronise(hub, subscriber, pairing, on_progress, exchange)


def _upload_earlier(
    hub: Node,
    subscriber: Node,
    pairing: Pairing,
    on_progress: Progress,
    uploaded: list[Summary],
    omissions: list[Omission],
) -> Pairing:
    """Upload what the subscriber changed by its earlier definitions, let it follow, and return the new pairing."""
    names = pairing.publication.name, pairing.at_hub.subscriber
    notice(hub, pairing.publication)
    pairing = pair(hub, subscriber, *names)
    require_known_schema(hub, pairing)
    # Following makes the triggers again, and what was changed without them would stay unknown.
    require_tracked(subscriber, pairing.at_hub.subscriber, pairing.known)
    uploaded.append(upload(hub, subscriber, pairing, on_progress))
    hub.forget_tables()
    follow(hub, subscriber, pair(hub, subscriber, *names), on_omission=omissions.append)
    return pair(hub, subscriber, *names)


def upload_all(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_upload: Progress,
    on_recovered: Callable[[Recovered], None],
    *,
    absent_is_delete: bool = False,
) -> Summary:
    """Upload what a subscriber changed, tracked or not: see `recover`."""
    names = publication, subscriber_name
    pairing = pair(hub, subscriber, *names)
    notice(hub, pairing.publication)
    require_same_ends(hub, subscriber, pairing)
    rebuilt = Rebuilt(subscriber, subscriber_name, pairing.known, pairing.at_subscriber.sent)
    with hub.changes.enumerating() as enumeration:
        rows = NodeRows(hub, pairing, enumeration)
        found = recover(rebuilt, rows, absent_is_delete=absent_is_delete)
    rows.store()
    for recovered in found:
        on_recovered(recovered)
    return upload(hub, subscriber, pair(hub, subscriber, *names), on_upload)


def prepare_again(
    hub: Node,
    subscriber: Node,
    publication: str,
    subscriber_name: str,
    on_upload: Progress | None,
    on_recovered: Callable[[Recovered], None],
    *,
    absent_is_delete: bool,
) -> tuple[Summary | None, Pairing]:
    """Apply the publisher's schema at a subscriber before its tables are filled again.

    With `on_upload`, it uploads what it changed before, tracked or not: see `recover`. Return the result of that, and
    the pairing.
    """
    names = publication, subscriber_name
    summary = None
    pairing = pair(hub, subscriber, *names)
    restore_rowguids(hub, pairing.articles)
    notice(hub, pairing.publication, reinitializes=True)
    if on_upload is None:
        restore_rowguids(subscriber, pairing.known)
    else:
        summary = upload_all(hub, subscriber, *names, on_upload, on_recovered, absent_is_delete=absent_is_delete)
    pairing = pair(hub, subscriber, *names)
    at_subscriber = pairing.at_subscriber
    if pairing.differing or SchemaVersion(at_subscriber.schema_version, at_subscriber.schema_guid) != pairing.schema:
        hub.forget_tables()
        follow(hub, subscriber, pairing)
        pairing = pair(hub, subscriber, *names)
    return summary, pairing


def restore_rowguids(node: Node, articles: Iterable[Article]) -> None:
    """Give rows of tables that a program rebuilt the rowguids that they lack; lost triggers stay away."""
    for article in articles:
        if find_lost(node, article) not in (None, NOT_THERE):
            with node.transaction(), node.rebuilt.rewriting(article):
                pass
