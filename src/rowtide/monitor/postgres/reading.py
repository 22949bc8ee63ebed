"""Poll a PostgreSQL database over one session that stays open, by the combined queries of the diagnosis."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Self

from sqlalchemy import Connection

from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.catalogue import read_server_time
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.functions import FIND_MONITORED, MONITORED
from rowtide.databases.postgres.quoting import statement
from rowtide.databases.postgres.repeated_reading import RepeatedReading
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.diagnosis.codes import ALL_AREAS, Area
from rowtide.diagnosis.merge import MergeFacts, read_merge
from rowtide.diagnosis.postgres.capture_facts import KeptManifest
from rowtide.diagnosis.postgres.health import check_work
from rowtide.diagnosis.postgres.reading import LogFacts, PostgresWorkFacts, PublishedFacts, attempt_here, read_work
from rowtide.diagnosis.postgres.server_facts import is_merged
from rowtide.diagnosis.result import Unread, attempt, by_state
from rowtide.merge.status import list_overview
from rowtide.monitor.databases import NamedUrl
from rowtide.monitor.postgres.figures import map_merge, read_figures
from rowtide.monitor.snapshot import Identity, PolledSnapshot
from rowtide.storage.places import is_object_url
from rowtide.storage.store import read_traffic

TABLES_EVERY_S = 300.0
"""How often the tables of a merge are examined, over a short session of a node."""
REQUEST_EVERY_S = 60.0
"""The limit of a poll's requests to buckets: one a minute."""
_MOST_READS = 8
"""A poll looks up this many times of low endpoints."""


class PostgresPoll:
    """Polls a database, in one thread; its session stays open until `close`, or until it fails."""

    def __init__(self, database: NamedUrl) -> None:
        self._database = database
        self._opened = ExitStack()
        self._reading = RepeatedReading(open_engine(database.url, application_name="rowtide monitor"))
        self._damage: tuple[tuple[str, str], ...] | Unread = ()
        self._examined_at: float | None = None
        self._work: PostgresWorkFacts | None = None
        self._work_is_due_at = 0.0
        self._low_times: dict[CommitLsn, datetime] = {}
        self._timed: PublishedFacts | None = None
        self._manifest = KeptManifest()

    def __enter__(self) -> Self:
        self._opened.enter_context(keeping_sessions())
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the session."""
        self._opened.close()

    def read(self) -> PolledSnapshot:
        """Poll the database. Raises what connecting raises."""
        at, begun = datetime.now(UTC), time.monotonic()
        with self._reading.opened() as connection:
            work = self._read_work(connection)
            figures = replace(read_figures(connection, work), low_times=self._find_low_times(work))
            merge = attempt_here(lambda: self._read_merge(connection)) if is_merged(connection) else None
            complete = replace(work, merge=merge)
            results = by_state(check_work(complete))
            reads_other_views = _find_monitored(connection) != connection.info.get(MONITORED, frozenset())
        if reads_other_views:
            # Which schemas are read through views is found once, as a session begins: usage was granted, or revoked.
            self.close()
            self._opened.enter_context(keeping_sessions())
        server = work.server.identity
        return PolledSnapshot(
            database=self._database.name,
            at=at,
            duration_s=time.monotonic() - begun,
            identity=Identity(server.system_identifier, server.timeline, server.in_recovery),
            results=results,
            work=complete,
            figures=figures,
            merge=merge,
        )

    def _read_work(self, connection: Connection) -> PostgresWorkFacts:
        """Read what rowtide does; a log store or lake in a bucket less often, because of the cost of requests."""
        if self._work is not None and time.monotonic() < self._work_is_due_at:
            return self._work
        before = read_traffic()
        work = read_work(connection, self._database.url, ALL_AREAS - {Area.MERGE}, self._manifest.read)
        asked = read_traffic().since(before)
        if any(map(is_object_url, _places(work))):
            self._work, requests = work, asked.writes + asked.reads
            self._work_is_due_at = time.monotonic() + requests * REQUEST_EVERY_S
        return work

    def _find_low_times(self, work: PostgresWorkFacts) -> Mapping[CommitLsn, datetime]:
        """Return when the low endpoints of instances committed; each is looked up once."""
        log = work.log if isinstance(work.log, LogFacts) else None
        published = log.lake.published if log is not None else None
        if log is None or not isinstance(published, PublishedFacts) or is_object_url(log.capture.source.lake):
            return {}
        if published is self._timed:
            return self._low_times
        lows = set(published.low_endpoints.values())
        self._low_times = {lsn: time for lsn, time in self._low_times.items() if lsn in lows}
        unknown = lows - self._low_times.keys()
        if unknown:
            times = LsnTimes(log.capture.source.lake)
            found = attempt(lambda: times.find_next_times(unknown, _MOST_READS))
            self._low_times = self._low_times | (found if not isinstance(found, Unread) else {})
        self._timed = published if lows <= self._low_times.keys() else None
        return self._low_times

    def _read_merge(self, connection: Connection) -> MergeFacts | None:
        self._examine()
        if isinstance(self._damage, Unread):
            raise self._damage.error
        listed = list_overview(map_merge(connection))
        return MergeFacts(read_server_time(connection), listed, self._damage) if listed else None

    def _examine(self) -> None:
        now = time.monotonic()
        if self._examined_at is None or now - self._examined_at >= TABLES_EVERY_S:
            self._examined_at = now
            found = attempt(lambda: read_merge(self._database.url))
            self._damage = found if isinstance(found, Unread) else found.damage if found is not None else ()


def _find_monitored(connection: Connection) -> frozenset[str]:
    found: str | None = connection.execute(statement(f"select {FIND_MONITORED}")).scalar_one()
    return frozenset(found.split(",")) if found else frozenset()


def _places(work: PostgresWorkFacts) -> Iterator[str]:
    if isinstance(work.log, LogFacts):
        yield work.log.capture.source.lake
        yield work.log.capture.source.log_store


def open_reader(database: NamedUrl) -> PostgresPoll:
    """Return the reader of a database, which connects when it reads."""
    return PostgresPoll(database)
