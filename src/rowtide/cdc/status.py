"""The status of change data capture in a database, read without Spark and without changes.

Commands print it, `rowtide.diagnosis` checks it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import JSON, Connection, Engine, cast, func, select

from rowtide.agents.loop import PastError, RunOutcome
from rowtide.cdc import definitions
from rowtide.cdc.consumers.consumers import Consumer, ListedConsumer, list_consumers
from rowtide.cdc.errors.capturing import RequestPricesInvalid
from rowtide.cdc.jobs.definitions import Job, JobType, find_failure, find_last_run, read_jobs
from rowtide.cdc.jobs.requests import AGENT
from rowtide.cdc.scans.metrics import log_scan_errors, log_scan_sessions
from rowtide.cdc.scans.pace import saving_period_s
from rowtide.cdc.snapshot_requests import RequestState, SnapshotRequest, find_failed, list_visible
from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.databases.postgres.errors import translated
from rowtide.log.postgres.backlog import Backlog, ReadingStatus, describe_reading, read_backlog, seconds_between
from rowtide.log.postgres.lease import find_holder
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import Segment
from rowtide.log.store.location import find_oldest_waiting, open_own_manifest, open_store
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.storage.places import is_object_url


@frozen
class CaptureStatus:
    """How far capture is; transactions since `oldest_waiting` were read and are not published, None: none waits.

    `capture` is the process that captures, if any; `last_error` the newest of a scan or of the capture job;
    `failed_snapshots` are the instances whose last snapshot failed, with the errors. `rest_s` is how long it may rest
    between two cycles: as its job says, or to save requests to a bucket. `awaits_start`: an agent runs whose job has
    failed or was stopped; it begins again when it is started.
    """

    now: datetime
    capture: str | None
    instances: int
    published_as_of: datetime | None
    oldest_waiting: datetime | None
    gaps: tuple[str, ...]
    last_error: PastError | None
    failed_snapshots: tuple[tuple[str, str], ...] = ()
    rest_s: float = 0.0
    awaits_start: bool = False


def read_capture_status(
    connection: Connection, source: SourceDefinition, state: ManifestState, *, instances: int
) -> CaptureStatus:
    """Return how far capture is. Raises `DefinitionsIncomplete`."""
    reader = state.readers.get(definitions.READER)
    position = reader.position if reader is not None else state.low
    job = read_jobs(connection).get(JobType.CAPTURE)
    return CaptureStatus(
        now=read_server_time(connection),
        capture=find_holder(connection, "lake"),
        instances=instances,
        published_as_of=reader.as_of if reader is not None else None,
        oldest_waiting=find_oldest_waiting(open_store(source.log_store), state, position),
        gaps=describe_gaps(state),
        last_error=_find_last_error(connection),
        failed_snapshots=find_failed(list_visible(connection)),
        rest_s=_find_rest(job, source, instances),
        awaits_start=job is not None and _has_ended(connection) and find_holder(connection, AGENT) is not None,
    )


def _has_ended(connection: Connection) -> bool:
    """Return whether an agent leaves capture alone until it is started."""
    run = find_last_run(connection, JobType.CAPTURE)
    return run is not None and run.outcome in {RunOutcome.FAILED, RunOutcome.STOPPED}


def _find_rest(job: Job | None, source: SourceDefinition, instances: int) -> float:
    if job is not None and job.parameters.pollinginterval is not None:
        return job.parameters.pollinginterval
    is_at_bucket = any(map(is_object_url, filter(None, (source.lake, source.log_store))))
    return saving_period_s(instances) if is_at_bucket else 0.0


def describe_gaps(state: ManifestState) -> tuple[str, ...]:
    """Return in words which transactions the log store lacks."""
    return tuple(
        f"from {gap.after} up to {gap.before}{', reconciled' if gap.bridged else ''}: {gap.reason}"
        for gap in state.gaps
    )


def _find_last_error(connection: Connection) -> PastError | None:
    """Return the newest error of a scan, or of the capture job where that is newer."""
    definitions.require_complete(connection)
    columns = log_scan_errors.c
    query = select(columns.entry_time, columns.error_message).order_by(columns.entry_time.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    of_scan = PastError(*row) if row is not None else None
    of_job = find_failure(connection, JobType.CAPTURE)
    known = [error for error in (of_scan, of_job) if error is not None]
    return max(known, key=lambda error: error.time, default=None)


@frozen
class CleanupStatus:
    """How change rows are removed.

    `last_cleaned` is when a cleanup of all instances last ended well, None before the first; `oldest_instance` is when
    the oldest was enabled. `last_failure` is that of the job's newest run, None where that did not fail. Without a
    job `schedule` and `retention` are None.
    """

    now: datetime
    schedule: str | None
    retention: timedelta | None
    oldest_instance: datetime | None
    last_cleaned: datetime | None
    last_failure: PastError | None
    agent: str | None


def read_cleanup_status(connection: Connection) -> CleanupStatus:
    """Return how change rows are removed. Raises `DefinitionsIncomplete`."""
    definitions.require_complete(connection)
    job = read_jobs(connection).get(JobType.CLEANUP)
    retention = job.parameters.retention if job is not None else None
    last_cleaned = _find_last_cleaned(connection)
    failure = find_failure(connection, JobType.CLEANUP)
    is_past = failure is not None and last_cleaned is not None and last_cleaned > failure.time
    return CleanupStatus(
        now=read_server_time(connection),
        schedule=job.parameters.schedule if job is not None else None,
        retention=timedelta(minutes=retention) if retention is not None else None,
        oldest_instance=connection.execute(select(func.min(definitions.change_tables.c.create_date))).scalar_one(),
        last_cleaned=last_cleaned,
        last_failure=None if is_past else failure,
        agent=find_holder(connection, AGENT),
    )


def _find_last_cleaned(connection: Connection) -> datetime | None:
    columns = definitions.cleanup_requests.c
    is_of_all = columns.capture_instance.is_(None) & columns.low_water_mark.is_(None)
    has_cleaned = cast(columns.outcome, JSON).op("->>")("refusal").is_(None)
    query = select(func.max(columns.finished_at)).where(is_of_all, has_cleaned)
    found: datetime | None = connection.execute(query).scalar_one()
    return found


# How far reading and capture are, and what the server keeps for them: read without Spark, changing nothing. Of the
# lake it reports what capture has noted in the log store's manifest: position, cycle and time of what is published,
# at most ten seconds old.

PRICES_VARIABLE = "ROWTIDE_REQUEST_PRICES"
_DAY_S, _MONTH_DAYS = 86_400, 30
_LEAST_S = 10.0


@frozen
class RequestPrices:
    """Prices of a thousand requests, by default Amazon S3's in us-east-1, in dollars."""

    writes: float = 0.005
    reads: float = 0.0004

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> RequestPrices:
        """Return those that a variable names, of a thousand PUT or LIST and of a thousand GET. Raises
        `RequestPricesInvalid`.
        """
        text = environment.get(PRICES_VARIABLE, "").strip()
        if not text:
            return cls()
        try:
            writes, reads = (float(part) for part in text.split(","))
        except ValueError:
            raise RequestPricesInvalid(text) from None
        if not (0 <= writes < float("inf") and 0 <= reads < float("inf")):
            raise RequestPricesInvalid(text)
        return cls(writes, reads)


