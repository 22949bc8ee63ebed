"""Articles that join a subscription: the subscriber is prepared by their agents, and may be out of reach until then.

An article that is copied again leaves its subscription and joins it (SQL Server: sp_reinitsubscription, @article).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy import Connection, Engine

from rowtide.copying.source import PostgresCopySource
from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.catalogue import find_by_id, read_table
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified, statement
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.postgres.membership import announce_enabled
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.store.entries import ReaderLeft
from rowtide.log.store.location import open_own_manifest
from rowtide.log.store.manifest import Manifest
from rowtide.replication.articles.articles import Article, ArticleType, as_member
from rowtide.replication.articles.schema_changes import Followed, Unfollowed, as_alteration, follow
from rowtide.replication.distribution.delivery_interface import JoiningArticle
from rowtide.replication.distributor import (
    definitions,
    joining,
    publication_records,
    schema_article_records,
    subscription_records,
)
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.schema_article_records import SchemaArticle
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import CopyUnreadable, PublishedTableDropped, SubscriptionDeactivated
from rowtide.replication.snapshot.objects import find_used, read_type_needs
from rowtide.replication.snapshot.table_details import read_table_details
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.subscribing.originators import Ends, plan_originators
from rowtide.replication.subscribing.readers import keeping
from rowtide.replication.subscribing.resolvers import require_detectable
from rowtide.replication.subscribing.subscriptions import as_now, plan_snapshot, renew
from rowtide.replication.subscription_settings import IfExists, SubscriptionRequest
from rowtide.replication.targets.kinds import kind_of
from rowtide.replication.targets.subscriber_kind import NewSubscription


def prepare(engine: Engine, database: str, wanted: Subscription) -> bool:
    """Prepare a subscriber for a joining article; return whether its agent can continue. Idempotent.

    It cannot while the subscriber still has procedures of articles that left, while the subscription's own tables are
    copied, or if the article has joined, or was dropped, paused or replaced. Raises `SubscriptionDeactivated`, and as
    adding a subscription.
    """
    kind = kind_of(wanted.subscriber)
    with translated(), engine.connect() as connection:
        manifest = open_own_manifest(read_source(connection, database))
        verify_provenance(connection, manifest)
        into = subscription_records.find_subscription(connection, wanted.joins or 0)
        if into is None or joining.list_detached(connection, into.agent_id):
            return False
    if kind.find_status(wanted.subscriber, wanted.guid) is None:
        if kind.find_status(wanted.subscriber, into.guid) is not SnapshotStatus.DELIVERED:
            return False
        if kind.has_joined(wanted.subscriber, wanted.guid):
            return False
        return _prepare(engine, database, wanted, manifest)
    if wanted.reader not in manifest.refresh().readers:
        raise SubscriptionDeactivated(wanted.publication, wanted.subscriber)
    with translated(), engine.begin() as connection:
        joining.mark_prepared(connection, wanted)
    return True


def _announce_altered(engine: Engine, wanted: Subscription) -> None:
    """Announce in the log which columns of a table an article has that joins, where those are others than its own.

    After an alteration that no event trigger reported, the log reader may not know which columns are whose.
    """
    with translated(), engine.begin() as connection:
        for article in subscription_records.list_subscribed(connection, wanted.agent_id):
            table = find_by_id(connection, article.source_id)
            if table is None or as_now(article, table) == article:
                continue
            # Not altered until the log has it.
            connection.execute(
                statement(f"lock table {quote_qualified(table.schema, table.name)} in access share mode")
            )
            table = read_table(connection, article.source_id)
            # The lock is held until the announcement commits: no alteration comes between the columns that are read and
            # their place in the log.
            connection.execute(announce_enabled(as_member(as_now(article, table))))


def _prepare(engine: Engine, database: str, wanted: Subscription, manifest: Manifest) -> bool:
    """Prepare a subscriber; return false if the article is not to join any more, or another agent is at it."""
    kind = kind_of(wanted.subscriber)
    _announce_altered(engine, wanted)
    new = _record_start(engine, database, wanted, manifest)
    if new is None:
        return False
    # What a repeat finds prepared was recorded before.
    failpoint("article_preparation.before")
    with translated(), engine.begin() as connection:
        # Locked: what was dropped or replaced meanwhile is cleaned up at the subscriber already.
        now = joining.lock(connection, wanted.agent_id)
        if now is None or not _is_wanted(now) or set(now.starts.values()) != {new.position}:
            return False
        try:
            kind.prepare(wanted.subscriber, new)
        except RowtideError as error:
            # After an outage the subscriber may be prepared nevertheless; the next attempt finds that.
            if error.remedy is not Remedy.RETRY:
                manifest.append(ReaderLeft(wanted.reader))
            raise
        failpoint("article_preparation.after")
        joining.mark_prepared(connection, wanted)
    return True


def _record_start(engine: Engine, database: str, wanted: Subscription, manifest: Manifest) -> NewSubscription | None:
    """Record from where the article is delivered, and return what its subscriber is prepared with.

    None where `_prepare` returns false.
    """
    kind = kind_of(wanted.subscriber)
    with translated(), engine.begin() as connection:
        if not _is_wanted(joining.lock(connection, wanted.agent_id)):
            return None
        if kind.find_status(wanted.subscriber, wanted.guid) is not None:
            # Another agent was faster: its copy begins where it has recorded.
            return None
        known = subscription_records.list_subscribed(connection, wanted.agent_id)
        into = wanted.joins or 0
        others = subscription_records.list_subscribed(connection, into)
        ends = Ends.read(connection, wanted.subscriber)
        originators = plan_originators(
            connection, ends, wanted.subscriber, wanted.publication, known, forward=wanted.forwards, into=into
        )
        require_detectable(wanted.subscriber, known, wanted.settings, forwards=wanted.forwards)
        # Before the start is chosen: the log store keeps everything from there on, also if this process ends before the
        # article is recorded.
        with keeping(connection, manifest, wanted.guid, lambda state: state.position):
            # The copy has what committed before the mark; what commits later is delivered.
            start = Position.of(manifest.state.epoch, mark_log(connection))
            articles = _renew(connection, wanted, known, start)
            replaced = subscription_records.find_replaced(connection, wanted.agent_id)
            is_dropped = wanted.if_exists is IfExists.DROP
            if is_dropped and replaced is not None and _is_kept(connection, wanted, replaced, articles):
                wanted = joining.keep_table(connection, wanted)
            request = SubscriptionRequest(if_exists=wanted.if_exists, constraints=wanted.constraints)
            tables = PostgresCopySource(engine, database, CopyUnreadable)
            refreshed = _list_refreshed(connection, wanted, articles)
            new = NewSubscription(
                wanted.guid,
                wanted.publication,
                read_source(connection, database).system_identifier,
                start,
                articles,
                originators,
                settings=wanted.settings,
                constraints=wanted.constraints,
                snapshot=plan_snapshot(connection, tables, articles, request, refreshed),
                needs=read_type_needs(connection, articles),
                beside=others,
                replaced=replaced,
                altered=() if replaced is None else tuple(_follow_all(connection, wanted, replaced, articles)),
            )
            joining.record_start(connection, wanted, start)
    return new


def _renew(
    connection: Connection, wanted: Subscription, known: Sequence[Article], start: Position
) -> tuple[Article, ...]:
    """Return the joining articles as their tables are now, and record them so."""
    articles = renew(connection, known, start)
    for article in articles:
        if article not in known:
            # Renewing leaves to subscriptions that are there what they have.
            distributor(connection).execute(subscription_records.record_article_step(wanted.agent_id, article))
    return articles


def _is_wanted(found: Subscription | None) -> bool:
    """Whether an article is still to join: it was not dropped, paused or replaced."""
    return found is not None and found.state in (SubscriptionState.WAITING, SubscriptionState.ACTIVE)


def _is_kept(connection: Connection, wanted: Subscription, held: Article, now: Sequence[Article]) -> bool:
    """Whether a table that would be dropped is emptied and altered: views of it stay, rowtide's own among them.

    Not if it gets another key, or columns that were omitted.
    """
    (article,) = now
    table = find_by_id(connection, article.source_id)
    server = kind_of(wanted.subscriber).server
    if table is None or server is None or not server.is_used(wanted.subscriber, held):
        return False
    try:
        followed = follow(held, as_alteration(table), adds_none_since=None, has_no_rows=True)
    except Unfollowed:
        return False
    shapes = ({column.number: column.key_ordinal for column in one.columns} for one in (followed.article, article))
    return next(shapes) == next(shapes)


def _list_refreshed(
    connection: Connection, wanted: Subscription, articles: Sequence[Article]
) -> tuple[SchemaArticle, ...]:
    """Return the published materialized views of a table that is kept, which are filled again when it is copied."""
    if wanted.if_exists in (IfExists.FAIL, IfExists.DROP):
        return ()
    publication_id = publication_records.get_publication(connection, wanted.publication)
    tables = {article.source_id for article in articles}
    return tuple(
        each
        for each in schema_article_records.list_schema_articles(connection, publication_id)
        if each.type is ArticleType.MATERIALIZED_VIEW and not tables.isdisjoint(find_used(connection, each.source_id))
    )


def _follow_all(
    connection: Connection, wanted: Subscription, held: Article, now: Sequence[Article]
) -> Iterator[Followed]:
    """Yield the changes of a table since the subscriber had it, if it is kept there."""
    for article in now if wanted.if_exists in (IfExists.KEEP, IfExists.DELETE, IfExists.TRUNCATE) else ():
        table = find_by_id(connection, article.source_id)
        if table is not None and held != article:
            followed = follow(held, as_alteration(table), adds_none_since=None, has_no_rows=True)
            yield Followed(held, article, followed.changes)


def mark_ready(engine: Engine, wanted: Subscription, at: Position) -> None:
    """Record that a joining article's agent has concluded at a position."""
    with translated(), engine.begin() as connection:
        joining.mark_ready(connection, wanted, at)


