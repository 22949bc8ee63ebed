"""A lake without a source: cycles of change rows appended as capture appends them, in no time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.cdc.capture.change_files import TRANSACTION
from rowtide.cdc.change_columns import change_columns
from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.cdc.published import ENABLED, SNAPSHOTS, base_table_path, change_table_path, system_table_path
from rowtide.cdc.recorded_snapshots import SnapshotDefinition, SnapshotState, encode_definition
from rowtide.cdc.system_tables import InstanceEvent, RecordedCycle, SystemTables, rows_of
from rowtide.core.lsn import CommitLsn, Position
from rowtide.lake import tables
from rowtide.lake.session import pinned
from rowtide.lake.small_tables import append_small
from rowtide.lake.tables import compact, is_compaction_due

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INSTANCE = "public_orders"
LSN = "__$start_lsn"
LSNS_PER_CYCLE = 1_000_000
SECONDS_PER_CYCLE = 5
ROWS_PER_TRANSACTION, LSN_STEP = 100, 64
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_COLUMNS = [
    ("id", "bigint", 20, 1),
    ("customer", "bigint", 20, None),
    ("amount", "numeric(12,2)", 1700, None),
    ("status", "text", 25, None),
    ("note", "text", 25, None),
]

COLUMNS = tuple(name for name, *_ in _COLUMNS)


class MadeLake:
    """One instance, `INSTANCE`, of a table of orders with the key `id`."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = pinned(spark)
        self.lake = str(folder)
        self.cycle = 0
        self._instance = _define()
        self._system_tables = SystemTables(self.lake, "benchmark")
        self._system_tables.ensure()
        self._columns = [(column.name, column.type_name) for column in change_columns(self._instance)]
        tables.ensure_table(self.path, self._columns, identity=self._instance.member_id)
        self._state = self._system_tables.read()

    @property
    def path(self) -> str:
        """Where the change table is."""
        return change_table_path(self.lake, INSTANCE)

    @property
    def base_path(self) -> str:
        """Where the base is."""
        return base_table_path(self.lake, INSTANCE)

    def append(self, orders: DataFrame, lsns: Sequence[int]) -> None:
        """Publish a cycle: rows with the columns of a change table, of transactions at these LSNs of the cycle."""
        self.cycle += 1
        first = self.cycle * LSNS_PER_CYCLE
        recorded = RecordedCycle(self.cycle, Position(first), Position(first + LSNS_PER_CYCLE))
        events = [InstanceEvent(self._instance, ENABLED, CommitLsn(first))] if self.cycle == 1 else []
        self._system_tables.record(recorded, token=1)
        rows = orders.selectExpr(*(_typed(name, kind, orders.columns, first) for name, kind in self._columns))
        identity, committer = self._instance.member_id, self._system_tables.committer
        append_small(committer, rows.toArrow(), self.path, identity=identity, cycle=self.cycle)
        self._system_tables.record_instances(self.cycle, events)
        self._state = self._system_tables.publish(self._state, recorded, self._transactions(first, lsns), events)

    def copy(self, chunks: Iterable[DataFrame]) -> None:
        """Record a snapshot, complete as of what is published, with rows in chunks of captured columns."""
        begin = self.cycle * LSNS_PER_CYCLE + LSNS_PER_CYCLE // 2
        tables.ensure_table(self.base_path, self._columns, identity=self._instance.member_id)
        committer = self._system_tables.committer
        for number, rows in enumerate(chunks):
            stamp = (f"0 as `{LSN}`", "0 as `__$seqval`", "2 as `__$operation`")
            stamped = rows.selectExpr(*stamp, *rows.columns)
            typed = stamped.selectExpr(*(_typed(name, kind, stamped.columns, begin) for name, kind in self._columns))
            append_small(committer, typed.toArrow(), self.base_path, identity=f"m1:snapshot:1:{number}", cycle=1)
        definition = SnapshotDefinition(1, None, (), None, "", 0, 0)
        row = {
            "cycle": 1,
            "snapshot": 1,
            "capture_instance": INSTANCE,
            "member_id": self._instance.member_id,
            "state": SnapshotState.COVERED.value,
            "begin_lsn": begin,
            "covered_lsn": begin + 1,
            "is_whole": True,
            "definition": encode_definition(definition),
        }
        path = system_table_path(self.lake, "snapshots")
        tables.ensure_table(path, SNAPSHOTS, identity="snapshots")
        append_small(committer, rows_of(SNAPSHOTS, [row]), path, identity="snapshots", cycle=1)

    def compact_in_turn(self) -> None:
        """Compact as capture does, every hundred cycles, with logs as old as if a cycle had come every few seconds."""
        places = (system_table_path(self.lake, "cycles"), system_table_path(self.lake, "lsn_time_mapping"), self.path)
        if is_compaction_due(self.cycle, len(places)):
            for place in places:
                self._age_log(Path(place) / "_delta_log")
        for table in self._system_tables.list_due(self.cycle, [INSTANCE]):
            compact(table)

    def _age_log(self, folder: Path) -> None:
        for file in folder.glob("*.json"):
            age_s = max(self.cycle - int(file.stem), 0) * SECONDS_PER_CYCLE
            committed_ms = int((time.time() - age_s) * 1000)
            file.write_text(re.sub(r'"timestamp":\d+', f'"timestamp":{committed_ms}', file.read_text()))

    def _transactions(self, first: int, lsns: Sequence[int]) -> pa.Table:
        time = _BEGIN + timedelta(seconds=self.cycle * SECONDS_PER_CYCLE)
        rows = [
            {"start_lsn": first + lsn, "tran_end_time": time, "tran_id": first + lsn, "tran_commit_time": time}
            for lsn in lsns
        ]
        return pa.Table.from_pylist(rows, schema=TRANSACTION)