@frozen
class RequestRate:
    """Requests and bytes in a number of seconds."""

    writes: int
    reads: int
    transferred: int
    seconds: float

    def describe(self, prices: RequestPrices) -> str:
        """Return them for a day, with the price for a month of 30 days."""
        writes, reads, transferred = (
            round(found / self.seconds * _DAY_S) for found in (self.writes, self.reads, self.transferred)
        )
        month = _MONTH_DAYS * (writes * prices.writes + reads * prices.reads) / 1000
        return (
            f"{writes:,} PUT and LIST, {reads:,} GET, {transferred / 2**20:,.0f} MiB a day at the rate of the last "
            f"{self.seconds:,.0f} s: {month:,.2f} a month, at {prices.writes:g} and {prices.reads:g} a thousand"
        )


def read_request_rate(connection: Connection) -> RequestRate | None:
    """Return the rate of the last scans; None if they asked nothing of a bucket, or have only begun."""
    columns = log_scan_sessions.c
    # A standby cannot read the table, which is unlogged; and it may have been dropped.
    may_read = func.has_table_privilege(func.to_regclass(str(log_scan_sessions)), "select")
    if not connection.execute(select(may_read & ~func.pg_is_in_recovery())).scalar_one():
        return None
    query = select(
        func.sum(columns.write_requests),
        func.sum(columns.read_requests),
        func.sum(columns.transferred_bytes),
        func.extract("epoch", func.max(columns.end_time) - func.min(columns.start_time)),
    ).where(columns.session_id > 0, columns.write_requests.is_not(None))
    writes, reads, transferred, seconds = connection.execute(query).one()
    if writes is None or seconds < _LEAST_S:
        return None
    return RequestRate(int(writes), int(reads), int(transferred), float(seconds))


