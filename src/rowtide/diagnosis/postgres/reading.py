"""The facts about a PostgreSQL database: each is read once, over one session, for `check`, `health` and `status`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from rowtide.cdc.definitions import READER as CAPTURE_READER
from rowtide.cdc.instances import Instance
from rowtide.cdc.status import CaptureStatus, CleanupStatus, read_capture_status, read_cleanup_status
from rowtide.core.errors import RowtideError
from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.query_memo import made_once, make_once
from rowtide.databases.postgres.repeated_reading import reading_once
from rowtide.diagnosis.capture import ReadingFacts
from rowtide.diagnosis.codes import ALL_AREAS, Area, Code
from rowtide.diagnosis.merge import MergeFacts, read_merge
from rowtide.diagnosis.places import Place
from rowtide.diagnosis.postgres.access_facts import MergedFacts
from rowtide.diagnosis.postgres.capture_facts import CaptureFacts, ReadManifest, read_capture, read_places
from rowtide.diagnosis.postgres.server_facts import RoleFacts, ServerFacts, is_merged, read_server
from rowtide.diagnosis.postgres.table_facts import PostgresTableFacts
from rowtide.diagnosis.postgres.tracking_facts import TrackingFacts, read_tracking
from rowtide.diagnosis.result import Known, Unread, attempt
from rowtide.log.catalogue import find_source
from rowtide.log.errors import DatabaseCopied
from rowtide.log.postgres.backlog import describe_reading, read_backlog
from rowtide.replication.distributor.history import find_reader_error
from rowtide.replication.status import (
    ArticlesStatus,
    DeliveryStatus,
    list_delivered_here,
    list_left_prepared,
    read_articles_status,
    read_delivery_status,
)
from rowtide.targets.definitions import list_targets
from rowtide.targets.listing import ListedTarget, list_tables

if TYPE_CHECKING:
    from rowtide.cdc.introspection import LakeStatus, RowsLeft
    from rowtide.cdc.published import LakePublication, ListedChange, RecordedInstance
    from rowtide.log.store.state import ManifestState


@frozen
class DatabaseFacts:
    """Everything that is checked; `capture` is None before enable-db.

    `wants_capture` is false where tables are tracked, merged or delivered into, none is captured, and no lake was
    named: nobody asked for it.

    `taken_schemas` are schemas of our names that others made, `foreign_tables` are qualified names;
    `place_blockers` are what is wrong with the folder that the log store would have. `copied` says that the metadata
    is another database's; then nothing is said of capture. `unread` has why parts could not be read, by what is then
    said of them.
    """

    server: ServerFacts
    role: RoleFacts
    tables: tuple[PostgresTableFacts, ...]
    foreign_tables: tuple[str, ...]
    taken_schemas: tuple[str, ...]
    capture: CaptureFacts | None
    wants_capture: bool
    tracking: TrackingFacts
    places: tuple[Place, ...]
    place_blockers: tuple[RowtideError, ...]
    copied: DatabaseCopied | None = None
    merged: MergedFacts | None = None
    unread: Mapping[Code, RowtideError] = field(default_factory=dict)


@frozen
class PublishedFacts:
    """The published range of the lake: its last LSN with its commit time, and the first LSN of each instance."""

    lsn: CommitLsn | None
    time: datetime | None
    low_endpoints: Mapping[str, CommitLsn]
    missing: Mapping[str, tuple[CommitLsn, ...]]
    """Transactions whose changes an instance lacks."""


@frozen
class LakeFacts:
    """What the lake says of capture instances, and the tables of targets that follow them.

    `published` is None before the first publication, and where only some instances are looked at.
    `outdated` are statements that left no change rows of what they changed, `lost_keys` instances whose keys no longer
    identify rows.
    """

    targets: tuple[ListedTarget, ...] | Unread = ()
    outdated: tuple[ListedChange, ...] | Unread = ()
    lost_keys: tuple[Instance, ...] | Unread = ()
    published: PublishedFacts | Unread | None = None
    schema_changes: Mapping[str, tuple[ListedChange, ...]] | Unread = field(default_factory=dict)
    """The DDL on the tables of enabled instances, in log order, by the instance."""

    def of(self, names: Collection[str]) -> LakeFacts:
        """Return the facts for some instances."""
        targets, outdated, lost = self.targets, self.outdated, self.lost_keys
        return LakeFacts(
            targets if isinstance(targets, Unread) else tuple(one for one in targets if one.instance in names),
            outdated if isinstance(outdated, Unread) else tuple(x for x in outdated if x.capture_instance in names),
            lost if isinstance(lost, Unread) else tuple(one for one in lost if one.capture_instance in names),
        )


NO_LAKE_FACTS = LakeFacts()


@frozen
class LogFacts:
    """What is read through the log; `cleanup` and `capturing` are None where only publications read it.

    `rows_left` are the damaged tables of disabled instances.
    """

    capture: CaptureFacts
    reading: ReadingFacts | Unread
    capturing: CaptureStatus | Unread | None
    cleanup: CleanupStatus | Unread | None
    delivery: DeliveryStatus | Unread | None
    articles: ArticlesStatus | Unread | None
    places: tuple[Place, ...]
    lake: LakeFacts = NO_LAKE_FACTS
    rows_left: tuple[RowsLeft, ...] | Unread = ()


@frozen
class PostgresWorkFacts:
    """What rowtide does in a database; `log` is None where the log is read for nothing.

    What nobody asked for is None or empty.

    `delivered_here` are publications of other databases whose changes are delivered into this one; `left_prepared` the
    transactions that their delivery prepared more than a minute ago.
    """

    server: ServerFacts
    log: LogFacts | Unread | None
    merge: MergeFacts | Unread | None
    tracking: TrackingFacts | Unread | None
    delivered_here: tuple[str, ...] | Unread
    left_prepared: tuple[str, ...] | Unread = ()


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Yield a session in which each query is run once, and every statement commits. Raises what connecting raises."""
    engine = open_engine(url)
    # Each query is a transaction of its own: a failed one aborts no other, and none holds back the server's oldest
    # snapshot.
    with reading_once(), translated(), engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


