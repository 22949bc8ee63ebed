"""A source database with its log store and its lake, both filled in this process: in a line each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from rowtide.agents.loop import ignore
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cdc.capture.appends import Widening
from rowtide.cdc.capture.capture import Capture, CycleOptions
from rowtide.cdc.lake_lease import LakeLease, SharedLease
from rowtide.cdc.published import list_table_paths
from rowtide.cdc.queries.lsn_times import Bound
from rowtide.cdc.running.capture_run import find_widened
from rowtide.cdc.scans.pace import EngineSetting
from rowtide.cdc.snapshots.chunk_copies import USUAL_LIMITS, CopyLimits
from rowtide.cdc.snapshots.recording import SnapshotsTable
from rowtide.cdc.snapshots.runner import SnapshotRunner
from rowtide.cdc.snapshots.table_copy import SnapshotProgress
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.lsn import CommitLsn
from rowtide.core.operations import NO_TABLE, Operation
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.delta.writing.commits import Committer
from rowtide.handle import connect
from rowtide.log.catalogue import read_source
from rowtide.log.errors import LeaseLost
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.segments import read_segment
from rowtide.log.store.state import ManifestState
from rowtide.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

DEADLINE_S = 240.0
FINDS_EVERYTHING = "all update old"
_OWN_SLOTS = "from pg_replication_slots where database = current_database()"


@dataclass
class LoggedDatabase:
    """A source database and its log store, read in this process; capture, which needs Spark, is omitted."""

    url: str
    lake: Path
    session: psycopg.Connection[tuple[Any, ...]]
    cdc: ChangeDataCapture = field(init=False)

    def __post_init__(self) -> None:
        self.cdc = connect(self.url).cdc

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, each in a transaction of its own; return the rows of the last."""
        cursor = self.session.cursor()
        for sql in statements:
            cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """Open a transaction on a connection of its own; it commits at the end."""
        # psycopg leaves a connection open whose commit was refused.
        with closing(psycopg.connect(self.url)) as opened, opened as connection:
            yield connection

    def enable(self, *tables: str, snapshot: bool = False) -> None:
        """Enable the database, if it is not, and tables; with `snapshot` the rows that they have are to be copied."""
        self.cdc.enable_db(str(self.lake))
        for table in tables:
            self.cdc.enable_table(table, snapshot=snapshot)

    def mark(self) -> int:
        """Return a log position behind everything that is committed."""
        with open_engine(self.url).begin() as connection:
            return mark_log(connection)

    @keeping_sessions()
    def read_log(self, target: int | None = None) -> ManifestState:
        """Read the log up to a position, else to its present end; return the log store's state.

        The slot is free afterwards: the server notices a moment later that its reader has left.
        """
        manifest = self.manifest()
        with open_log_reader(self.url) as reader:
            target = self.mark() if target is None else target
            deadline = time.monotonic() + DEADLINE_S
            while manifest.refresh().position.log <= target:
                assert time.monotonic() < deadline, f"the log reader stays at {manifest.state.position}"
                reader.step()
        self._wait_for_free_slot()
        return manifest.state

    def drop_slot(self) -> None:
        """Drop the slot, as somebody might."""
        self._wait_for_free_slot()
        self.execute(f"select pg_drop_replication_slot(slot_name) {_OWN_SLOTS}")

    def _wait_for_free_slot(self) -> None:
        wait_until(lambda: not self.execute(f"select 1 {_OWN_SLOTS} and active"), what="the slot is free")

    def store(self) -> Store:
        with open_engine(self.url).connect() as connection:
            return open_store(read_source(connection, self.url).log_store)

    def manifest(self) -> Manifest:
        """Return the log store's manifest, read now."""
        return Manifest.open(self.store())

    def records(self) -> list[dict[str, Any]]:
        """Return the log store's row changes, in commit order."""
        store, state = self.store(), self.manifest().state
        rows = [row for segment in state.segments for row in read_segment(store, segment.path).to_pylist()]
        rows.sort(key=lambda row: (row["commit_lsn"], row["seqval"]))
        return [row for row in rows if row["table_id"] != NO_TABLE]

    def inserted(self, place: int = 0) -> list[str | None]:
        """Return the values that the log store's inserts have at a place of their row."""
        return [row["after"][place] for row in self.records() if row["operation"] == Operation.INSERT]


