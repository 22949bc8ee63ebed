"""Progress of subscriptions, and how their agents stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from sqlalchemy import Connection, Engine, column, select, table, text

from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import is_begun, read_server_time
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.query_memo import made_once
from rowtide.log.postgres import slot
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import find_oldest_waiting, open_made_store, open_own_manifest, open_store
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distributor import history, publication_records, subscription_records
from rowtide.replication.distributor.claims import list_claims
from rowtide.replication.distributor.definitions import SubscriptionState
from rowtide.replication.distributor.history import HistoricState, RunStatus
from rowtide.replication.distributor.publication_records import BY_DEFAULT, Thresholds
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.retention import read_max_retention
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.delivery import ArticleEnded, ArticleSuspended, IdentityUnfit, PublishedTableDropped
from rowtide.replication.status.articles import find_unidentified
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA as SUBSCRIBER_SCHEMA
from rowtide.storage.store import Store


@frozen
class SubscriptionDelivery:
    """How a transactional subscription is delivered.

    `runstatus` and `comments` are those of the newest row of its agent's history, None before the first; `delivered_by`
    is the host and process that it runs in, None while it runs in none. Changes since `oldest_waiting` wait in the log
    store, None where none does; the log store keeps them for the retention. `joining` says what is copied of an
    article that joins a subscription, None of a subscription. `thresholds` are those of the publication.
    `undelivered_rows` and `undelivered_bytes` count whole segments. `latency_s` is that of the agent's last record,
    `total_commands` counts what was delivered by then; None before the first.
    """

    publication: str
    subscriber: str
    is_paused: bool
    is_deactivated: bool
    runstatus: str | None
    comments: str | None
    oldest_waiting: datetime | None
    delivered_by: str | None = None
    joining: str | None = None
    thresholds: Thresholds = BY_DEFAULT
    undelivered_rows: int = 0
    undelivered_bytes: int = 0
    latency_s: float | None = None
    total_commands: int | None = None
    delivery_rate: float | None = None
    """Commands a second of batches, since the agent started; None before the first record."""
    recorded_at: datetime | None = None


@frozen
class DeliveryStatus:
    """The publications of a database and their subscriptions."""

    now: datetime
    retention: timedelta
    publications: tuple[str, ...]
    subscriptions: tuple[SubscriptionDelivery, ...]


def read_delivery_status(
    connection: Connection, source: SourceDefinition, state: ManifestState
) -> DeliveryStatus | None:
    """Return how all subscriptions are delivered, None where nothing is published."""
    publications = tuple(publication_records.list_publications(connection))
    if not publications:
        return None
    last = made_once(history.list_last)(connection)
    claims, thresholds = list_claims(connection), publication_records.read_thresholds(connection)
    now, store = read_server_time(connection), open_store(source.log_store)
    return DeliveryStatus(
        now=now,
        retention=read_max_retention(connection),
        publications=publications,
        subscriptions=tuple(
            replace(
                _describe(
                    subscription,
                    store,
                    state,
                    last.get(subscription.agent_id),
                    claims.get(subscription.agent_id),
                    # One query for each of the few articles that join, none for a subscription.
                    subscription_records.list_subscribed(connection, subscription.agent_id)
                    if subscription.joins is not None
                    else (),
                ),
                thresholds=thresholds.get(subscription.publication, BY_DEFAULT),
            )
            for subscription in subscription_records.list_subscriptions(connection)
        ),
    )


def list_delivered_here(connection: Connection) -> tuple[str, ...]:
    """Return the publications of other databases that are delivered into this one."""
    if not is_begun(connection, SUBSCRIBER_SCHEMA, _PROGRESS.name, made_with="MSreplication_articles"):
        return ()
    return tuple(connection.execute(select(_PROGRESS.c.publication).distinct().order_by("publication")).scalars())


def describe_joining(subscription: Subscription, articles: Iterable[Article]) -> str | None:
    """Describe how far an article that joins a subscription is; None of a subscription. Pure."""
    if subscription.joins is None:
        return None
    tables = ", ".join(article.qualified_name for article in articles)
    match subscription.state:
        case SubscriptionState.INACTIVE:
            return f"{tables} is not copied: paused"
        case SubscriptionState.WAITING:
            return f"{tables} is to be copied"
        case SubscriptionState.ACTIVE:
            return f"{tables} is copied; its commits are not whole yet"
        case SubscriptionState.READY:
            at = CommitLsn(subscription.ready_at.value) if subscription.ready_at is not None else "now"
            return f"{tables} is copied; its commits are whole from LSN {at} on, once it joins"
        case _:
            assert_never(subscription.state)


def list_left_prepared(connection: Connection) -> tuple[str, ...]:
    """Return the transactions that delivery prepared in this database more than a minute ago, and left (gids)."""
    return tuple(connection.execute(text(_LEFT_PREPARED)).scalars())


def _describe(
    subscription: Subscription,
    store: Store,
    state: ManifestState,
    last: HistoricState | None,
    delivered_by: str | None,
    articles: Sequence[Article],
) -> SubscriptionDelivery:
    reader = state.readers.get(subscription.reader)
    undelivered = segments_between(state, reader.position, state.position) if reader is not None else ()
    latency_ms = last.delivery_latency if last is not None else None
    return SubscriptionDelivery(
        publication=subscription.publication,
        subscriber=subscription.subscriber,
        is_paused=subscription.state is SubscriptionState.INACTIVE,
        is_deactivated=reader is None and subscription.joins is None,
        runstatus=last.runstatus if last is not None else None,
        comments=last.comments if last is not None else None,
        oldest_waiting=find_oldest_waiting(store, state, reader.position) if reader is not None else None,
        delivered_by=delivered_by,
        joining=describe_joining(subscription, articles),
        undelivered_rows=sum(segment.rows for segment in undelivered),
        undelivered_bytes=sum(segment.bytes for segment in undelivered),
        latency_s=latency_ms / 1000 if latency_ms is not None else None,
        total_commands=last.total_delivered_commands if last is not None else None,
        delivery_rate=last.delivery_rate if last is not None else None,
        recorded_at=last.time if last is not None else None,
    )


_LEFT_PREPARED = """
select gid from pg_prepared_xacts
where database = current_database() and starts_with(gid, 'rowtide:') and prepared < now() - interval '1 minute'
order by prepared, gid
"""
_PROGRESS = table("MSreplication_subscriptions", column("publication"), schema=SUBSCRIBER_SCHEMA)


@frozen
class SubscriptionStatus:
    """A subscription: active, paused or deactivated. Its reported progress is at most ten seconds old.

    `agent` describes its agent's last state, or that the agent was killed; `delivered_by` is the host and process that
    it runs in, None while it runs in none; `latency_s` is the latency then, from commit
    to commit; None before the first delivery. `copied` says how far its copy is, None if nothing is copied;
    `catch_up_s` estimates how long what waits takes, by the rate at which its agent has delivered since it started;
    None while none delivers. `last_error` is the error that stopped it or that it retries after; else
    the error that keeps the log from being read, or why a published table has ended or is about to.
    `undelivered_commands` counts changes of its articles that wait in the log store, including those that a row filter
    will exclude; `undelivered_rows` and `undelivered_bytes` count whole segments, of which the first was read at
    `oldest_undelivered`. `joining` says how far the article is that this entry is about, which is copied to join the
    subscription; None in the subscription's own. `promise`: what the subscriber's readers see, which depends on the
    number of `streams`. `as_of`: everything committed by then, by the publisher's clock, was read from its log.
    """

    publication: str
    subscriber: str
    articles: int
    state: str
    agent: str | None
    delivered_by: str | None
    last_error: str | None
    latency_s: float | None
    delivered: Position | None
    read: Position
    as_of: datetime | None
    undelivered_commands: int
    undelivered_rows: int
    undelivered_bytes: int
    oldest_undelivered: datetime | None
    joining: str | None = None
    streams: int = 1
    promise: str = ""
    copied: str | None = None
    catch_up_s: float | None = None


def read_status(engine: Engine, database: str, publication: str | None = None) -> tuple[SubscriptionStatus, ...]:
    """Return the subscriptions of a publication, or of all. Raises `DatabaseNotPublished`, `PublicationUnknown`."""
    with translated(), engine.connect() as connection:
        source = read_source(connection, database, StoreFormat.require_readable)
        if publication is not None:
            publication_records.get_publication(connection, publication)
        subscriptions = subscription_records.list_subscriptions(connection, publication)
        subscribed_by = subscription_records.list_all_subscribed(connection)
        articles = [subscribed_by.get(found.agent_id, ()) for found in subscriptions]
        last = history.list_last(connection) if subscriptions else {}
        dropped = publication_records.list_dropped(connection)
        unidentified = find_unidentified(connection) if subscriptions else {}
        claims = list_claims(connection)
        # Before the position, which a log reader moves before it confirms it.
        seen = slot.find_slot(connection, source.slot)
        store = open_made_store(source)
        state = open_own_manifest(source, store).state
        reading_error = _find_reading_error(connection, source, seen, state) if subscriptions else None
    return tuple(
        describe(
            subscription,
            state,
            count_pending(store, state, subscription, subscribed),
            AgentStanding(last.get(subscription.agent_id), claims.get(subscription.agent_id), reading_error),
            TablesStanding(
                (
                    *_find_ended(subscription, subscribed, dropped, state),
                    *(unidentified[article.article_id] for article in subscribed if article.article_id in unidentified),
                ),
                describe_joining(subscription, subscribed),
                _find_stopped(subscription, subscriptions, articles, last, state),
            ),
        )
        for subscription, subscribed in zip(subscriptions, articles, strict=True)
    )


@frozen
class AgentStanding:
    """How a subscription's agent stands: its last state in the history, and `delivered_by`, where it runs.

    `reading_error` is why the log cannot be read.
    """

    last: HistoricState | None
    delivered_by: str | None = None
    reading_error: str | None = None


@frozen
class TablesStanding:
    """How a subscription's tables stand: those that `ended` or are about to, with reasons, and what is `joining`.

    `stopped` are the tables of which nothing is delivered.
    """

    ended: Sequence[ArticleEnded | IdentityUnfit] = ()
    joining: str | None = None
    stopped: Sequence[str] = ()


def describe(
    subscription: Subscription,
    state: ManifestState,
    undelivered_commands: int,
    agent: AgentStanding,
    tables: TablesStanding,
) -> SubscriptionStatus:
    """Build the status of a subscription from what was read. Pure."""
    last, delivered_by = agent.last, agent.delivered_by
    reader = state.readers.get(subscription.reader)
    undelivered = segments_between(state, reader.position if reader is not None else state.low, state.position)
    has_error = last is not None and last.error_id is not None
    latency_ms = last.delivery_latency if last is not None else None
    return SubscriptionStatus(
        publication=subscription.publication,
        subscriber=redact(subscription.subscriber),
        articles=len(subscription.starts),
        state=_describe_joining(tables.joining, tables.stopped)
        or _describe_state(subscription, tables.stopped, is_read=reader is not None),
        agent=_describe_agent(last, is_running=delivered_by is not None) if last is not None else None,
        delivered_by=delivered_by,
        last_error=last.comments
        if last is not None and has_error
        else agent.reading_error or _describe_ended(tables.ended),
        latency_s=latency_ms / 1000 if latency_ms is not None else None,
        delivered=reader.position if reader is not None else None,
        read=state.position,
        as_of=state.as_of,
        undelivered_commands=undelivered_commands,
        undelivered_rows=sum(segment.rows for segment in undelivered),
        undelivered_bytes=sum(segment.bytes for segment in undelivered),
        oldest_undelivered=min((segment.created_at for segment in undelivered), default=None),
        joining=tables.joining,
        streams=subscription.settings.streams,
        promise=_describe_assumption(subscription.settings.streams),
        copied=_describe_copied(last),
        catch_up_s=_estimate_catch_up(last, undelivered_commands) if delivered_by is not None else None,
    )


def _find_reading_error(
    connection: Connection, source: SourceDefinition, seen: slot.SlotState | None, state: ManifestState
) -> str | None:
    """Return the error that keeps the log from being read, if it was not read since."""
    try:
        slot.require_usable(seen, source.slot, state.position.log)
        slot.verify_publication(connection, source)
    except RowtideError as error:
        return str(error)
    recorded = history.find_reader_error(connection)
    is_past = recorded is None or (state.as_of is not None and recorded.time <= state.as_of)
    return None if is_past or recorded is None else recorded.text


def _describe_assumption(streams: int) -> str:
    if streams == 1:
        return "each commit is visible whole"
    return f"only between batches are commits visible whole: {streams} streams commit one after the other"


def _describe_joining(joining: str | None, stopped: Sequence[str]) -> str | None:
    return f"stopped: {joining}" if joining is not None and stopped else joining


def _describe_state(subscription: Subscription, stopped: Sequence[str], *, is_read: bool) -> str:
    if not is_read:
        return "deactivated"
    state = "paused" if subscription.state is SubscriptionState.INACTIVE else "active"
    return f"{state} without {', '.join(stopped)}" if stopped else state


def _find_stopped(
    subscription: Subscription,
    subscriptions: Sequence[Subscription],
    articles: Sequence[Sequence[Article]],
    last: Mapping[int, HistoricState],
    state: ManifestState,
) -> tuple[str, ...]:
    """Return the tables of a subscription, or of an article that joins one, of which nothing is delivered any more."""
    found: dict[str, None] = {}
    for one, subscribed in zip(subscriptions, articles, strict=True):
        if subscription.agent_id not in (one.agent_id, one.joins):
            continue
        newest = last.get(one.agent_id)
        has_failed = one.joins is not None and newest is not None and newest.runstatus == RunStatus.FAIL.words
        lacking = {each.member_id for each in state.lacking(one.reader)}
        for article in subscribed:
            if has_failed or article.article_id in lacking:
                found[article.qualified_name] = None
    return tuple(found)


def _describe_copied(last: HistoricState | None) -> str | None:
    if last is None or not last.comments.startswith(history.COPYING):
        return None
    return last.comments.removeprefix(history.COPYING).rstrip(".")


def _estimate_catch_up(last: HistoricState | None, undelivered_commands: int) -> float | None:
    if undelivered_commands == 0:
        return 0.0
    rate = None if last is None else last.delivery_rate
    return round(undelivered_commands / rate, 1) if rate else None


def _find_ended(
    subscription: Subscription, subscribed: Sequence[Article], dropped: Sequence[Article], state: ManifestState
) -> tuple[ArticleEnded, ...]:
    """Return why tables ended, as long as they are ended, whatever later history rows say."""
    lacking = {one.member_id: one for one in reversed(state.lacking(subscription.reader))}
    suspended = [
        (article.qualified_name, lacking[article.article_id]) for article in subscribed if article.article_id in lacking
    ]
    gone = [article.qualified_name for article in subscribed if article in dropped]
    return (
        *([PublishedTableDropped(", ".join(gone))] if gone else []),
        *(ArticleSuspended(table, str(one.lsn), one.reason) for table, one in suspended),
    )


def _describe_ended(ended: Sequence[ArticleEnded | IdentityUnfit]) -> str | None:
    return " ".join(map(str, ended)) or None


def _describe_agent(last: HistoricState, *, is_running: bool) -> str:
    """Return an agent's state in words: a killed agent has left no final row."""
    has_ended = last.runstatus in (RunStatus.SUCCEED.words, RunStatus.FAIL.words)
    return last.runstatus if has_ended or is_running else _LOST


_LOST = "lost"


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
