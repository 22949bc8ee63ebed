"""The lake's own account of capture: tables `cycles`, `instances` and `lsn_time_mapping` beside the change tables.

Each is appended to once per cycle. A cycle's range is recorded first; `lsn_time_mapping` comes last and
publishes it: rows of the others count only up to the last published cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowtide.cdc.definitions import Instance, decode_instance, encode_instance
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.lake import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

CYCLES = [
    ("cycle", "bigint"),
    ("from_position", "bigint"),
    ("to_position", "bigint"),
    ("recorded_at", "timestamp"),
    ("token", "bigint"),
    ("host", "string"),
]
INSTANCES = [
    ("cycle", "bigint"),
    ("ordinal", "int"),
    ("capture_instance", "string"),
    ("member_id", "string"),
    ("state", "string"),
    ("lsn", "bigint"),
    ("definition", "string"),
    ("note", "string"),
]
LSN_TIME_MAPPING = [
    ("start_lsn", "bigint"),
    ("tran_begin_time", "timestamp"),
    ("tran_end_time", "timestamp"),
    ("tran_id", "bigint"),
    ("tran_commit_time", "timestamp"),
    ("cycle", "bigint"),
    ("published_at", "timestamp"),
    ("host", "string"),
]

ENABLED, DISABLED, SUSPENDED = "enabled", "disabled", "suspended"
"""States of an instance: enabled from its low endpoint `lsn` on; disabled at `lsn`; suspended by a gap, until the
log enables it again behind the gap."""


@dataclass(frozen=True, slots=True)
class RecordedInstance:
    """The latest row about an instance: `lsn` is its low endpoint while it is enabled."""

    instance: Instance
    state: str
    lsn: CommitLsn
    note: str | None


@dataclass(frozen=True, slots=True)
class RecordedCycle:
    """A row of `cycles`: the range [from, to)."""

    cycle: int
    from_position: Position
    to_position: Position


@dataclass(frozen=True, slots=True)
class LakeState:
    """What the lake holds: everything below `position`, through cycle `cycle`; `open_cycle` was recorded, not published."""

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
        self._spark = spark
        self._lake = lake
        self._source_id = source_id
        self._host = tables.host_name()

    def ensure(self) -> None:
        """Make the tables where they are missing."""
        for name, columns in (("cycles", CYCLES), ("instances", INSTANCES), ("lsn_time_mapping", LSN_TIME_MAPPING)):
            tables.ensure_table(self._spark, self._path(name), columns, identity=self._identity(name))

    def read(self) -> LakeState:
        """Read where the lake stands."""
        last = (
            self._rows("lsn_time_mapping")
            .selectExpr("max(cycle) as cycle", "unix_micros(max(tran_end_time)) as time_us")
            .first()
        )
        cycle = (last["cycle"] if last is not None else None) or 0
        recorded = {
            row["cycle"]: _recorded_cycle(row) for row in self._rows("cycles").where(f"cycle >= {cycle}").collect()
        }
        return LakeState(
            cycle=cycle,
            position=recorded[cycle].to_position if cycle in recorded else None,
            last_time_us=last["time_us"] if last is not None else None,
            open_cycle=recorded.get(cycle + 1),
            instances=fold_instances(self._rows("instances").where(f"cycle <= {cycle}").collect()),
        )

    def record(self, cycle: RecordedCycle, token: int) -> None:
        """Record a cycle's range, before anything is appended for it."""
        row = {
            "cycle": cycle.cycle,
            "from_position": cycle.from_position.value,
            "to_position": cycle.to_position.value,
            "token": token,
            "host": self._host,
        }
        failpoint("cycle_record.before")
        self._append("cycles", self._literal_rows(CYCLES, [row], {"recorded_at": "current_timestamp()"}), cycle.cycle)
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
            self._append("instances", self._literal_rows(INSTANCES, rows, {}), cycle)

    def publish(self, cycle: int, transactions: DataFrame) -> None:
        """Append a cycle's transactions (start_lsn, tran_end_time, tran_id, tran_commit_time): readers see it from now on."""
        rows = transactions.selectExpr(
            "start_lsn",
            "cast(null as timestamp) as tran_begin_time",
            "tran_end_time",
            "tran_id",
            "tran_commit_time",
            f"cast({cycle} as bigint) as cycle",
            "current_timestamp() as published_at",
            f"'{self._host}' as host",
        )
        failpoint("publication.before")
        self._append("lsn_time_mapping", rows, cycle)
        failpoint("publication.after")

    def publish_without_transactions(self, cycle: int) -> None:
        """Publish a cycle in which nothing committed (a gap): one row without LSN, tran_id 0."""
        row = {"tran_id": 0, "cycle": cycle, "host": self._host}
        nothing = dict.fromkeys(("start_lsn", "tran_begin_time", "tran_end_time", "tran_commit_time"))
        rows = self._literal_rows(LSN_TIME_MAPPING, [{**nothing, **row}], {"published_at": "current_timestamp()"})
        self._append("lsn_time_mapping", rows, cycle, part="empty")

    def _append(self, name: str, rows: DataFrame, cycle: int, *, part: str = "") -> None:
        tables.append_once(rows.coalesce(1), self._path(name), identity=self._identity(name) + part, cycle=cycle)

    def _literal_rows(
        self, columns: list[tuple[str, str]], rows: Sequence[Mapping[str, object]], computed: Mapping[str, str]
    ) -> DataFrame:
        given = [(name, type_name) for name, type_name in columns if name not in computed]
        schema = ", ".join(f"{name} {type_name}" for name, type_name in given)
        values = [tuple(row[name] for name, _ in given) for row in rows]
        frame = self._spark.createDataFrame(values, schema)
        return frame.selectExpr(*(f"{computed.get(name, name)} as {name}" for name, _ in columns))

    def _rows(self, name: str) -> DataFrame:
        return tables.read_table(self._spark, self._path(name))

    def _path(self, name: str) -> str:
        return ledger_path(self._lake, name)

    def _identity(self, name: str) -> str:
        return f"{self._source_id}:{name}"


def ledger_path(lake: str, name: str) -> str:
    """Return the path of one of the three tables."""
    return f"{lake}/cdc/{name}"


def change_table_path(lake: str, capture_instance: str) -> str:
    """Return the path of an instance's change table."""
    return f"{lake}/cdc/{capture_instance}_CT"


def fold_instances(rows: Iterable[Row]) -> dict[str, RecordedInstance]:
    """Return the latest row of each capture instance, by name."""
    latest: dict[str, RecordedInstance] = {}
    for row in sorted(rows, key=lambda row: (row["cycle"], row["ordinal"])):
        latest[row["capture_instance"]] = RecordedInstance(
            decode_instance(row["definition"]), row["state"], CommitLsn(row["lsn"]), row["note"]
        )
    return latest


def _recorded_cycle(row: Row) -> RecordedCycle:
    return RecordedCycle(row["cycle"], Position(row["from_position"]), Position(row["to_position"]))
