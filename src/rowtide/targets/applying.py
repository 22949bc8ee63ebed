"""Applies what is published to a set of targets: every table its own window, then the set's new LSN.

A table's window begins after the LSN of its own last commit, so that a repeat after a crash repeats no rows. The tables
of a set are processed concurrently; one that cannot follow leaves the set, and the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from rowtide.cdc.consumers.consumers import ConsumedInstance
from rowtide.cdc.published import ENABLED, LakePublication, RecordedInstance, arrow_schema, system_table_path
from rowtide.cdc.queries.lsn_times import LsnTimes
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.cdc.recorded_snapshots import SnapshotState, find_base, read_snapshots
from rowtide.core.errors import RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import NOT_CONNECTED
from rowtide.delta.errors import AppendNotFound
from rowtide.delta.writing.changes import Below
from rowtide.delta.writing.commits import Committer
from rowtide.events.catalogue import TargetTableRestored, TargetTableStopped
from rowtide.events.event import emit
from rowtide.lake import tables
from rowtide.lake.errors import SparkLost
from rowtide.lake.small_tables import SmallTable, append_small
from rowtide.lake.tables import COMPACTION_INTERVAL, Compacted, compact, delete_rows
from rowtide.log.errors import LeaseLost
from rowtide.targets.definitions import TableState, Target
from rowtide.targets.errors import TargetAhead, TargetInstanceEnded, TargetPassed, TargetRowsChanged
from rowtide.targets.options import HISTORY
from rowtide.targets.table_format import FoundTable, Verify

# Which version of each table a set of targets has at its LSN: a small table in the lake, which readers pin. Each
# apply appends a row per table once all tables have its window. A table's own position is in the table's own commits
# (`formats`); a table without a change in a window gets no commit, and its row here has its position.

COLUMNS = [
    ("cycle", "bigint"),
    ("set_lsn", "bigint"),
    ("set_time", "timestamp"),
    ("capture_instance", "string"),
    ("member_id", "string"),
    ("location", "string"),
    ("version", "bigint"),
    ("lsn", "bigint"),
    ("snapshot", "bigint"),
    ("state", "string"),
    ("note", "string"),
    ("recorded_at", "timestamp"),
]
_SCHEMA = arrow_schema(COLUMNS)
KEPT_APPLIES = 100_000
"""The number of the last applies that can be pinned."""
_KEPT_VERSIONS = timedelta(minutes=10)


@frozen
class TableVersion:
    """A table of a set after an apply: everything up to `lsn` is in `version`, a Delta version or Iceberg snapshot.

    `snapshot` is the newest copy of the source's table that is in it, 0 if none is.
    """

    capture_instance: str
    member_id: str
    location: str
    version: int | None
    lsn: CommitLsn | None
    snapshot: int
    state: TableState
    note: str | None = None


@frozen
class SetVersion:
    """A set after an apply: its LSN, when the source had committed that, and its tables by instance."""

    number: int
    lsn: CommitLsn | None
    time: datetime | None
    tables: Mapping[str, TableVersion]
    recorded_at: datetime | None = None


NOTHING = SetVersion(0, None, None, {})


class SetTable:
    """The table of one set."""

    def __init__(self, lake: str, target: Target) -> None:
        self._path = system_table_path(lake, f"targets.{target.name}")
        self._identity = target.target_id
        self._committer = Committer()

    def read(self, at: CommitLsn | None = None) -> SetVersion:
        """Return the set as of its last apply, or of the last one up to an LSN; `NOTHING` before the first."""
        table = SmallTable.open(self._path)
        if table is None or table.identity != self._identity:
            return NOTHING
        rows = table.read(_SCHEMA, from_cycle=table.read_latest_cycle() if at is None else 0).to_pylist()
        if at is not None:
            rows = [row for row in rows if row["set_lsn"] is not None and row["set_lsn"] <= at.value]
        last = max((row["cycle"] for row in rows), default=0)
        return _as_version([row for row in rows if row["cycle"] == last]) if last else NOTHING

    def append(self, version: SetVersion) -> bool:
        """Record an apply; return False if another process has recorded one of its number, or later ones."""
        tables.ensure_table(self._path, COLUMNS, identity=self._identity)
        rows = pa.Table.from_pylist(list(_rows(version)), schema=_SCHEMA)
        try:
            # The apply's number is the commit's, so that a second process that records the same apply appends nothing.
            is_new = append_small(self._committer, rows, self._path, identity=self._identity, cycle=version.number)
        except AppendNotFound:
            return False
        if is_new and version.number % COMPACTION_INTERVAL == 0:
            delete_rows(self._path, Below("cycle", version.number - KEPT_APPLIES))
            compact(Compacted(self._path, "cycle", _KEPT_VERSIONS))
            self._committer.forget(self._path)
        return is_new


def _rows(version: SetVersion) -> Iterable[dict[str, Any]]:
    recorded_at = datetime.now(UTC)
    for table in version.tables.values():
        yield {
            "cycle": version.number,
            "set_lsn": version.lsn.value if version.lsn is not None else None,
            "set_time": version.time,
            "capture_instance": table.capture_instance,
            "member_id": table.member_id,
            "location": table.location,
            "version": table.version,
            "lsn": table.lsn.value if table.lsn is not None else None,
            "snapshot": table.snapshot,
            "state": table.state.value,
            "note": table.note,
            "recorded_at": recorded_at,
        }


def _as_version(rows: Sequence[Mapping[str, Any]]) -> SetVersion:
    first = rows[0]
    found = [
        TableVersion(
            row["capture_instance"],
            row["member_id"],
            row["location"],
            row["version"],
            CommitLsn(row["lsn"]) if row["lsn"] is not None else None,
            row["snapshot"],
            TableState(row["state"]),
            row["note"],
        )
        for row in rows
    ]
    return SetVersion(
        number=first["cycle"],
        lsn=CommitLsn(first["set_lsn"]) if first["set_lsn"] is not None else None,
        time=first["set_time"],
        tables={table.capture_instance: table for table in found},
        recorded_at=first["recorded_at"],
    )


TABLES_AT_ONCE = 4
RETRIED_AFTER = timedelta(seconds=30)
"""A stopped table is tried again at the next publication, or after this time."""


@frozen
class Due:
    """The state of an instance's table, and the state that it has to reach."""

    recorded: RecordedInstance
    known: TableVersion | None
    to: CommitLsn

    def as_member(self, location: str, version: int, snapshot: int) -> TableVersion:
        """Return the table's entry after it reached that state; the copy of this number is in it."""
        instance = self.recorded.instance
        return TableVersion(
            instance.capture_instance, instance.member_id, location, version, self.to, snapshot, TableState.MEMBER
        )

    def find_position(self, found: FoundTable) -> CommitLsn | None:
        """Return the LSN up to which a table has its source: from its own commits, or from its set, which also records
        windows without a change.
        """
        known = self.known
        # The set's LSN counts only while the table still has the version that it was recorded with: a table that was
        # restored to an earlier version has lost later changes.
        by_set = known.lsn if known is not None and known.version in found.versions else None
        lsns = [lsn for lsn in (found.lsn, by_set) if lsn is not None]
        return max(lsns, default=None)

    def needs_copy(self, found: FoundTable, snapshot: int, target: Target) -> bool:
        """Return whether a table is to be made equal to its source's newest copy, `snapshot`, 0 without one.

        A table of current rows whose rows another client changed is. Raises `TargetRowsChanged` if that is not
        possible.
        """
        if snapshot and (self.known_snapshot < snapshot or self.find_position(found) is None):
            return True
        if found.foreign is None:
            return False
        if not snapshot or target.kind == HISTORY:
            version = str(self.known_version)
            raise TargetRowsChanged(self.recorded.instance.capture_instance, target.name, found.foreign, version)
        emit(TargetTableRestored(target.name, self.recorded.instance.capture_instance, str(found.foreign)))
        return True

    def require_known(self, lake: str, target: str, found: FoundTable, *, is_copied: bool) -> None:
        """Raise `TargetAhead` if a table has changes that the lake, which was restored, does not have.

        Its set, which is in the lake, has every commit except that of a killed apply. A copy (`is_copied`) makes the
        table equal to its source, unless the table is past the copy's LSN.
        """
        known = self.known.lsn if self.known is not None else None
        if found.lsn is None or (known is not None and found.lsn <= known) or (is_copied and found.lsn < self.to):
            return
        if not LsnTimes(lake).may_know(found.lsn):
            raise TargetAhead(self.recorded.instance.capture_instance, target, str(found.lsn))

    def has_to_wait(self, found: FoundTable, target: Target) -> bool:
        """Return whether a table that was handed over to this instance cannot get its copy yet.

        A commit with an LSN that the table already has would count as a repeat, and do nothing.
        """
        is_handed_over = self.recorded.instance.capture_instance in target.options.table_names
        return (
            is_handed_over
            and self.known is not None
            and not self.known.snapshot
            and found.lsn is not None
            and found.lsn >= self.to
        )

    @property
    def known_version(self) -> int | None:
        """The table's version that the set has."""
        return self.known.version if self.known is not None else None

    @property
    def known_snapshot(self) -> int:
        """The newest copy that the table has, 0 if none."""
        return self.known.snapshot if self.known is not None else 0