def order_values(version: str) -> tuple[str, ...]:
    """Return the expressions of an order's columns but the key `id`; `version` is the expression of the row's."""
    return (
        "id % 1000 as customer",
        f"(id * 7 + {version}) % 100000 / 100 as amount",
        f"concat('status-', {version} % 10) as status",
        f"concat('note of ', id, ' at ', {version}) as note",
    )


def make_changes(
    made: MadeLake,
    count: int,
    key: str,
    version: int,
    *,
    operations: Sequence[int] = (3, 4),
    per_transaction: int = ROWS_PER_TRANSACTION,
    values: Callable[[str], Sequence[str]] = order_values,
) -> DataFrame:
    """Return a cycle's change rows: the operations on `count` keys, each of which `key` makes of a number `id` from 0.

    Rows are of a version, an update's old ones of the version before.
    """
    numbered = made.spark.range(0, count, 1, 1).selectExpr("id as number", f"{key} as id")
    exploded = numbered.selectExpr("*", f"explode(array({', '.join(map(str, operations))})) as operation")
    return exploded.selectExpr(
        f"number div {per_transaction} * {LSN_STEP} as `__$start_lsn`",
        f"number % {per_transaction} + 1 as `__$seqval`",
        "operation as `__$operation`",
        "if(operation in (1, 2), x'1f', x'1c') as `__$update_mask`",
        "id",
        *values(f"if(operation = 3, {version - 1}, {version})"),
    )


def _typed(name: str, type_name: str, given: Sequence[str], first: int) -> str:
    """Return a change table's column, null where it is not given; LSNs are within the cycle."""
    value = f"`{name}`" if name in given else "null"
    return f"cast({f'{first} + {value}' if name == '__$start_lsn' else value} as {type_name}) as `{name}`"


def _define() -> Instance:
    columns = tuple(
        CapturedColumn(name, number, type_text, type_code, -1, name, is_computed=False, index_ordinal=ordinal)
        for number, (name, type_text, type_code, ordinal) in enumerate(_COLUMNS, 1)
    )
    return Instance(
        capture_instance=INSTANCE,
        member_id="m1",
        database_kind="postgres",
        source_id=1,
        source_schema="public",
        source_table="orders",
        supports_net_changes=True,
        index_name="orders_pkey",
        columns=columns,
    )
