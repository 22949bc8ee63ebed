"""Snapshots of captured tables as the lake records them, in its table `snapshots`; read without Spark.

A snapshot is a layer of an instance's base table: rows with `__$seqval` 0 and the snapshot's `begin` as LSN. It has
everything that committed up to `begin`, and may have some later changes, which the change table has too. From `covered`
on, base and change rows together are the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from rowtide.cdc import published
from rowtide.copying.chunks import Key
from rowtide.core.json_records import JsonOf
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.lake.small_tables import SmallTable

TABLE = "snapshots"
SEQVAL = 0
"""`__$seqval` of copied rows; that of changes begins at 1."""


class SnapshotState(StrEnum):
    """The state of a snapshot; set by `SnapshotRunner`, stored in the lake."""

    PLANNED = "planned"
    """Some of its chunks may be in the base table."""
    COVERED = "covered"
    """All of them are."""
    CANCELLED = "cancelled"
    """It is void: its rows are removed."""


@frozen
class SnapshotDefinition:
    """What is copied: rows that meet an SQL `condition` (None: all), in chunks between `bounds`.

    `visible` is the one transaction snapshot of an instance without key, as text. `generation` describes the columns;
    after it changes, chunks do not go together. `rows` and `size` (bytes at the source) are estimates.
    """

    request_id: int
    condition: str | None
    bounds: tuple[Key, ...]
    visible: str | None
    generation: str
    rows: int
    size: int

    @property
    def of_chunks(self) -> int:
        """The number of chunks."""
        return len(self.bounds) + 1


@frozen
class RecordedSnapshot:
    """A snapshot as of its latest event. `number` counts an instance's snapshots from 1, by its member id.

    `begin` is the LSN of its base rows, no other snapshot's of the instance; `covered` is None before all is copied.
    """

    number: int
    capture_instance: str
    member_id: str
    state: SnapshotState
    begin: CommitLsn
    covered: CommitLsn | None
    is_whole: bool
    definition: SnapshotDefinition

    def is_covered_at(self, lsn: CommitLsn) -> bool:
        """Return whether base and change rows up to an LSN are consistent with this snapshot."""
        return self.state is SnapshotState.COVERED and self.covered is not None and self.covered <= lsn

    def chunk_identity(self, chunk: int) -> str:
        """Return the identity under which the base table has a chunk's commit."""
        return f"{self.member_id}:snapshot:{self.number}:{chunk}"


def read_snapshots(lake: str) -> Mapping[str, tuple[RecordedSnapshot, ...]]:
    """Return all snapshots by their instances' member ids, in the order of their numbers.

    Raises `LakeReadFailed`, `TableUnreadable`.
    """
    table = SmallTable.open(published.system_table_path(lake, TABLE))
    rows = table.read(published.arrow_schema(published.SNAPSHOTS)).to_pylist() if table is not None else []
    latest: dict[tuple[str, int], RecordedSnapshot] = {}
    for row in sorted(rows, key=lambda row: int(row["cycle"])):
        latest[row["member_id"], row["snapshot"]] = _read(row)
    found: dict[str, tuple[RecordedSnapshot, ...]] = {}
    for (member_id, _), recorded in sorted(latest.items()):
        found[member_id] = (*found.get(member_id, ()), recorded)
    return found


def find_base(snapshots: Sequence[RecordedSnapshot], at: CommitLsn) -> RecordedSnapshot | None:
    """Return the newest whole snapshot of an instance that is covered at an LSN, None if there is none."""
    return next((one for one in reversed(snapshots) if one.is_whole and one.is_covered_at(at)), None)


def excluded_begins(snapshots: Sequence[RecordedSnapshot], at: CommitLsn) -> tuple[int, ...]:
    """Return the LSNs of those snapshots' rows that must not be read as of an LSN: they are not covered there."""
    return tuple(one.begin.value for one in snapshots if not one.is_covered_at(at))


_DEFINITION = JsonOf[SnapshotDefinition](SnapshotDefinition)


def encode_definition(definition: SnapshotDefinition) -> str:
    """Return the definition as JSON."""
    return _DEFINITION.encode(definition)


def _read(row: Mapping[str, Any]) -> RecordedSnapshot:
    covered = row["covered_lsn"]
    return RecordedSnapshot(
        number=row["snapshot"],
        capture_instance=row["capture_instance"],
        member_id=row["member_id"],
        state=SnapshotState(row["state"]),
        begin=CommitLsn(row["begin_lsn"]),
        covered=CommitLsn(covered) if covered is not None else None,
        is_whole=row["is_whole"],
        definition=_DEFINITION.decode(row["definition"]),
    )
