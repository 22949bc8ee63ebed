"""How far capture is, and what it has stopped with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from rowtide.agents.runs import PastError
from rowtide.cdc.definitions import READER, require_complete
from rowtide.cdc.jobs.history import find_failure
from rowtide.cdc.jobs.parameters import JobType
from rowtide.cdc.scans.tables import log_scan_errors
from rowtide.cdc.snapshot_requests import find_failed, list_visible
from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.log.postgres.lease import find_holder
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.commit_times import find_oldest_waiting
from rowtide.log.store.location import open_store
from rowtide.log.store.state import ManifestState


@dataclass(frozen=True, slots=True)
class CaptureStatus:
    """How far capture is; transactions since `oldest_waiting` were read and are not published, None: none waits.

    `capture` is the process that captures, if any; `last_error` the newest of a scan or of the capture job;
    `failed_snapshots` are the instances whose last snapshot failed, with the errors.
    """

    now: datetime
    capture: str | None
    instances: int
    published_as_of: datetime | None
    oldest_waiting: datetime | None
    gaps: tuple[str, ...]
    last_error: PastError | None
    failed_snapshots: tuple[tuple[str, str], ...] = ()


def read_capture_status(
    connection: Connection, source: SourceDefinition, state: ManifestState, *, instances: int
) -> CaptureStatus:
    """Return how far capture is. Raises `DefinitionsIncomplete`."""
    reader = state.readers.get(READER)
    position = reader.position if reader is not None else state.low
    return CaptureStatus(
        now=read_server_time(connection),
        capture=find_holder(connection, "lake"),
        instances=instances,
        published_as_of=reader.as_of if reader is not None else None,
        oldest_waiting=find_oldest_waiting(open_store(source.log_store), state, position),
        gaps=describe_gaps(state),
        last_error=_find_last_error(connection),
        failed_snapshots=find_failed(list_visible(connection)),
    )


def describe_gaps(state: ManifestState) -> tuple[str, ...]:
    """Return in words which transactions the log store lacks."""
    return tuple(
        f"from {gap.after} up to {gap.before}{', bridged' if gap.bridged else ''}: {gap.reason}" for gap in state.gaps
    )


def _find_last_error(connection: Connection) -> PastError | None:
    """Return the newest error of a scan, or of the capture job where that is newer."""
    require_complete(connection)
    columns = log_scan_errors.c
    query = select(columns.entry_time, columns.error_message).order_by(columns.entry_time.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    of_scan = PastError(*row) if row is not None else None
    of_job = find_failure(connection, JobType.CAPTURE)
    known = [error for error in (of_scan, of_job) if error is not None]
    return max(known, key=lambda error: error.time, default=None)