ApplyTable = Callable[[Due], TableVersion]
"""Applies changes to one table up to an LSN, and returns its version."""


class SetApplier:
    """Applies one set; one process at a time, by the set's lease."""

    def __init__(
        self,
        lake: str,
        target: Target,
        apply_table: ApplyTable,
        verify: Verify,
        copied: Collection[str] = frozenset(),
    ) -> None:
        """`copied` are the instances whose rows are being copied: their tables are made when that is done."""
        self._lake = lake
        self._target = target
        self._apply_table = apply_table
        self._verify = verify
        self._copied = copied
        self._table = SetTable(lake, target)

    def apply(self) -> SetVersion | None:
        """Apply what is published; return the set's new version, None if nothing was to be done.

        An error of one table stops that table only. Raises `SparkLost`, `LakeReadFailed`, `LeaseLost`,
        `ConnectionFailed`.
        """
        known = self._table.read()
        published, recorded = PublishedLake(self._lake).get_published_instances()
        if published.lsn is None or not self._is_due(known, published.lsn, recorded):
            return None
        to = published.lsn
        with ThreadPoolExecutor(TABLES_AT_ONCE, "rowtide-target") as pool:
            found = pool.map(
                lambda consumed: self._make_version(consumed, known, recorded, to), self._target.consumer.instances
            )
            tables = {table.capture_instance: table for table in found if table is not None}
        version = self._conclude(known, published, tables)
        if not tables or (version.lsn == known.lsn and tables == known.tables and not _has_stopped(known)):
            return None
        # A process that lost its lease may have read tables that another one had already changed, so its set is
        # outdated.
        self._verify()
        failpoint("target_set.before")
        is_recorded = self._table.append(version)
        failpoint("target_set.after")
        return version if is_recorded else None

    def _is_due(self, known: SetVersion, to: CommitLsn, recorded: Collection[str]) -> bool:
        if known.lsn is None or known.lsn < to or known.recorded_at is None:
            return True
        can_be_made = set(self._target.consumer.instance_names) & set(recorded) - set(self._copied)
        if can_be_made - set(known.tables):
            return True
        return _has_stopped(known) and datetime.now(UTC) - known.recorded_at >= RETRIED_AFTER

    def _make_version(
        self,
        consumed: ConsumedInstance,
        known: SetVersion,
        recorded: Mapping[str, RecordedInstance],
        to: CommitLsn,
    ) -> TableVersion | None:
        """Return a table's version at an LSN, or why it stopped; None if it cannot be made yet."""
        before = known.tables.get(consumed.name) or self._find_handed_over(consumed, known)
        # The name was reused: the table followed another instance, whose facts do not apply.
        if before is not None and before.member_id != consumed.member_id:
            before = None
        found = recorded.get(consumed.name)
        if found is not None and found.instance.member_id != consumed.member_id:
            found = None
        try:
            if not consumed.is_enabled:
                raise TargetInstanceEnded(self._target.name, consumed.name)
            if found is None or (before is None and self._is_copied_later(consumed, to)):
                return None
            if found.state != ENABLED:
                reason = "and capture has yet to resume after a gap"
                lsn = before.lsn if before is not None else None
                raise TargetPassed(consumed.name, self._target.name, str(lsn or "-"), reason)
            return self._apply_table(Due(found, before, to))
        except (SparkLost, LeaseLost, *NOT_CONNECTED):
            raise
        except RowtideError as error:
            emit(TargetTableStopped(error))
            stopped = before or TableVersion(consumed.name, consumed.member_id, "", None, None, 0, TableState.STOPPED)
            return replace(stopped, state=TableState.STOPPED, note=str(error))

    def _find_handed_over(self, consumed: ConsumedInstance, known: SetVersion) -> TableVersion | None:
        """Return the version of a table from before its hand-over: it does not have the new instance's copy."""
        name_of, present = self._target.options.table_of, self._target.consumer.instance_names
        for table in known.tables.values():
            earlier = table.capture_instance
            if earlier not in present and name_of(earlier) == name_of(consumed.name):
                return replace(
                    table, capture_instance=consumed.name, member_id=consumed.member_id, snapshot=0, note=None
                )
        return None

    def _is_copied_later(self, consumed: ConsumedInstance, at: CommitLsn) -> bool:
        """Whether an instance's rows are still being copied, or complete only at a later LSN: a new table has to
        wait.
        """
        if consumed.name in self._copied:
            return True
        snapshots = read_snapshots(self._lake).get(consumed.member_id, ())
        is_copied = any(one.is_whole and one.state is SnapshotState.COVERED for one in snapshots)
        return is_copied and find_base(snapshots, at) is None

    def _conclude(
        self, known: SetVersion, published: LakePublication, tables: Mapping[str, TableVersion]
    ) -> SetVersion:
        return SetVersion(known.number + 1, published.lsn, published.time, tables)


def _has_stopped(version: SetVersion) -> bool:
    return any(table.state is TableState.STOPPED for table in version.tables.values())
