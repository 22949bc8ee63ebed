"""The lake's own account of capture: tables `cycles`, `instances` and `lsn_time_mapping` beside the change tables.

Each is appended to once per cycle. A cycle's range is recorded first; `lsn_time_mapping` comes last and
publishes it: rows of the others count only up to the last published cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.cdc.definitions import Instance, encode_instance
from rowtide.cdc.lake_tables import CYCLES, INSTANCES, LSN_TIME_MAPPING, RANGED, arrow_schema, ledger_path
from rowtide.cdc.published import Publication, RecordedInstance, read_instances, read_publication
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.lake import tables
from rowtide.lake.appended import AppendedTable
from rowtide.lake.appends import Appended, Appender, Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A row of `cycles`: the range [from, to)."""

    cycle: int
    from_position: Position
    to_position: Position


@dataclass(frozen=True, slots=True)
class LakeState:
    """What the lake holds: all below `position`, through cycle `cycle`; `open_cycle` is recorded, not published."""

    cycle: int
    position: Position | None
    last_time_us: int | None
    open_cycle: RecordedCycle | None
    instances: Mapping[str, RecordedInstance]


@dataclass(frozen=True, slots=True)
class InstanceEvent:
    """A row for `instances`."""

    instance: Instance
    state: str
    lsn: CommitLsn
    note: str | None = None


class Ledger:
    """The three tables of one lake, written under one source's identity."""

    def __init__(self, spark: SparkSession, lake: str, source_id: str) -> None:
        self.spark = spark
        self.lake = lake
        self._source_id = source_id
        self._host = tables.host_name()
        self._appender = Appender(spark)

    def ensure(self) -> None:
        """Make the tables where they are missing."""
        for name, columns in (("cycles", CYCLES), ("instances", INSTANCES), ("lsn_time_mapping", LSN_TIME_MAPPING)):
            tables.ensure_table(self.spark, self._path(name), columns, identity=self._identity(name))

    def read(self) -> LakeState:
        """Read where the lake stands."""
        last = read_publication(self.spark, self.lake) or Publication(0, None, None)
        recorded = {cycle.cycle: cycle for cycle in self._read_cycles(last.cycle)}
        return LakeState(
            cycle=last.cycle,
            position=recorded[last.cycle].to_position if last.cycle in recorded else None,
            last_time_us=_microseconds(last.time),
            open_cycle=recorded.get(last.cycle + 1),
            instances=read_instances(self.spark, self.lake, last.cycle),
        )

    def _read_cycles(self, from_cycle: int) -> list[RecordedCycle]:
        table = AppendedTable.open(self.spark, self._path("cycles"))
        columns = arrow_schema(CYCLES, "cycle", "from_position", "to_position")
        rows = table.read(columns, from_cycle=from_cycle).to_pylist() if table is not None else []
        return [
            RecordedCycle(row["cycle"], Position(row["from_position"]), Position(row["to_position"])) for row in rows
        ]

    def record(self, cycle: RecordedCycle, token: int) -> None:
        """Record a cycle's range, before anything is appended for it."""
        values = {
            "cycle": cycle.cycle,
            "from_position": cycle.from_position.value,
            "to_position": cycle.to_position.value,
            "recorded_at": datetime.now(UTC),
            "token": token,
            "host": self._host,
        }
        failpoint("cycle_record.before")
        self._append("cycles", self._rows_of(CYCLES, [values]), cycle.cycle)
        failpoint("cycle_record.after")

    def record_instances(self, cycle: int, events: Iterable[InstanceEvent]) -> None:
        """Append what begins, ends or is suspended in a cycle; it counts when the cycle is published."""
        rows = [
            {
                "cycle": cycle,
                "ordinal": ordinal,
                "capture_instance": event.instance.capture_instance,
                "member_id": event.instance.member_id,
                "state": event.state,
                "lsn": event.lsn.value,
                "definition": encode_instance(event.instance),
                "note": event.note,
            }
            for ordinal, event in enumerate(events)
        ]
        if rows:
            self._append("instances", self._rows_of(INSTANCES, rows), cycle)

    def publish(
        self, state: LakeState, cycle: RecordedCycle, transactions: DataFrame, events: Iterable[InstanceEvent]
    ) -> LakeState:
        """Append a cycle's transactions, `change_rows.transactions`: readers see the cycle from now on.

        `state` is the one before, `events` the cycle's rows of `instances`; returns the state after.
        """
        rows = transactions.selectExpr(
            "start_lsn",
            "cast(null as timestamp) as tran_begin_time",
            "tran_end_time",
            "tran_id",
            "tran_commit_time",
            f"cast({cycle.cycle} as bigint) as cycle",
            "current_timestamp() as published_at",
            f"'{self._host}' as host",
        )
        failpoint("publication.before")
        appended = self._append("lsn_time_mapping", rows, cycle.cycle)
        failpoint("publication.after")
        if appended is None:
            return self._finish_publication(cycle.cycle)
        if not appended.rows:
            self._publish_without_transactions(cycle.cycle)
        return _state_after(state, cycle, events, appended.ranges.get("tran_end_time"))

    def _finish_publication(self, cycle: int) -> LakeState:
        """Do what may be missing of a publication whose transactions are there already, perhaps none."""
        found = self.read()
        if found.cycle == cycle:
            return found
        self._publish_without_transactions(cycle)
        return self.read()

    def _publish_without_transactions(self, cycle: int) -> None:
        """Publish a cycle in which nothing committed (a gap): one row without LSN, tran_id 0."""
        values = {"tran_id": 0, "cycle": cycle, "published_at": datetime.now(UTC), "host": self._host}
        self._append("lsn_time_mapping", self._rows_of(LSN_TIME_MAPPING, [values]), cycle, part=":empty")

    def _append(self, name: str, rows: DataFrame, cycle: int, *, part: str = "") -> Appended | None:
        identity = self._identity(name) + part
        return self._appender.append_once(
            rows.coalesce(1), self._path(name), identity=identity, cycle=cycle, ranged=RANGED[name]
        )

    def _rows_of(self, columns: list[tuple[str, str]], rows: Sequence[Mapping[str, object]]) -> DataFrame:
        """Return rows from values by column name; a column without value is null."""
        return self.spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=arrow_schema(columns)))

    def _path(self, name: str) -> str:
        return ledger_path(self.lake, name)

    def _identity(self, name: str) -> str:
        return f"{self._source_id}:{name}"


def _state_after(
    state: LakeState, cycle: RecordedCycle, events: Iterable[InstanceEvent], times: Range | None
) -> LakeState:
    instances = dict(state.instances)
    for event in events:
        recorded = RecordedInstance(event.instance, event.state, event.lsn, event.note)
        instances[event.instance.capture_instance] = recorded
    last_time_us = state.last_time_us if times is None or times.high is None else times.high
    return LakeState(cycle.cycle, cycle.to_position, last_time_us, open_cycle=None, instances=instances)


def _microseconds(time: datetime | None) -> int | None:
    return (time - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) if time is not None else None
