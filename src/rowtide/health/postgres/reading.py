"""Reading what health knows of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection

from rowtide.cdc.definitions import READER as CAPTURE_READER
from rowtide.cdc.status import read_capture_status, read_cleanup_status
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.findings.postgres.capture_facts import read_capture, read_places
from rowtide.findings.postgres.facts import CaptureFacts
from rowtide.findings.postgres.server_facts import read_server
from rowtide.findings.postgres.table_facts import read_table_facts
from rowtide.findings.postgres.tracking_facts import read_tracking
from rowtide.health.facts import ReadingFacts, Unread, attempt
from rowtide.health.merge_facts import read_merge
from rowtide.health.postgres.facts import DatabaseHealthFacts, LogFacts
from rowtide.log.catalogue import find_source
from rowtide.log.postgres.backlog import read_backlog
from rowtide.log.postgres.status import describe_reading
from rowtide.replication.distributor.history import find_reader_error
from rowtide.replication.status import (
    list_delivered_here,
    list_left_prepared,
    read_articles_status,
    read_delivery_status,
)
from rowtide.targets.definitions import list_targets
from rowtide.targets.listing import list_tables

if TYPE_CHECKING:
    from rowtide.cdc.ddl.history import ListedChange
    from rowtide.cdc.instances import Instance
    from rowtide.cdc.status.outdated import RowsLeft
    from rowtide.log.store.state import ManifestState
    from rowtide.targets.listing import ListedTarget

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
            delivered_here=_attempt(lambda: list_delivered_here(connection)),
            left_prepared=_attempt(lambda: list_left_prepared(connection)),
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
    instances = len(capture.instances)
    return LogFacts(
        capture=capture,
        reading=_attempt(lambda: _read_reading(connection, capture)),
        tables=read_table_facts(connection, tuple(captured), named=False, captured=captured),
        capturing=_attempt(lambda: read_capture_status(connection, source, state, instances=instances))
        if capture.is_enabled and state is not None
        else None,
        cleanup=_attempt(lambda: read_cleanup_status(connection)) if capture.is_enabled else None,
        delivery=_attempt(lambda: read_delivery_status(connection, source, state)) if state is not None else None,
        articles=_attempt(lambda: read_articles_status(connection, state)),
        places=read_places(capture),
        targets=_attempt(lambda: _list_targets(connection, source.lake, state)) if capture.is_enabled else (),
        outdated=_attempt(lambda: _find_outdated(source.lake, state)) if capture.is_enabled else (),
        lost_keys=_attempt(lambda: _find_lost_keys(source.lake, state)) if capture.is_enabled else (),
        rows_left=_attempt(lambda: _find_rows_left(source.lake, state)) if capture.is_enabled else (),
    )


def _list_targets(connection: Connection, lake: str, state: ManifestState | None) -> tuple[ListedTarget, ...]:
    if list_targets(connection):
        _require_lake(lake, state)
    return list_tables(connection, lake)


def _find_outdated(lake: str, state: ManifestState | None) -> tuple[ListedChange, ...]:
    # Tables of the lake are read with Arrow, which other databases do without.
    from rowtide.cdc.status.outdated import find_outdated

    _require_lake(lake, state)
    return find_outdated(lake)


def _find_lost_keys(lake: str, state: ManifestState | None) -> tuple[Instance, ...]:
    from rowtide.cdc.status.outdated import find_lost_keys

    _require_lake(lake, state)
    return find_lost_keys(lake)


def _find_rows_left(lake: str, state: ManifestState | None) -> tuple[RowsLeft, ...]:
    from rowtide.cdc.status.outdated import find_rows_left

    _require_lake(lake, state)
    return find_rows_left(lake)


def _require_lake(lake: str, state: ManifestState | None) -> None:
    """Raise `LakeReadFailed` where a lake lacks its tables, unless the log store says that nothing is published."""
    from rowtide.cdc.status.outdated import require_tables

    reader = state.readers.get(CAPTURE_READER) if state is not None else None
    if state is None or (reader is not None and reader.cycle > 0):
        require_tables(lake)


def _read_reading(connection: Connection, capture: CaptureFacts) -> ReadingFacts:
    backlog = read_backlog(connection, capture.source.slot)
    return ReadingFacts(describe_reading(backlog, capture.state, capture.log_reader), find_reader_error(connection))