def attempt_here(read: Callable[[], Known]) -> Known | Unread:
    """Read facts over the session; errors of the database are ours."""

    def read_translated() -> Known:
        with translated():
            return read()

    return attempt(read_translated)


def read_log(
    connection: Connection, url: str, *, may_stream: bool, read_manifest: ReadManifest | None = None
) -> CaptureFacts | Unread | None:
    """Return what reads the log, None where nothing does. See `read_capture`."""

    def read() -> CaptureFacts | None:
        source = find_source(connection, StoreFormat.require_readable)
        if source is None:
            return None
        return read_capture(connection, source, url, may_stream=may_stream, read_manifest=read_manifest)

    return attempt_here(read)


def read_work(
    connection: Connection,
    url: str,
    areas: Collection[Area] = ALL_AREAS,
    read_manifest: ReadManifest | None = None,
) -> PostgresWorkFacts:
    """Read what rowtide does in a database, limited to some areas; what cannot be read is `Unread`."""
    server = read_server(connection, url, tries_stream=False)
    capture = read_log(connection, url, may_stream=True, read_manifest=read_manifest)
    tracking = attempt_here(lambda: read_tracking(connection, (), None)) if Area.TRACKING in areas else None
    return complete_work(connection, url, server, capture, tracking, areas=areas)


def complete_work(
    connection: Connection,
    url: str,
    server: ServerFacts,
    capture: CaptureFacts | Unread | None,
    tracking: TrackingFacts | Unread | None,
    places: tuple[Place, ...] | None = None,
    areas: Collection[Area] = ALL_AREAS,
) -> PostgresWorkFacts:
    """Read the rest of what rowtide does; `places` are the folders, if they were read."""
    if isinstance(capture, CaptureFacts):
        log: LogFacts | Unread | None = attempt_here(lambda: _read_agents(connection, capture, places, areas))
    else:
        log = capture
    return PostgresWorkFacts(
        server=server,
        log=log,
        merge=attempt(lambda: read_merge(url)) if Area.MERGE in areas and is_merged(connection) else None,
        tracking=tracking,
        delivered_here=attempt_here(lambda: list_delivered_here(connection)) if Area.REPLICATION in areas else (),
        left_prepared=attempt_here(lambda: list_left_prepared(connection)) if Area.REPLICATION in areas else (),
    )