def mark_unready(engine: Engine, wanted: Subscription) -> None:
    """Let a joining article's agent continue."""
    with translated(), engine.begin() as connection:
        joining.mark_unready(connection, wanted)


def complete(engine: Engine, manifest: Manifest, joined: Subscription, into: Subscription) -> None:
    """Record that a joining article is the subscription's own, as the subscriber has it already. Idempotent."""
    kind_of(joined.subscriber).forget(joined.subscriber, joined.guid, (), is_added_again=False)
    failpoint("article_joining.before")
    with translated(), engine.begin() as connection:
        joining.lock(connection, joined.agent_id)
        joining.move(connection, joined, into)
    failpoint("article_joining.after")
    # Last: until the article is recorded as the subscription's own, a repeat may need the changes that its entry keeps.
    manifest.append(ReaderLeft(joined.reader))


def copy_again(engine: Engine, holder: Subscription, held: Article) -> bool:
    """Let an article leave a subscription, or one that joins it, and join again: its table is emptied and altered.

    Returns false if it has left already: it was dropped meanwhile, or is copied again.
    """
    with translated(), engine.begin() as connection:
        definitions.require_writable(connection)
        into = joining.lock(connection, holder.joins or holder.agent_id)
        now = joining.lock(connection, holder.agent_id)
        if into is None or now is None or held.article_id not in now.starts:
            return False
        steps = joining.detach_steps(into, now, held)
        # One transaction: at no time does the article belong to no subscription, as one that a user has dropped does.
        for step in (*steps, *joining.join_steps(into, held.article_id, IfExists.TRUNCATE, held)):
            distributor(connection).execute(step)
    return True


