"""Create, change and drop subscriptions (SQL Server: sp_addsubscription, sp_dropsubscription)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, literal_column, select, text

from rowtide.copying.chunks import Key, cut
from rowtide.copying.source import PostgresCopySource
from rowtide.core.errors import RowtideError
from rowtide.core.formats import removing
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import COLUMN_SEQUENCE, find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.session_settings import REFUSE_VIEWS
from rowtide.databases.source_table import SourceTable
from rowtide.log.membership import Enabled
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.postgres.membership import FULL_IDENTITY
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.postgres.slot import read_log_end
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import ReaderLeft
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState, events_between
from rowtide.replication.articles.articles import Article, as_copied
from rowtide.replication.articles.schema_changes import Unfollowed, as_alteration, follow, with_key_of
from rowtide.replication.distribution.calls.skipped_commands import SkipErrors
from rowtide.replication.distributor import (
    definitions,
    joining,
    publication_records,
    subscription_records,
)
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.publication_records import keep_articles, keep_publication
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.schema_article_records import SchemaArticle, list_schema_articles
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import CopyUnreadable
from rowtide.replication.errors.publishing import PublishedTableAltered
from rowtide.replication.errors.subscribing import (
    LsnNotKept,
    NothingToSubscribe,
    SubscriberNotCleared,
    SubscriptionExists,
)
from rowtide.replication.snapshot.objects import read_scripts, read_type_needs
from rowtide.replication.snapshot.table_details import read_table_details
from rowtide.replication.subscribing.originators import Ends, plan_originators
from rowtide.replication.subscribing.promoted_copies import find_promotion, remove_copied
from rowtide.replication.subscribing.readers import keeping
from rowtide.replication.subscribing.resolvers import (
    choose_resolver,
    require_commit_times,
    require_detectable,
    require_kept,
)
from rowtide.replication.subscription_settings import (
    IfExists,
    SettingsChanges,
    SubscriptionRequest,
    SubscriptionSettings,
    SyncType,
)
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.postgres.delivery_marks import carry_onward
from rowtide.replication.targets.subscriber_kind import (
    NewSnapshot,
    NewSubscription,
    Originators,
    PublishedSequence,
    SyncedSequence,
)


def add_subscription(
    engine: Engine,
    database: str,
    publication: str,
    subscriber: str,
    wanted: SubscriptionRequest,
    *,
    replaced: Sequence[int] = (),
) -> tuple[str, ...]:
    """Subscribe a database to a publication: its rows, by sync type, and all changes that commit from now on.

    Returns the unique constraints that its tables do not get, because the subscriber would check them too early. The
    subscriber is prepared before the subscription is recorded: what an interrupted call leaves there has no effect.
    Records that are `replaced`, by their agents, are removed with it or not at all.
    Raises `DatabaseKindUnknown`, `SkipErrorsInvalid`, `PublicationUnknown`, `PublicationBeingDropped`,
    `SubscriptionExists`, `NothingToSubscribe`, `LsnNotKept`, `NotAPromotedCopy`, and what `plan_originators`,
    `choose_resolver` and preparing such a subscriber raise.
    """
    SkipErrors.parse(wanted.settings.skip_errors)
    kind = kind_of(subscriber)
    subscriber = kind.address(subscriber)
    guid = str(uuid.uuid4())
    kind.require_streams(subscriber, guid, wanted.settings.streams)
    tables = PostgresCopySource(engine, database, CopyUnreadable)
    with translated(), engine.begin() as connection:
        keep_publication(connection, publication)
        for agent_id in replaced:
            subscription_records.drop_subscription(connection, agent_id)
        begun = _begin(connection, database, publication, subscriber, wanted)
        with keeping(connection, begun.manifest, guid, begun.earliest):
            # What is marked only now lies behind all that was read when its keeping began.
            mark = Position.of(begun.manifest.state.epoch, mark_log(connection))
            articles = renew(connection, begun.known, mark)
            start = begun.start or mark
            settings = replace(begun.settings, keeps_tables=wanted.keeps_tables)
            described = Subscription(0, publication, subscriber, guid, {each.article_id: start for each in articles})
            subscription = replace(
                described, constraints=wanted.constraints, settings=settings, forwards=bool(wanted.forward)
            )
            subscription_records.add_subscription(connection, begun.publication_id, subscription, wanted.sync_type)
            schema_articles = list_schema_articles(connection, begun.publication_id)
            new = NewSubscription(
                guid,
                publication,
                begun.source.system_identifier,
                start,
                articles,
                begun.originators,
                has_procedures=wanted.sync_type is SyncType.NONE,
                settings=begun.settings,
                constraints=wanted.constraints,
                snapshot=plan_snapshot(connection, tables, articles, wanted, schema_articles),
                needs=read_type_needs(connection, articles),
            )
            unmade = tuple(kind.prepare(subscriber, new))
            subscription_records.record_articles(connection, guid, articles)
            carry_onward(begun.originators)
            return unmade


@frozen
class _Begun:
    """What a subscription is added to. `start` is None where it is to be marked in the log.

    `written`: up to there the server had written its log; `copied` are articles that were published before `start`.
    """

    publication_id: int
    source: SourceDefinition
    manifest: Manifest
    known: Sequence[Article]
    originators: Originators
    settings: SubscriptionSettings
    start: Position | None
    written: int
    copied: Set[str]

    def earliest(self, state: ManifestState) -> Position:
        """Return the position from which the log store must keep changes for the subscription.

        Raises `LsnNotKept` unless the log store has all changes of all articles from `start` on, or the server, which
        has written its log up to `written`, still gives them.
        """
        if self.start is None:
            return state.position
        published = {article.article_id for article in self.known}
        has_gap = any(gap.before > self.start for gap in state.gaps)
        if (
            state.position < self.start
            and self.start.epoch == state.epoch
            and self.start.log <= self.written
            and not has_gap
        ):
            # What is read only later may be that an article was published behind the start.
            if published <= {member.member_id for member in state.members} | self.copied:
                return state.position
        # Beyond what is written there may be nothing of that LSN: it was mistyped, or is another server's.
        elif state.low <= self.start <= state.position and not has_gap:
            events = events_between(state, self.start, state.position)
            if not any(isinstance(event, Enabled) and event.member.member_id in published for event in events):
                return self.start
        raise LsnNotKept(str(CommitLsn(self.start.value)), str(state.low), str(state.position))


def _begin(
    connection: Connection, database: str, publication: str, subscriber: str, wanted: SubscriptionRequest
) -> _Begun:
    """Verify that a subscription can be added, and lock its publication and articles until the caller commits."""
    keep_publication(connection, publication)
    source = read_source(connection, database)
    publication_id = publication_records.get_publication(connection, publication)
    if any(one.subscriber == subscriber for one in subscription_records.list_subscriptions(connection, publication)):
        raise SubscriptionExists(publication, subscriber)
    keep_articles(connection, publication)
    # A new table of a dropped one's name is another one.
    dropped = publication_records.list_dropped(connection)
    known = [each for each in publication_records.list_articles(connection, publication_id) if each not in dropped]
    if not known:
        raise NothingToSubscribe(publication)
    is_copy = wanted.sync_type is SyncType.FROM_COPY
    promoted = find_promotion(connection, subscriber) if is_copy else None
    manifest = open_own_manifest(source)
    verify_provenance(connection, manifest)
    others = [one.guid for one in subscription_records.list_subscriptions(connection)]
    copied = remove_copied(source, subscriber, others) if is_copy else frozenset[str]()
    ends = Ends.read(connection, subscriber)
    originators = plan_originators(
        connection, ends, subscriber, publication, known, forward=wanted.forward, is_promoted_copy=is_copy
    )
    settings = choose_resolver(ends, subscriber, known, wanted.settings, forwards=bool(wanted.forward))
    require_commit_times(connection, database, settings)
    return _Begun(
        publication_id=publication_id,
        source=source,
        manifest=manifest,
        known=known,
        originators=originators,
        settings=settings,
        start=_find_start(manifest.state, wanted.lsn, promoted),
        written=read_log_end(connection),
        copied=copied,
    )


def renew(connection: Connection, known: Sequence[Article], mark: Position) -> tuple[Article, ...]:
    """Return articles as their tables are now, behind a mark, and record those that were altered since."""
    renewed = []
    for article in known:
        table = find_by_id(connection, article.source_id)
        now = article if table is None else as_now(article, table)
        renewed.append(article if now == article else replace(now, defined_at=mark.value))
    if renewed != list(known):
        definitions.require_writable(connection)
        for article in renewed:
            publication_records.renew_article(connection, article)
    return tuple(renewed)


def _require_renewable(connection: Connection, publication_id: int) -> None:
    """Raise `PublishedTableAltered` before anything is dropped that could not be added again."""
    for article in publication_records.list_articles(connection, publication_id):
        table = find_by_id(connection, article.source_id)
        if table is not None:
            as_now(article, table)


def as_now(article: Article, table: SourceTable) -> Article:
    """Return an article as its table is now, with the key that it has now. Raises `PublishedTableAltered`."""
    try:
        now = follow(article, as_alteration(table), adds_none_since=None, has_no_rows=True).article
        now = with_key_of(now, table)
    except Unfollowed as error:
        raise PublishedTableAltered(table.qualified_name, str(error)) from error
    # The event trigger reduces it where the server would refuse updates.
    has_whole_rows = table.identity == FULL_IDENTITY or now.needs_whole_rows
    return now if has_whole_rows else replace(now, before_images=BeforeImages.KEY)


def _find_start(state: ManifestState, lsn: CommitLsn | None, promoted: int | None) -> Position | None:
    """Return the position from which a subscriber lacks changes that has rows already; None: from now on."""
    if promoted is not None:
        return Position.of(state.epoch, promoted)
    return None if lsn is None else Position(lsn.value)


def plan_snapshot(
    connection: Connection,
    source: PostgresCopySource,
    articles: Sequence[Article],
    wanted: SubscriptionRequest,
    scripted: Sequence[SchemaArticle] = (),
) -> NewSnapshot | None:
    """Return what a snapshot of articles creates and copies; None if none is asked for."""
    if wanted.sync_type is not SyncType.AUTOMATIC:
        return None
    return NewSnapshot(
        wanted.if_exists,
        details=tuple(read_table_details(connection, article) for article in articles),
        chunks=tuple(
            chunk for article in articles for chunk in cut(article.article_id, _find_bounds(source, article, wanted))
        ),
        scripts=read_scripts(connection, scripted),
    )


def _find_bounds(source: PostgresCopySource, article: Article, wanted: SubscriptionRequest) -> Sequence[Key]:
    """Return a table's chunk bounds.

    None if an update that moves a row between chunks might be logged without the old row.
    """
    is_cuttable = article.key_columns and article.before_images is BeforeImages.FULL and not article.is_partitioned
    if not is_cuttable:
        return []
    return source.find_bounds(as_copied(article), wanted.chunk_bytes)


def change_subscription(
    engine: Engine, database: str, publication: str, subscriber: str, changes: SettingsChanges
) -> SubscriptionSettings:
    """Change settings of a subscription and return them all (SQL Server: sp_changesubscription).

    Raises `PublicationUnknown`, `SubscriptionUnknown`, `SettingOutOfRange`, `SkipErrorsInvalid`,
    `StreamsUnsupported`, `PreparedTransactionsLacking`, `ConflictsNotDetectable`, `ConflictsFixed`; for several
    streams, what connecting to the subscriber raises.
    """
    kind = kind_of(subscriber)
    subscriber = kind.address(subscriber)
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        subscription = subscription_records.get_subscription(connection, publication, subscriber)
        settings = subscription.settings.changed(**changes)
        SkipErrors.parse(settings.skip_errors)
        require_kept(subscription.settings, settings)
        articles = subscription_records.list_subscribed(connection, subscription.agent_id)
        require_detectable(subscriber, articles, settings, forwards=subscription.forwards)
        require_commit_times(connection, database, settings)
        kind.require_streams(subscriber, subscription.guid, settings.streams)
        subscription_records.set_settings(connection, subscription.agent_id, settings)
    return settings


def drop_subscription(
    engine: Engine,
    database: str,
    publication: str,
    subscriber: str,
    *,
    ignore_subscriber: bool,
) -> None:
    """End a subscription, and remove delivery's objects from the subscriber; its tables stay as they were.

    With `ignore_subscriber`, the subscriber is not contacted. Raises `DatabaseKindUnknown`, `PublicationUnknown`,
    `SubscriptionUnknown`, `SubscriberNotCleared`. A repeat after a crash completes it.
    """
    with removing():
        manifest, ended = _end(
            engine, database, publication, subscriber, ignore_subscriber=ignore_subscriber, is_added_again=False
        )
        for one in ended:
            # Before the record, by which a repeat finds what is to be done: an entry without a record keeps the log
            # until the next run of replication.
            manifest.append(ReaderLeft(one.reader))
            with translated(), engine.begin() as connection:
                subscription_records.drop_subscription(connection, one.agent_id)


def _end(
    engine: Engine, database: str, publication: str, subscriber: str, *, ignore_subscriber: bool, is_added_again: bool
) -> tuple[Manifest, Sequence[Subscription]]:
    """Deactivate a subscription, and those that join it, and remove what the subscriber has; their records stay."""
    kind = kind_of(subscriber)
    subscriber = kind.address(subscriber)
    with translated(), engine.begin() as connection:
        source = read_source(connection, database)
        subscription = subscription_records.get_subscription(connection, publication, subscriber)
        manifest = open_own_manifest(source)
        # A copy of the server has the subscription too, and not what it delivers to.
        verify_provenance(connection, manifest)
        joining.lock_articles(connection, publication)
        # An article that joins it first: what is removed last has what remains to be done.
        ended = [*subscription_records.list_joining(connection, subscription.agent_id), subscription]
        left = [(one.guid, subscription_records.list_subscribed(connection, one.agent_id)) for one in ended]
        left += [(guid, (article,)) for guid, article in joining.list_detached(connection, subscription.agent_id)]
        # A run that delivers it learns of its end here, not from what is removed at the subscriber.
        for one in ended:
            subscription_records.set_status(connection, one.agent_id, SubscriptionState.INACTIVE)
    if not ignore_subscriber:
        try:
            for guid, articles in left:
                kind.forget(subscriber, guid, articles, is_added_again=is_added_again)
        except RowtideError as error:
            raise SubscriberNotCleared(subscriber, publication, error.filled_fact) from error
    return manifest, ended


def reinitialize(
    engine: Engine, database: str, publication: str, subscriber: str | None, if_exists: IfExists | None
) -> tuple[str, ...]:
    """Copy a publication's tables again to one subscriber or all; return which (SQL Server: sp_reinitsubscription).

    Ends the subscription and adds it again, which resolves any error, including a schema change. `if_exists` None: the
    tables are dropped, or emptied where the subscriber had them before. If adding is refused, the subscription remains,
    paused, and a repeat completes it. Raises what dropping and adding raise.
    """
    with translated(), engine.connect() as connection:
        source = read_source(connection, database)
        publication_id = publication_records.get_publication(connection, publication)
        known = subscription_records.list_subscriptions(connection, publication)
        wanted = None if subscriber is None else kind_of(subscriber).address(subscriber)
        if wanted is not None:
            subscription_records.get_subscription(connection, publication, wanted)
        _require_renewable(connection, publication_id)
        # Raises before a subscription is ended that could not be added again.
        open_own_manifest(source)
    chosen = [found for found in known if wanted in (None, found.subscriber) and found.joins is None]
    for found in chosen:
        usual = IfExists.TRUNCATE if found.settings.keeps_tables else IfExists.DROP
        again = SubscriptionRequest(
            if_exists=if_exists or usual, constraints=found.constraints, settings=found.settings, forward=found.forwards
        )
        with removing():
            manifest, ended = _end(
                engine, database, publication, found.subscriber, ignore_subscriber=False, is_added_again=True
            )
        # A copy that was not finished stays prepared at the subscriber.
        replaced = [one.agent_id for one in ended]
        add_subscription(engine, database, publication, found.subscriber, again, replaced=replaced)
        for one in ended:
            # Without it, the next run of replication finds a reader that has no record.
            manifest.append(ReaderLeft(one.reader))
    return tuple(found.subscriber for found in chosen)


def sync_sequences(
    engine: Engine, database: str, publication: str, subscriber: str | None
) -> tuple[SyncedSequence, ...]:
    """Move the sequences of a publication's columns at one subscriber or all; return those that were moved.

    Raises `PublicationUnknown`, `SubscriptionUnknown`, and what connecting to a subscriber raises.
    """
    with translated(), engine.connect() as connection:
        read_source(connection, database)
        publication_records.get_publication(connection, publication)
        known = tuple(
            one for one in subscription_records.list_subscriptions(connection, publication) if one.joins is None
        )
        if subscriber is not None:
            address = kind_of(subscriber).address(subscriber)
            known = (subscription_records.get_subscription(connection, publication, address),)
        articles = [subscription_records.list_subscribed(connection, found.agent_id) for found in known]
        # The owner of a sequence could put a view in its place.
        connection.execute(text(REFUSE_VIEWS))
        published = [list(_read(connection, subscribed)) for subscribed in articles]
    return tuple(
        one
        for found, sequences in zip(known, published, strict=True)
        if (server := kind_of(found.subscriber).server) is not None
        for one in server.move_sequences(found.subscriber, sequences)
    )


def _read(connection: Connection, articles: Sequence[Article]) -> Iterator[PublishedSequence]:
    for article in articles:
        for column in article.columns:
            named = {"table": quote_qualified(article.schema, article.table), "column": column.name}
            sequence = connection.execute(text(_SEQUENCE), named).scalar()
            if sequence is not None:
                columns: list[ColumnElement[Any]] = [literal_column("last_value"), literal_column("is_called")]
                values = select(*columns).select_from(text(sequence))
                last_value, is_called = connection.execute(values).one()
                step = connection.execute(text(_INCREMENT), {"sequence": sequence}).scalar_one()
                yield PublishedSequence(article.schema, article.table, column.name, last_value, is_called, step)


_SEQUENCE = COLUMN_SEQUENCE.format(table=":table", column=":column")
_INCREMENT = "select seqincrement from pg_sequence where seqrelid = cast(:sequence as regclass)"
