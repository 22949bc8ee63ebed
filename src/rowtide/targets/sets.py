"""Which version of each table a set of targets has at its LSN: a small table in the lake, which readers pin.

Each apply appends a row per table once all tables have its window. A table's own position is in the table's own commits
(`formats`); a table without a change in a window gets no commit, and its row here has its position.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from rowtide.cdc.published import arrow_schema, system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.delta.errors import AppendNotFound
from rowtide.delta.writing.commits import Committer
from rowtide.delta.writing.deletion import Below
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable, append_small
from rowtide.lake.tables import COMPACTION_INTERVAL, Compacted, compact, delete_rows
from rowtide.targets.definitions import TableState, Target

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