def clean(engine: Engine, subscription: Subscription) -> None:
    """Remove what the subscriber has of articles that left a subscription, whose agent has taken over."""
    with translated(), engine.connect() as connection:
        left = joining.list_detached(connection, subscription.agent_id)
        added = {
            known
            for one in subscription_records.list_joining(connection, subscription.agent_id)
            for known in one.starts
        }
    kind = kind_of(subscription.subscriber)
    for guid, article in left:
        if guid == subscription.guid:
            kind.detach(subscription.subscriber, guid, [article])
        else:
            is_added_again = article.article_id in added
            kind.forget(subscription.subscriber, guid, [article], is_added_again=is_added_again)
        with translated(), engine.begin() as connection:
            # After the subscriber: a crash in between repeats the removal there, which finds nothing left.
            joining.forget_detached(connection, subscription.agent_id, guid, article.article_id)


def read_joining(
    engine: Engine, ready: Subscription, since: Position, others: Iterable[Article]
) -> JoiningArticle | None:
    """Return a joining article as its subscriber has it, with what its foreign keys need; None if it is not ready now.

    No details if the subscriber's table was there before: it has the foreign keys that its owner wants.
    """
    with translated(), engine.connect() as connection:
        now = subscription_records.find_subscription(connection, ready.agent_id)
        if now is None or now.state is not SubscriptionState.READY or now.ready_at != since:
            return None
        (article,) = subscription_records.list_subscribed(connection, ready.agent_id)
        is_made = ready.if_exists in (IfExists.FAIL, IfExists.DROP)
        details = read_table_details(connection, article) if is_made else None
        known = tuple((other, read_table_details(connection, other)) for other in others)
        return JoiningArticle(ready.guid, since, article, details, known)


def reinitialize_article(
    engine: Engine, database: str, publication: str, table: str, subscriber: str | None, if_exists: IfExists | None
) -> tuple[str, ...]:
    """Copy a table again to one subscriber or all; return which.

    `if_exists` says what happens to the table there; with None it is dropped, or emptied where the subscription kept
    what was there. Its article leaves the subscription and joins it again: the agents do that, when they run. Raises
    `PublicationUnknown`, `ArticleUnknown`, `PublishedTableDropped`, `SubscriptionUnknown`.
    """
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        definitions.require_writable(connection)
        article = publication_records.get_article(connection, publication, table)
        if article in publication_records.list_dropped(connection):
            raise PublishedTableDropped(article.qualified_name)
        article_id = article.article_id
        joining.lock_articles(connection, publication)
        known = subscription_records.list_subscriptions(connection, publication)
        chosen = [one for one in known if one.joins is None]
        if subscriber is not None:
            address = kind_of(subscriber).address(subscriber)
            chosen = [subscription_records.get_subscription(connection, publication, address)]
        for subscription in chosen:
            held = None
            for holder in known:
                if article_id in holder.starts and subscription.agent_id in (holder.agent_id, holder.joins):
                    held = subscription_records.get_subscriber_article(connection, holder.agent_id, article_id)
                    for step in joining.detach_steps(subscription, holder, held):
                        distributor(connection).execute(step)
            usual = IfExists.TRUNCATE if subscription.settings.keeps_tables else IfExists.DROP
            for step in joining.join_steps(subscription, article_id, if_exists or usual, held):
                distributor(connection).execute(step)
    return tuple(one.subscriber for one in chosen)
