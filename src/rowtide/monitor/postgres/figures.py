"""Read what only metrics need: the records of agents, and ages of transactions.

Of tables of history the last rows are read, and counters take the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from sqlalchemy import Connection, column, func, select, table, text

from rowtide.cdc.jobs.definitions import list_runs
from rowtide.cdc.scans.metrics import log_scan_errors, log_scan_sessions
from rowtide.cdc.snapshot_requests import list_visible
from rowtide.databases.postgres.catalogue import has_table
from rowtide.databases.postgres.compiled_statements import COMPILED_WITH_NONE
from rowtide.databases.postgres.functions import map_schemas
from rowtide.databases.postgres.query_memo import made_once
from rowtide.diagnosis.postgres.reading import LogFacts, PostgresWorkFacts, attempt_here
from rowtide.diagnosis.postgres.server_facts import is_merged, sees_others
from rowtide.diagnosis.result import Known, Unread
from rowtide.merge.definitions import SCHEMA as MERGE_SCHEMA, article_history, publications, sessions, subscriptions
from rowtide.monitor.snapshot import (
    DIRECTIONS,
    Cycle,
    FoundConflict,
    MergedRows,
    MergeRun,
    NumberedError,
    PolledCopy,
    PolledFigures,
    PolledJobRun,
    TokenArrival,
)
from rowtide.replication.distributor.definitions import agents, is_made, publications as published
from rowtide.replication.distributor.history import distribution_history, errors
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.tracers import tracer_history, tracer_tokens
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA as SUBSCRIBER_SCHEMA

_MOST_ROWS = 1000
"""The number of rows that are read of each table of history; a poll needs those of the last 15 seconds."""


def read_figures(connection: Connection, work: PostgresWorkFacts) -> PolledFigures:
    """Read the figures of the features that `work` says are used. Merge comes last: `map_merge` stays in force."""
    log = work.log if isinstance(work.log, LogFacts) else None
    is_captured: bool | Unread = log is not None and log.capture.is_enabled
    is_published: bool | Unread = log is not None and attempt_here(lambda: is_made(connection))
    if isinstance(work.log, Unread):
        is_captured = is_published = work.log
    is_subscriber = work.delivered_here != ()
    is_node = is_merged(connection)

    def read_if(
        is_there: bool | Unread,  # noqa: FBT001
        read: Callable[[Connection], Known],
        default: Known,
    ) -> Known | Unread:
        if isinstance(is_there, Unread):
            return is_there
        return attempt_here(lambda: read(connection)) if is_there else default

    return PolledFigures(
        oldest_s=_read_oldest(connection, work),
        invalidation=_find_invalidation(connection, log.capture.source.slot) if log is not None else None,
        cycles=read_if(is_captured, _list_cycles, ()),
        capture_rows=read_if(is_captured, _count_rows, None),
        scan_errors=read_if(is_captured, _list_scan_errors, ()),
        runs=read_if(is_captured, _list_runs, ()),
        copying=read_if(is_captured, _list_copying, ()),
        delivery_errors=read_if(is_published, _list_delivery_errors, ()),
        arrivals=read_if(is_published, _list_arrivals, ()),
        conflicts=read_if(is_subscriber, _list_conflicts, ()),
        merge_runs=read_if(is_node, _list_merge_runs, ()),
        merged_rows=read_if(is_node, _list_merged_rows, ()),
        table_changes=read_if(is_captured or is_published, _count_table_changes, {}),
    )


def map_merge(connection: Connection) -> Connection:
    """Map merge's tables, whose definitions name no schema, to merge's schema, or to its views for a monitor's role.

    The options of the connection itself are changed: later queries of it have this mapping too.
    """
    schemas = map_schemas(connection, {None: MERGE_SCHEMA})
    return connection.execution_options(schema_translate_map=schemas, compiled_cache=COMPILED_WITH_NONE)


def _read_oldest(connection: Connection, work: PostgresWorkFacts) -> dict[str, float]:
    """Return the age of the oldest transaction by kind: prepared, writing, or open at all."""
    server = work.server
    found = {"prepared": max((one.age_s for one in server.prepared), default=0.0)}
    if sees_others(connection):
        found["open"] = max((one.age_s for one in server.transactions), default=0.0)
        found["writing"] = max((one.age_s for one in server.transactions if one.has_written), default=0.0)
    return found


def _find_invalidation(connection: Connection, slot: str) -> str | None:
    # Through JSON, because PostgreSQL 16 has no such column.
    query = "select to_jsonb(s) ->> 'invalidation_reason' from pg_replication_slots s where slot_name = :slot"
    found: str | None = connection.execute(text(query), {"slot": slot}).scalar()
    return found


@made_once
def _list_cycles(connection: Connection) -> tuple[Cycle, ...]:
    columns = log_scan_sessions.c
    query = select(
        columns.session_id,
        columns.scan_phase,
        columns.duration,
        columns.end_time,
        columns.command_count,
        columns.tran_count,
    ).where(columns.session_id > 0)
    return tuple(Cycle(*row) for row in connection.execute(query.order_by(columns.session_id)))


@made_once
def _count_rows(connection: Connection) -> int:
    """Return the changes of all cycles, which session 0 sums up."""
    columns = log_scan_sessions.c
    return int(connection.execute(select(columns.command_count).where(columns.session_id == 0)).scalar() or 0)


@made_once
def _list_scan_errors(connection: Connection) -> tuple[NumberedError, ...]:
    columns = log_scan_errors.c
    query = select(columns.session_id, columns.error_number, columns.entry_time).order_by(columns.session_id)
    return tuple(NumberedError(row[0], str(row[1]), at=row[2]) for row in connection.execute(query))


def _list_runs(connection: Connection) -> tuple[PolledJobRun, ...]:
    """Return the runs of the jobs, oldest first."""
    return tuple(
        PolledJobRun(
            run.run_id, run.job_type.value, run.retries, run.outcome, run.ended_at, run.started_at, run.message
        )
        for run in reversed(list_runs(connection))
    )


def _list_copying(connection: Connection) -> tuple[PolledCopy, ...]:
    return tuple(
        PolledCopy(
            one.capture_instance,
            max(one.estimated_rows - one.copied_rows, 0) if one.estimated_rows is not None else None,
            one.copied_rows,
            one.remaining_s,
            one.is_paused,
        )
        for one in list_visible(connection)
        if one.is_open
    )


@made_once
def _list_delivery_errors(connection: Connection) -> tuple[NumberedError, ...]:
    """Return the last errors of agents and of the log reader, oldest first."""
    of_agent = distribution_history.join(agents, agents.c.id == distribution_history.c.agent_id).join(
        published, published.c.publication_id == agents.c.publication_id
    )
    query = (
        select(errors.c.id, errors.c.error_code, published.c.publication, agents.c.subscriber, errors.c.time)
        .select_from(errors.outerjoin(of_agent, distribution_history.c.error_id == errors.c.id))
        .order_by(errors.c.id.desc())
        .limit(_MOST_ROWS)
    )
    return _oldest_first(NumberedError(*row) for row in distributor(connection).execute(query))


@made_once
def _list_arrivals(connection: Connection) -> tuple[TokenArrival, ...]:
    """Return the last tokens that arrived, in the order in which they did."""
    query = (
        select(
            tracer_history.c.subscriber_commit,
            published.c.publication,
            agents.c.subscriber,
            tracer_tokens.c.publisher_commit,
            tracer_tokens.c.distributor_commit,
        )
        .select_from(tracer_history.join(tracer_tokens).join(agents, agents.c.id == tracer_history.c.agent_id))
        .join(published, published.c.publication_id == tracer_tokens.c.publication_id)
        .where(tracer_history.c.subscriber_commit.is_not(None))
        .order_by(tracer_history.c.subscriber_commit.desc())
        .limit(_MOST_ROWS)
    )
    return _oldest_first(_arrival(*row) for row in distributor(connection).execute(query))


def _arrival(
    arrived: datetime, publication: str, subscriber: str, committed: datetime | None, stored: datetime | None
) -> TokenArrival:
    return TokenArrival(
        arrived_at=arrived,
        publication=publication,
        subscriber=subscriber,
        # Of clocks that differ: a latency below 0 is 0.
        log_s=max((stored - committed).total_seconds(), 0.0) if committed and stored else None,
        delivery_s=max((arrived - stored).total_seconds(), 0.0) if stored else None,
    )


_CONFLICTS = table("MSconflicts", column("id"), column("subscription_guid"), column("kind"), schema=SUBSCRIBER_SCHEMA)
_DELIVERED = table(
    "MSreplication_subscriptions", column("subscription_guid"), column("publication"), schema=SUBSCRIBER_SCHEMA
)


@made_once
def _list_conflicts(connection: Connection) -> tuple[FoundConflict, ...]:
    """Return the last conflicts of changes delivered into this database, oldest first."""
    if not has_table(connection, SUBSCRIBER_SCHEMA, _CONFLICTS.name):
        return ()
    query = (
        select(_CONFLICTS.c.id, func.coalesce(_DELIVERED.c.publication, ""), _CONFLICTS.c.kind)
        .select_from(_CONFLICTS.outerjoin(_DELIVERED, _DELIVERED.c.subscription_guid == _CONFLICTS.c.subscription_guid))
        .order_by(_CONFLICTS.c.id.desc())
        .limit(_MOST_ROWS)
    )
    return _oldest_first(FoundConflict(*row) for row in connection.execute(query))


def _list_merge_runs(connection: Connection) -> tuple[MergeRun, ...]:
    query = (
        select(sessions.c.session_id, publications.c.name, sessions.c.duration)
        .select_from(sessions.join(subscriptions, subscriptions.c.subid == sessions.c.subid))
        .join(publications, publications.c.pubid == subscriptions.c.pubid)
        .order_by(sessions.c.session_id.desc())
        .limit(_MOST_ROWS)
    )
    return _oldest_first(MergeRun(*row) for row in map_merge(connection).execute(query))


_DIRECTIONS = dict(enumerate(DIRECTIONS, 1))


def _list_merged_rows(connection: Connection) -> tuple[MergedRows, ...]:
    columns = article_history.c
    sums = [func.sum(column) for column in (columns.inserts, columns.updates, columns.deletes)]
    query = (
        select(columns.session_id, columns.phase, *sums)
        .group_by(columns.session_id, columns.phase)
        .order_by(columns.session_id.desc())
        .limit(2 * _MOST_ROWS)
    )
    rows = map_merge(connection).execute(query)
    return _oldest_first(MergedRows(run, _DIRECTIONS[phase], *map(int, counts)) for run, phase, *counts in rows)


# By the functions: the view would aggregate all tables and indexes of the database.
_TABLE_CHANGES = """
select n.nspname || '.' || c.relname,
       pg_stat_get_tuples_inserted(c.oid) + pg_stat_get_tuples_updated(c.oid) + pg_stat_get_tuples_deleted(c.oid)
from (select distinct prrelid from pg_catalog.pg_publication_rel) p
join pg_catalog.pg_class c on c.oid = p.prrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname not in ('rowtide', 'cdc', 'distribution')
order by 2 desc limit 500
"""


@made_once
def _count_table_changes(connection: Connection) -> dict[str, int]:
    """Return the changes of the busiest tables that publications of the log have, as statistics count them."""
    return {name: int(changes) for name, changes in connection.execute(text(_TABLE_CHANGES))}


def _oldest_first(found: Iterable[Known]) -> tuple[Known, ...]:
    return tuple(reversed(tuple(found)))
