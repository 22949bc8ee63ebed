"""The lake's system table `snapshots`: one row for each event of a snapshot, written by the holder of the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from rowtide.cdc.lake_lease import SharedLease
from rowtide.cdc.published import SNAPSHOTS, system_table_path
from rowtide.cdc.recorded_snapshots import TABLE, RecordedSnapshot, encode_definition
from rowtide.cdc.system_tables import rows_of
from rowtide.core.failpoints import failpoint
from rowtide.delta.errors import AppendNotFound
from rowtide.delta.writing.commits import Committer
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable, append_small


@dataclass(slots=True)
class SnapshotsTable:
    """Writes the table of one lake, under one source's identity."""

    lake: str
    source_id: str
    lease: SharedLease
    committer: Committer
    _last: int | None = None

    def _open(self) -> int:
        """Create the table if it is not there; return the number of its last event."""
        tables.ensure_table(self._path, SNAPSHOTS, identity=self._identity, before_commit=self.lease.require)
        table = SmallTable.open(self._path)
        return table.read_latest_cycle() if table is not None else 0

    def record(self, snapshots: Sequence[RecordedSnapshot]) -> None:
        """Append the present states of snapshots as events, all at once. Raises `LeaseLost`."""
        if not snapshots:
            return
        self.lease.require()
        failpoint("snapshot_event.before")
        while True:
            number = (self._open() if self._last is None else self._last) + 1
            rows = rows_of(SNAPSHOTS, [self._row(number, one) for one in snapshots])
            try:
                is_new = append_small(self.committer, rows, self._path, identity=self._identity, cycle=number)
            except AppendNotFound:
                is_new = False
            if is_new:
                self._last = number
                break
            # Another process had the lake in between, or this one did not learn of its own commit.
            self.lease.require()
            self._last = None
        failpoint("snapshot_event.after")

    def _row(self, number: int, snapshot: RecordedSnapshot) -> dict[str, object]:
        return {
            "cycle": number,
            "snapshot": snapshot.number,
            "capture_instance": snapshot.capture_instance,
            "member_id": snapshot.member_id,
            "state": snapshot.state.value,
            "begin_lsn": snapshot.begin.value,
            "covered_lsn": snapshot.covered.value if snapshot.covered is not None else None,
            "is_whole": snapshot.is_whole,
            "definition": encode_definition(snapshot.definition),
            "recorded_at": datetime.now(UTC),
            "token": self.lease.token,
            "host": tables.host_name(),
        }

    @property
    def _path(self) -> str:
        return system_table_path(self.lake, TABLE)

    @property
    def _identity(self) -> str:
        return f"{self.source_id}:{TABLE}"