def _read_agents(
    connection: Connection,
    capture: CaptureFacts,
    places: tuple[Place, ...] | None,
    areas: Collection[Area],
) -> LogFacts:
    source, state = capture.source, capture.state
    captures, publishes = capture.is_enabled and Area.CAPTURE in areas, Area.REPLICATION in areas
    lake = _LakeReading(source.lake, state)
    return LogFacts(
        capture=capture,
        reading=attempt_here(lambda: _read_reading(connection, capture)),
        capturing=attempt_here(lambda: read_capture_status(connection, source, state, instances=len(capture.instances)))
        if captures and state is not None
        else None,
        cleanup=attempt_here(lambda: read_cleanup_status(connection)) if captures else None,
        delivery=attempt_here(lambda: read_delivery_status(connection, source, state))
        if publishes and state is not None
        else None,
        articles=attempt_here(lambda: read_articles_status(connection, state)) if publishes else None,
        places=places if places is not None else read_places(capture) if Area.DISK in areas else (),
        lake=lake.read(connection) if captures else NO_LAKE_FACTS,
        rows_left=attempt_here(lake.find_rows_left) if captures else (),
    )


def read_lake(connection: Connection, capture: CaptureFacts) -> LakeFacts:
    """Read the facts about instances and targets from the lake."""
    return _LakeReading(capture.source.lake, capture.state).read(connection) if capture.is_enabled else NO_LAKE_FACTS


def _read_reading(connection: Connection, capture: CaptureFacts) -> ReadingFacts:
    backlog = read_backlog(connection, capture.source.slot)
    status = describe_reading(backlog, capture.state, capture.log_reader)
    return ReadingFacts(status, made_once(find_reader_error)(connection))


class _LakeReading:
    """The tables of a lake, each read once; a table that cannot be read raises in each caller."""

    def __init__(self, lake: str, state: ManifestState | None) -> None:
        self._lake = lake
        self._state = state

    def read(self, connection: Connection) -> LakeFacts:
        """Return the facts about instances and targets."""
        return LakeFacts(
            targets=attempt_here(lambda: self._list_targets(connection)),
            outdated=attempt_here(self._find_outdated),
            lost_keys=attempt_here(self._find_lost_keys),
            published=attempt_here(self._read_published),
            schema_changes=attempt_here(self._list_schema_changes),
        )

    def _list_targets(self, connection: Connection) -> tuple[ListedTarget, ...]:
        if list_targets(connection):
            _ = self._status  # Requires the lake's tables, without which no target would seem to be late.
        return list_tables(connection, self._lake)

    def _find_outdated(self) -> tuple[ListedChange, ...]:
        return self._status.find_outdated()

    def _find_lost_keys(self) -> tuple[Instance, ...]:
        return self._status.find_lost_keys()

    def _list_schema_changes(self) -> Mapping[str, tuple[ListedChange, ...]]:
        return self._status.list_schema_changes()

    def _read_published(self) -> PublishedFacts | None:
        published = self._status.publication
        if published is None:
            return None
        enabled = self._status.list_enabled()
        return make_once("published", lambda: _describe_published(published, enabled), (published, enabled))

    def find_rows_left(self) -> tuple[RowsLeft, ...]:
        """Return the damaged tables of disabled instances."""
        return self._status.find_rows_left()

    @cached_property
    def _status(self) -> LakeStatus:
        """Raises `LakeReadFailed` where a lake lacks its tables, unless by the log store nothing is published."""
        # Tables of the lake are read with Arrow, which other databases do without.
        from rowtide.cdc.introspection import LakeStatus

        found = LakeStatus(self._lake)
        reader = self._state.readers.get(CAPTURE_READER) if self._state is not None else None
        if self._state is None or (reader is not None and reader.cycle > 0):
            found.require_tables()
        return found


def _describe_published(published: LakePublication, enabled: Sequence[RecordedInstance]) -> PublishedFacts:
    return PublishedFacts(
        published.lsn,
        published.time,
        {one.instance.capture_instance: one.lsn for one in enabled},
        {one.instance.capture_instance: tuple(x.lsn for x in one.missing) for one in enabled if one.missing},
    )