def describe_requests(connection: Connection) -> str | None:
    """Return the rate in words, at the prices of this process's environment. Raises `RequestPricesInvalid`."""
    prices = RequestPrices.of(os.environ)
    rate = read_request_rate(connection)
    return rate.describe(prices) if rate is not None else None


_SNAPSHOTS_SHOWN = 5


@frozen
class Status:
    """Facts about one database; sizes in bytes, times by the source's clock, None for what is not known or not there.

    See `docs/reference/status.md` for what each means.
    """

    database: str
    log_reader: str | None
    capture: str | None
    position: Position
    as_of: datetime | None
    log_end: Position
    lag_bytes: int
    lag_seconds: float | None
    slot: str
    wal_status: str
    kept_wal_bytes: int | None
    safe_wal_size: int | None
    wal_kept_by: str | None
    oldest_prepared: str | None
    oldest_transaction: str | None
    log_store: str
    log_store_bytes: int
    unread_bytes: int
    unread_rows: int
    published_position: Position | None
    published_cycle: int | None
    published_as_of: datetime | None
    capture_lag_seconds: float | None
    instances: int
    gaps: tuple[str, ...]
    consumers: tuple[str, ...]
    snapshots: tuple[str, ...]
    requests: str | None = None


@frozen
class CatalogueStatus:
    """What the source database says: the holders of its leases, and what is enabled and requested there."""

    log_reader: str | None
    capture: str | None
    instances: int
    consumers: Sequence[Consumer]
    snapshots: Sequence[SnapshotRequest] = ()
    requests: str | None = None


def read_status(engine: Engine, database: str) -> Status:
    """Read a database's status. Raises `DatabaseNotEnabled`, `ManifestMissing`."""
    with translated(), engine.connect() as connection:
        source = definitions.read_source(connection, database, StoreFormat.require_readable)
        # The manifest first, so that a log reader which continues meanwhile is never reported as ahead of the server.
        manifest = open_own_manifest(source)
        return describe(
            database,
            source,
            manifest.state,
            read_backlog(connection, source.slot),
            CatalogueStatus(
                log_reader=find_holder(connection, "log"),
                capture=find_holder(connection, "lake"),
                instances=len(definitions.list_catalogue(connection)),
                consumers=list_consumers(connection),
                snapshots=list_visible(connection),
                requests=describe_requests(connection),
            ),
        )


