"""The lake's system tables of capture: `cycles`, `instances`, `ddl_history`, `lsn_time_mapping`, `snapshots`.

Each is appended to once per cycle. A cycle's range is recorded first; `lsn_time_mapping` comes last and
publishes it: rows of the others count only up to the last published cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc import published
from rowtide.cdc.instances import Instance, encode_instance
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.delta.checkpoints import Maintain, maintain_log
from rowtide.delta.writing.commits import Committer
from rowtide.lake import tables
from rowtide.lake.session import build_session, pinned
from rowtide.lake.small_tables import SmallTable, append_small
from rowtide.lake.tables import Compacted, is_compaction_due

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PUBLICATION = published.arrow_schema(published.LSN_TIME_MAPPING)
_TABLES = {
    "cycles": published.CYCLES,
    "instances": published.INSTANCES,
    "ddl_history": published.DDL_HISTORY,
    "lsn_time_mapping": published.LSN_TIME_MAPPING,
}

_GROWING = ("cycles", "lsn_time_mapping")
"""Tables to which every cycle adds rows."""

_KEPT_VERSIONS = timedelta(minutes=10)
"""How long a version of a system table can be read: each query lists its whole log and reads the last version."""


@frozen
class RecordedCycle:
    """A row of `cycles`: the range [from, to)."""

    cycle: int
    from_position: Position
    to_position: Position


@frozen
class LakeState:
    """The lake's state: everything below `position`, through cycle `cycle`; `open_cycle` is recorded, not published.

    `last_time` is the last published transaction's `tran_end_time`.
    """

    cycle: int
    position: Position | None
    last_time: datetime | None
    open_cycle: RecordedCycle | None
    instances: Mapping[str, published.RecordedInstance]


@frozen
class InstanceEvent:
    """A row for `instances`."""

    instance: Instance
    state: str
    lsn: CommitLsn
    note: str | None = None


class SystemTables:
    """The system tables of one lake, written under one source's identity."""

    def __init__(
        self,
        lake: str,
        source_id: str,
        make_spark: Callable[[], SparkSession] = build_session,
        *,
        maintain: Maintain = maintain_log,
    ) -> None:
        """`make_spark` is called when Spark is needed for the first time, `maintain` after each commit."""
        self._make_spark = make_spark
        self.lake = lake
        self.source_id = source_id
        self.host = tables.host_name()
        self.committer = Committer(maintain=maintain, holds_lease=True)

    @cached_property
    def spark(self) -> SparkSession:
        """The session, with rowtide's settings."""
        return pinned(self._make_spark())

    def list_due(self, cycle: int, capture_instances: Sequence[str]) -> list[Compacted]:
        """Return the tables whose turn to be compacted it is after a cycle, of those that cycles add to.

        If a crash prevents a compaction, the next turn does it. Old versions of system tables are never read.
        """
        system_tables = [Compacted(self._path(name), "cycle", _KEPT_VERSIONS) for name in _GROWING]
        changes = [
            Compacted(published.change_table_path(self.lake, name), "__$start_lsn") for name in capture_instances
        ]
        growing = enumerate((*system_tables, *changes))
        return [table for place, table in growing if is_compaction_due(cycle, place)]

    def ensure(self) -> None:
        """Create the missing tables."""
        for name, columns in _TABLES.items():
            tables.ensure_table(self._path(name), columns, identity=self._identity(name))

    def read(self) -> LakeState:
        """Read the lake's state."""
        # The publication comes first: its cycle was recorded before it, so `cycles`, which is read after it, has that
        # cycle.
        last = published.read_publication(self.lake) or published.LakePublication(0, None, None)
        recorded = {cycle.cycle: cycle for cycle in self._read_cycles(last.cycle)}
        return LakeState(
            cycle=last.cycle,
            position=recorded[last.cycle].to_position if last.cycle in recorded else None,
            last_time=last.time,
            open_cycle=recorded.get(last.cycle + 1),
            instances=published.read_instances(self.lake, last.cycle),
        )

    def _read_cycles(self, from_cycle: int) -> list[RecordedCycle]:
        table = SmallTable.open(self._path("cycles"))
        columns = published.arrow_schema(published.CYCLES, "cycle", "from_position", "to_position")
        rows = table.read(columns, from_cycle=from_cycle).to_pylist() if table is not None else []
        return [
            RecordedCycle(row["cycle"], Position(row["from_position"]), Position(row["to_position"])) for row in rows
        ]

    def record(self, cycle: RecordedCycle, token: int) -> bool:
        """Record a cycle's range, before anything is appended for it; return False if the cycle has one already."""
        values = {
            "cycle": cycle.cycle,
            "from_position": cycle.from_position.value,
            "to_position": cycle.to_position.value,
            "recorded_at": datetime.now(UTC),
            "token": token,
            "host": self.host,
        }
        failpoint("cycle_record.before")
        is_new = self._append("cycles", rows_of(published.CYCLES, [values]), cycle.cycle)
        failpoint("cycle_record.after")
        return is_new

    def record_instances(self, cycle: int, events: Iterable[InstanceEvent]) -> None:
        """Append the instances that begin, end or are suspended in a cycle; visible when the cycle is published."""
        rows = [instance_row(cycle, ordinal, event) for ordinal, event in enumerate(events)]
        if rows:
            self._append("instances", rows_of(published.INSTANCES, rows), cycle)

    def record_history(self, cycle: int, rows: pa.Table) -> None:
        """Append a cycle's DDL, rows of `ddl_history`; visible when the cycle is published."""
        if rows.num_rows:
            self._append("ddl_history", rows, cycle)

    def publish(
        self, state: LakeState, cycle: RecordedCycle, transactions: pa.Table, events: Iterable[InstanceEvent]
    ) -> LakeState:
        """Append a cycle's transactions (`change_files.TRANSACTION`): from now on readers see the cycle.

        `state` is the one before, `events` the cycle's rows of `instances`; returns the state after.
        """
        rows = self._stamp(transactions, cycle.cycle)
        failpoint("publication.before")
        is_new = self._append("lsn_time_mapping", rows, cycle.cycle)
        failpoint("publication.after")
        # Another process may have published the cycle with other transactions: then the lake's are valid.
        return _state_after(state, cycle, events, transactions) if is_new else self.read()

    def _stamp(self, transactions: pa.Table, cycle: int) -> pa.Table:
        """Return the rows of `lsn_time_mapping`; if nothing committed, one without LSN, of tran_id 0."""
        if not transactions.num_rows:
            transactions = pa.Table.from_pylist([{"tran_id": 0}], schema=transactions.schema)
        stamp = {"tran_begin_time": None, "cycle": cycle, "published_at": datetime.now(UTC), "host": self.host}
        for name, value in stamp.items():
            field = _PUBLICATION.field(name)
            transactions = transactions.append_column(field, pa.repeat(pa.scalar(value, field.type), len(transactions)))
        return transactions.select(_PUBLICATION.names)

    def _append(self, name: str, rows: pa.Table, cycle: int) -> bool:
        """Append to one of the tables; return False if it has the cycle already."""
        path, identity = self._path(name), self._identity(name)
        return append_small(self.committer, rows, path, identity=identity, cycle=cycle)

    def _path(self, name: str) -> str:
        return published.system_table_path(self.lake, name)

    def _identity(self, name: str) -> str:
        return f"{self.source_id}:{name}"


def instance_row(cycle: int, ordinal: int, event: InstanceEvent) -> dict[str, object]:
    """Return a row of `instances`."""
    return {
        "cycle": cycle,
        "ordinal": ordinal,
        "capture_instance": event.instance.capture_instance,
        "member_id": event.instance.member_id,
        "state": event.state,
        "lsn": event.lsn.value,
        "definition": encode_instance(event.instance),
        "note": event.note,
    }


def rows_of(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """Return rows from values by column name; a column without value is null."""
    return pa.Table.from_pylist(list(rows), schema=published.arrow_schema(columns))


def _state_after(
    state: LakeState, cycle: RecordedCycle, events: Iterable[InstanceEvent], transactions: pa.Table
) -> LakeState:
    instances = dict(state.instances)
    for event in events:
        published.apply_event(instances, event.instance, event.state, event.lsn, event.note)
    last_time = pc.max(transactions["tran_end_time"]).as_py() or state.last_time
    return LakeState(cycle.cycle, cycle.to_position, last_time, open_cycle=None, instances=instances)
