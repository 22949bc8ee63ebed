"""Reading what health knows of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import JSON, Connection, cast, column, func, select, table, text

from rowtide.agents.runs import RunOutcome
from rowtide.cdc.definitions import READER, change_tables, cleanup_requests, require_complete
from rowtide.cdc.jobs.definitions import read_jobs
from rowtide.cdc.jobs.history import HistoricRun, find_last_run
from rowtide.cdc.jobs.parameters import JobType
from rowtide.cdc.jobs.requests import AGENT
from rowtide.cdc.scans.tables import log_scan_errors
from rowtide.databases.postgres.catalogue import has_table, read_tables
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.findings.postgres.capture_facts import read_capture, read_places
from rowtide.findings.postgres.facts import CaptureFacts
from rowtide.findings.postgres.server_facts import read_server
from rowtide.findings.postgres.table_facts import read_table_facts
from rowtide.findings.postgres.tracking_facts import read_tracking
from rowtide.health.facts import (
    CapturingFacts,
    CleanupFacts,
    DeliveryFacts,
    PastError,
    ReadingFacts,
    SubscriptionFacts,
    Unread,
    attempt,
)
from rowtide.health.merge_facts import read_merge
from rowtide.health.postgres.facts import ArticleFacts, DatabaseHealthFacts, LogFacts
from rowtide.log.catalogue import SourceDefinition, find_source, members_table
from rowtide.log.postgres.backlog import read_backlog
from rowtide.log.postgres.lease import find_holder
from rowtide.log.state import ManifestState
from rowtide.log.store import open_store
from rowtide.replication import definitions, history
from rowtide.replication.articles import FEATURE
from rowtide.replication.definitions import APPLICATION_NAME, Subscription, SubscriptionState
from rowtide.replication.history import HistoricState
from rowtide.replication.retention import find_oldest, read_max_retention
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA as SUBSCRIBER_SCHEMA

Known = TypeVar("Known")


def read_facts(url: str) -> DatabaseHealthFacts:
    """Read everything that is judged; what cannot be read is `Unread`. Raises what connecting raises."""
    with _connected(url) as connection:
        server = read_server(connection, url)
        may_stream = server.refusal is None
        return DatabaseHealthFacts(
            server=server,
            log=_attempt(lambda: _read_log(connection, url, may_stream=may_stream)),
            merge=attempt(lambda: read_merge(url)),
            tracking=_attempt(lambda: read_tracking(connection, (), None)),
            delivered_here=_attempt(lambda: _read_delivered(connection)),
        )


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    engine = open_engine(url, application_name="rowtide health")
    with translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


def _attempt(read: Callable[[], Known]) -> Known | Unread:
    def read_translated() -> Known:
        with translated():
            return read()

    return attempt(read_translated)


def _read_log(connection: Connection, url: str, *, may_stream: bool) -> LogFacts | None:
    source = find_source(connection)
    if source is None:
        return None
    capture = read_capture(connection, source, url, may_stream=may_stream)
    state = capture.state
    captured = {instance.source_id for instance in capture.instances}
    has_capture = capture.is_enabled and state is not None
    return LogFacts(
        capture=capture,
        reading=_attempt(lambda: _read_reading(connection, capture)),
        tables=read_table_facts(connection, tuple(captured), named=False, captured=captured),
        capturing=_attempt(lambda: _read_capturing(connection, capture)) if has_capture else None,
        cleanup=_attempt(lambda: _read_cleanup(connection)) if capture.is_enabled else None,
        delivery=_attempt(lambda: _read_delivery(connection, source, state)) if state is not None else None,
        articles=_attempt(lambda: _read_articles(connection, state)),
        places=read_places(capture),
    )


def _read_reading(connection: Connection, capture: CaptureFacts) -> ReadingFacts:
    backlog = read_backlog(connection, capture.source.slot)
    state = capture.state
    return ReadingFacts(
        now=backlog.now,
        reader=capture.log_reader,
        as_of=state.as_of if state is not None else None,
        unread_bytes=max(backlog.log_end - state.position.log, 0) if state is not None else backlog.log_end,
        kept_bytes=backlog.kept_bytes,
        last_error=_find_reading_error(connection),
    )


def _find_reading_error(connection: Connection) -> PastError | None:
    error = history.find_reader_error(connection) if definitions.is_made(connection) else None
    return PastError(error.time, error.error_text) if error is not None else None


def _read_capturing(connection: Connection, capture: CaptureFacts) -> CapturingFacts:
    state = capture.state
    assert state is not None
    reader = state.readers.get(READER)
    store, position = open_store(capture.source.log_store), reader.position if reader is not None else state.low
    return CapturingFacts(
        now=_now(connection),
        capture=find_holder(connection, "lake"),
        instances=len(capture.instances),
        published_as_of=reader.as_of if reader is not None else None,
        oldest_waiting=find_oldest(store, state, position),
        gaps=tuple(f"from {gap.after} up to {gap.before}: {gap.reason}" for gap in state.gaps),
        last_error=_find_last_error(connection),
    )


def _find_last_error(connection: Connection) -> PastError | None:
    """Return the newest error of a scan, or of the capture job where that is newer."""
    require_complete(connection)
    columns = log_scan_errors.c
    query = select(columns.entry_time, columns.error_message).order_by(columns.entry_time.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    of_scan = PastError(*row) if row is not None else None
    of_job = _failure_of(find_last_run(connection, JobType.CAPTURE))
    known = [error for error in (of_scan, of_job) if error is not None]
    return max(known, key=lambda error: error.time, default=None)


def _failure_of(run: HistoricRun | None) -> PastError | None:
    if run is None or run.outcome is not RunOutcome.FAILED or run.ended_at is None:
        return None
    return PastError(run.ended_at, run.message or "an error")


def _read_cleanup(connection: Connection) -> CleanupFacts:
    require_complete(connection)
    job = read_jobs(connection).get(JobType.CLEANUP)
    retention = job.parameters.retention if job is not None else None
    last_cleaned = _find_last_cleaned(connection)
    failure = _failure_of(find_last_run(connection, JobType.CLEANUP))
    is_past = failure is not None and last_cleaned is not None and last_cleaned > failure.time
    return CleanupFacts(
        now=_now(connection),
        schedule=job.parameters.schedule if job is not None else None,
        retention=timedelta(minutes=retention) if retention is not None else None,
        oldest_instance=connection.execute(select(func.min(change_tables.c.create_date))).scalar_one(),
        last_cleaned=last_cleaned,
        last_failure=None if is_past else failure,
        agent=find_holder(connection, AGENT),
    )


def _find_last_cleaned(connection: Connection) -> datetime | None:
    columns = cleanup_requests.c
    is_of_all = columns.capture_instance.is_(None) & columns.low_water_mark.is_(None)
    has_cleaned = cast(columns.outcome, JSON).op("->>")("refusal").is_(None)
    query = select(func.max(columns.finished_at)).where(is_of_all, has_cleaned)
    found: datetime | None = connection.execute(query).scalar_one()
    return found


def _read_delivery(
    connection: Connection, source: SourceDefinition, state: ManifestState | None
) -> DeliveryFacts | None:
    publications = tuple(definitions.list_publications(connection))
    if not publications or state is None:
        return None
    last = history.list_last(connection)
    now = _now(connection)
    return DeliveryFacts(
        now=now,
        is_running=connection.execute(text(_RUNS), {"name": f"{APPLICATION_NAME}%"}).first() is not None,
        retention=read_max_retention(connection),
        publications=publications,
        subscriptions=tuple(
            _read_subscription(source, state, subscription, last.get(subscription.agent_id))
            for subscription in definitions.list_subscriptions(connection)
        ),
    )


def _read_subscription(
    source: SourceDefinition, state: ManifestState, subscription: Subscription, last: HistoricState | None
) -> SubscriptionFacts:
    reader = state.readers.get(subscription.reader)
    store = open_store(source.log_store)
    return SubscriptionFacts(
        publication=subscription.publication,
        subscriber=subscription.subscriber,
        is_paused=subscription.state is SubscriptionState.INACTIVE,
        is_deactivated=reader is None,
        runstatus=last.runstatus if last is not None else None,
        comments=last.comments if last is not None else None,
        oldest_waiting=find_oldest(store, state, reader.position) if reader is not None else None,
    )


def _read_articles(connection: Connection, state: ManifestState | None) -> ArticleFacts:
    columns = members_table.c
    query = select(columns.member_id, columns.name).where(columns.feature == FEATURE).order_by(columns.name)
    met = {member.member_id for member in state.members} if state is not None else set()
    unread = [row.name for row in connection.execute(query) if row.member_id not in met]
    dropped = [f"{gone.schema}.{gone.table}" for gone in definitions.list_dropped(connection)]
    return ArticleFacts(tuple(unread) if state is not None else (), tuple(dropped), tuple(_find_stored(connection)))


def _find_stored(connection: Connection) -> Iterator[str]:
    articles = [article for article in definitions.list_all_articles(connection) if article.generated_columns]
    tables = {table.source_id: table for table in read_tables(connection, [article.source_id for article in articles])}
    for article in articles:
        table = tables.get(article.source_id)
        ordinary = {column.name for column in table.columns if not column.is_generated} if table is not None else set()
        for name in article.generated_columns:
            if name in ordinary:
                yield f"{article.schema}.{article.table}.{name}"


def _read_delivered(connection: Connection) -> tuple[str, ...]:
    if not has_table(connection, SUBSCRIBER_SCHEMA, _PROGRESS.name):
        return ()
    return tuple(connection.execute(select(_PROGRESS.c.publication).distinct().order_by("publication")).scalars())


def _now(connection: Connection) -> datetime:
    now = connection.execute(select(func.clock_timestamp())).scalar_one()
    assert isinstance(now, datetime)
    return now


_RUNS = "select 1 from pg_stat_activity where datname = current_database() and application_name like :name"
_PROGRESS = table("MSreplication_subscriptions", column("publication"), schema=SUBSCRIBER_SCHEMA)