def describe(
    database: str, source: SourceDefinition, state: ManifestState, backlog: Backlog, catalogue: CatalogueStatus
) -> Status:
    """Put together what was read. Pure."""
    reading = describe_reading(backlog, state, catalogue.log_reader)
    assert reading.unread_bytes is not None
    reader = state.readers.get(definitions.READER)
    unread = unpublished_segments(state)
    published_as_of = reader.as_of if reader is not None else None
    return Status(
        database=database,
        log_reader=catalogue.log_reader,
        capture=catalogue.capture,
        position=state.position,
        as_of=state.as_of,
        log_end=Position.of(state.epoch, backlog.log_end),
        lag_bytes=reading.unread_bytes,
        lag_seconds=reading.lag_s,
        slot=source.slot,
        wal_status=backlog.wal_status,
        kept_wal_bytes=backlog.kept_bytes,
        safe_wal_size=backlog.safe_bytes,
        wal_kept_by=backlog.find_cause(catalogue.log_reader),
        oldest_prepared=str(backlog.oldest_prepared) if backlog.oldest_prepared else None,
        oldest_transaction=str(backlog.oldest_open) if backlog.oldest_open else None,
        log_store=source.log_store,
        log_store_bytes=_bytes_of(state.segments),
        unread_bytes=_bytes_of(unread),
        unread_rows=sum(segment.rows for segment in unread),
        published_position=reader.position if reader is not None else None,
        published_cycle=reader.cycle if reader is not None else None,
        published_as_of=published_as_of,
        capture_lag_seconds=capture_lag_s(state, reading),
        instances=catalogue.instances,
        gaps=describe_gaps(state),
        consumers=tuple(_describe_consumer(consumer.describe(published_as_of)) for consumer in catalogue.consumers),
        snapshots=_describe_snapshots([request for request in catalogue.snapshots if request.is_open]),
        requests=catalogue.requests,
    )


def unpublished_segments(state: ManifestState) -> tuple[Segment, ...]:
    """Return the segments of the log store that capture has not published. Pure."""
    reader = state.readers.get(definitions.READER)
    return segments_between(state, reader.position if reader is not None else state.low, state.position)


def capture_lag_s(state: ManifestState, reading: ReadingStatus) -> float | None:
    """Return how long ago all was published that was committed by then; None where it is not known. Pure."""
    reader = state.readers.get(definitions.READER)
    published_as_of = reader.as_of if reader is not None else None
    # With nothing to capture, everything that was read counts as published.
    return seconds_between(published_as_of, reading.now) if unpublished_segments(state) else reading.lag_s


def _describe_snapshots(open_ones: Sequence[SnapshotRequest]) -> tuple[str, ...]:
    """Return some in words, those that are being copied first, and how many others there are by their states."""
    ordered = sorted(open_ones, key=lambda request: request.state is not RequestState.COPYING)
    shown = tuple(map(_describe_snapshot, ordered[:_SNAPSHOTS_SHOWN]))
    others = Counter(_state_of(request) for request in ordered[_SNAPSHOTS_SHOWN:])
    if not others:
        return shown
    counts = ", ".join(f"{count} {state}" for state, count in others.most_common())
    return (*shown, f"{others.total()} more ({counts}): `rowtide cdc snapshots` lists them")


def _state_of(request: SnapshotRequest) -> str:
    return "paused" if request.is_paused else request.state.value


def _describe_snapshot(request: SnapshotRequest) -> str:
    about = f" of about {request.estimated_rows:,}" if request.estimated_rows else ""
    left = f", about {request.remaining_s} s left" if request.remaining_s is not None else ""
    state = _state_of(request)
    outcome = f": {request.outcome}" if request.outcome else ""
    return f"{request.capture_instance}: {state}, {request.copied_rows:,} rows{about}{left}{outcome}"


def _describe_consumer(listed: ListedConsumer) -> str:
    behind = f"{listed.consumer}: {listed.lag_seconds:.0f} s behind"
    if not listed.is_at_risk:
        return behind
    return f"{behind}, {max(listed.hours_left, 0)} hours before cleanup passes it"


def _bytes_of(segments: tuple[Segment, ...]) -> int:
    return sum(segment.bytes for segment in segments)