@dataclass
class CapturedDatabase(LoggedDatabase):
    """A source database and its lake."""

    spark: SparkSession
    awaited: CommitLsn | None = None
    """What `copy_tables` has covered: `capture` publishes that far."""

    @keeping_sessions()
    def copy_tables(self, limits: CopyLimits = USUAL_LIMITS) -> None:
        """Capture, copy the tables of which snapshots are requested, and publish that: as `cdc run --once`."""
        self.capture()
        self.copy_requested(limits)
        self.capture()

    def copy_requested(self, limits: CopyLimits = USUAL_LIMITS) -> None:
        """Copy the tables of which snapshots are requested, as far as they are captured."""
        deadline = time.monotonic() + DEADLINE_S
        with self.open_snapshots(limits) as runner:
            while runner.step():
                assert time.monotonic() < deadline, "the copies continue"
                runner.wait(0.02)

    @contextmanager
    def open_snapshots(
        self, limits: CopyLimits = USUAL_LIMITS, on_report: Callable[[SnapshotProgress], None] = ignore
    ) -> Iterator[SnapshotRunner]:
        """Take the lake lease and open the runner of snapshots."""
        with self._take_lake() as (lease, held), self._running(lease, held, limits, on_report) as runner:
            yield runner

    @contextmanager
    def open_both(self, limits: CopyLimits = USUAL_LIMITS) -> Iterator[tuple[Capture, SnapshotRunner]]:
        """Take the lake lease, and open capture and the runner of snapshots, as one process has them."""
        with self._take_lake() as (lease, held), self._running(lease, held, limits) as runner:
            yield self._make_capture(lease, held), runner

    @contextmanager
    def _take_lake(self) -> Iterator[tuple[AdvisoryLease, LakeLease]]:
        with AdvisoryLease.take(open_engine(self.url), "lake") as lease:
            yield lease, LakeLease.take(self.store(), lease)

    def take_over(self) -> None:
        """Take the lake from a holder that was cut off, as the next process does: it may have fenced some tables."""
        with AdvisoryLease.take(open_engine(self.url), "lake", patience_s=DEADLINE_S) as lease:
            LakeLease.take(self.store(), lease, str(self.lake), list_table_paths)

    @contextmanager
    def _running(
        self,
        lease: AdvisoryLease,
        held: LakeLease,
        limits: CopyLimits,
        on_report: Callable[[SnapshotProgress], None] = ignore,
    ) -> Iterator[SnapshotRunner]:
        source, shared = self.cdc.get_source(), SharedLease(held.for_thread(lease.verifier()))
        table = SnapshotsTable(source.lake, source.source_id, shared, Committer(holds_lease=True))
        epoch = shared.lease.manifest.state.epoch
        runner = SnapshotRunner(open_engine(self.url), self.url, table, epoch, limits=limits, on_report=on_report)
        try:
            yield runner
        finally:
            runner.close()
            self.awaited = runner.awaited or self.awaited

    @keeping_sessions()
    def capture(self, *, most_row_bytes: int | None = None) -> None:
        """Read the log and capture all that is committed now: as `cdc run --once`, in this process."""
        target = self.mark()
        self.read_log(target)
        self.capture_log(target, most_row_bytes=most_row_bytes)

    def capture_log(self, target: int | None = None, *, most_row_bytes: int | None = None) -> None:
        """Capture what the log store has, up to a log position, else all of it."""
        with self.open_capture(most_row_bytes=most_row_bytes) as capture:
            self.capture_by(capture, target)

    def capture_by(self, capture: Capture, target: int | None = None) -> None:
        """Capture by an open capture, as above."""
        end = self.manifest().state.position.log if target is None else target + 1
        deadline = time.monotonic() + DEADLINE_S
        while capture.position.log < end:
            assert time.monotonic() < deadline, f"capture stays at {capture.position}"
            capture.step()

    @contextmanager
    def open_capture(
        self, *, verifications: int | None = None, most_row_bytes: int | None = None, maxtrans: int | None = None
    ) -> Iterator[Capture]:
        """Take the lake lease and open capture, with the engine that `ROWTIDE_ENGINE` names.

        After so many verifications the lease counts as lost.
        """
        with self._take_lake() as (lease, taken):
            held = taken if verifications is None else replace(taken, verify=_lost_after(verifications))
            yield self._make_capture(lease, held, most_row_bytes=most_row_bytes, maxtrans=maxtrans)

    def _make_capture(
        self,
        lease: AdvisoryLease,
        held: LakeLease,
        *,
        most_row_bytes: int | None = None,
        maxtrans: int | None = None,
    ) -> Capture:
        source = self.cdc.get_source()
        return Capture(
            SystemTables(source.lake, source.source_id, lambda: self.spark),
            self.store(),
            held,
            options=CycleOptions(
                EngineSetting(os.environ.get("ROWTIDE_ENGINE", EngineSetting.AUTO)),
                maxtrans,
                most_row_bytes,
                Widening(partial(find_widened, lease.connection), lambda _table: None),
            ),
            find_awaited=lambda: self.awaited,
        )

    def changes(
        self,
        instance: str,
        row_filter: str = FINDS_EVERYTHING,
        from_lsn: Bound | None = None,
        to_lsn: Bound | None = None,
    ) -> list[Row]:
        """Return the change rows of an instance, in order."""
        return self.cdc.get_all_changes(instance, from_lsn, to_lsn, row_filter, spark=self.spark).collect()

    def values(self, instance: str, *columns: str, row_filter: str = FINDS_EVERYTHING) -> list[tuple[object, ...]]:
        """Return operation and columns of the change rows of an instance, in order."""
        return [pick(row, "__$operation", *columns) for row in self.changes(instance, row_filter)]


def _lost_after(verifications: int) -> Callable[[], None]:
    left = iter(range(verifications))

    def verify() -> None:
        if next(left, None) is None:
            raise LeaseLost("lake", "a test")

    return verify


def pick(row: Row, *columns: str) -> tuple[object, ...]:
    """Return some columns of a row."""
    return tuple(row[column] for column in columns)


def wait_until(is_met: Callable[[], bool], *, what: str) -> None:
    """Wait on a state that another process or thread brings about."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_met():
        assert time.monotonic() < deadline, f"after {DEADLINE_S:g} s still not: {what}"
        time.sleep(0.02)
