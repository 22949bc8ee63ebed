"""What the lake publishes: its tables, the last publication, capture instances as of it, and DDL on their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.instances import Instance, decode_instance
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.tables import host_name

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
CLEANUPS = [
    ("cleanup", "bigint"),
    ("cycle", "bigint"),
    ("capture_instance", "string"),
    ("low_water_mark", "bigint"),
    ("mark_time", "timestamp"),
    ("began_at", "timestamp"),
    ("token", "bigint"),
    ("host", "string"),
]
SNAPSHOTS = [
    ("cycle", "bigint"),
    ("snapshot", "bigint"),
    ("capture_instance", "string"),
    ("member_id", "string"),
    ("state", "string"),
    ("begin_lsn", "bigint"),
    ("covered_lsn", "bigint"),
    ("is_whole", "boolean"),
    ("definition", "string"),
    ("recorded_at", "timestamp"),
    ("token", "bigint"),
    ("host", "string"),
]
"""`cycle` numbers the table's own rows, the events of snapshots."""

DDL_HISTORY = [
    ("cycle", "bigint"),
    ("ordinal", "int"),
    ("source_object_id", "bigint"),
    ("source_schema", "string"),
    ("source_table", "string"),
    ("capture_instance", "string"),
    ("member_id", "string"),
    ("required_column_update", "boolean"),
    ("ddl_command", "string"),
    ("ddl_lsn", "bigint"),
    ("ddl_time", "timestamp"),
    ("inferred", "boolean"),
    ("rewrites_values", "boolean"),
]

_ARROW: dict[str, pa.DataType] = {
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


SYSTEM_TABLES = ("cycles", "instances", "ddl_history", "lsn_time_mapping", "cleanups", "snapshots")
"""The names of the tables of a lake that are of no instance."""
BASE_SUFFIX = "_base"


def arrow_schema(columns: Sequence[tuple[str, str]], *names: str) -> pa.Schema:
    """Return columns, all of them or those named, as pyarrow's."""
    return pa.schema([pa.field(name, _ARROW[type_name]) for name, type_name in columns if not names or name in names])


def system_table_path(lake: str, name: str) -> str:
    """Return the path of a system table."""
    return f"{lake}/cdc/{name}"


def change_table_path(lake: str, capture_instance: str) -> str:
    """Return the path of an instance's change table."""
    return f"{lake}/cdc/{capture_instance}_CT"


def base_table_path(lake: str, capture_instance: str) -> str:
    """Return the path of an instance's base table, whose rows lie below those of its change table."""
    return f"{lake}/cdc/{capture_instance}{BASE_SUFFIX}"


ENABLED, DISABLED, SUSPENDED = "enabled", "disabled", "suspended"
"""States of an instance: enabled from its low endpoint `lsn` on (again when cleanup moves that); disabled at `lsn`;
suspended by a gap, until the log enables it again after the gap.
"""

SKIPPED = "skipped"
"""No state, but a note: the changes of the transaction that committed at `lsn` are missing."""

ALTERED = "altered"
"""No state, but a new definition: the table was altered by the transaction that committed at `lsn`."""

CLOCK_MARGIN = timedelta(seconds=2)
"""A publication stamped by another host counts for readers only when its time is this far in the past."""

NEWEST_CYCLES = 8
"""The number of cycles whose files are searched first; nearly always one of them has an LSN that is old enough."""


@frozen
class LakePublication:
    """The last published cycle (0: none), the last published LSN, and the latest `tran_end_time`."""

    cycle: int
    lsn: CommitLsn | None
    time: datetime | None


@frozen
class LastTransaction:
    """The transaction of the highest published LSN, with its own commit time."""

    lsn: CommitLsn
    committed_at: datetime


@frozen
class MissingTransaction:
    """A transaction whose changes an instance lacks, and why."""

    lsn: CommitLsn
    note: str | None


@frozen
class RecordedInstance:
    """The latest state of an instance: `lsn` is its low endpoint while it is enabled.

    `whole_from` is the low endpoint with which it was enabled, or resumed after a gap: its changes are whole from there
    on, but for the transactions in `missing`, in log order. Cleanup moves `lsn` alone.
    """

    instance: Instance
    state: str
    lsn: CommitLsn
    note: str | None
    missing: tuple[MissingTransaction, ...] = ()
    whole_from: CommitLsn | None = None


def read_publication(lake: str) -> LakePublication | None:
    """Return the last publication, None if there is no such lake. For the writer: clocks do not matter."""
    return _read_publication(lake, None)


def read_visible_publication(lake: str) -> LakePublication | None:
    """Return the last publication that readers may see, None if there is no such lake.

    Its time, stamped after the last change table's commit, is past: a snapshot taken from now on has the rows.
    """
    return _read_publication(lake, datetime.now(UTC))


def read_last_transaction(lake: str) -> LastTransaction | None:
    """Return the last published transaction, None if the lake has none."""
    table = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
    if table is None:
        return None
    columns = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_commit_time", "cycle")
    newest = max(table.read_latest_cycle() - NEWEST_CYCLES, 0)
    return _last_transaction(table.read(columns, from_cycle=newest)) or _last_transaction(table.read(columns))


def _last_transaction(rows: pa.Table) -> LastTransaction | None:
    # A cycle without transactions has a row without an LSN.
    found = [(row["start_lsn"], row["tran_commit_time"]) for row in rows.to_pylist() if row["start_lsn"] is not None]
    if not found:
        return None
    lsn, committed_at = max(found)
    return LastTransaction(CommitLsn(lsn), committed_at)


def read_instances(lake: str, cycle: int) -> dict[str, RecordedInstance]:
    """Return the latest row of each capture instance up to a published cycle, by name."""
    table = SmallTable.open(system_table_path(lake, "instances"))
    rows = table.read(arrow_schema(INSTANCES)) if table is not None else pa.table({"cycle": []})
    return _replay_instances(row for row in rows.to_pylist() if row["cycle"] <= cycle)


def read_first_definition(lake: str, member_id: str) -> Instance | None:
    """Return an instance as it was enabled, None if it is not recorded."""
    table = SmallTable.open(system_table_path(lake, "instances"))
    rows = table.read(arrow_schema(INSTANCES)).to_pylist() if table is not None else []
    ordered = sorted(rows, key=lambda row: (row["cycle"], row["ordinal"]))
    definitions = (decode_instance(row["definition"]) for row in ordered)
    return next((instance for instance in definitions if instance.member_id == member_id), None)


def list_table_paths(lake: str) -> list[str]:
    """Return the paths of the tables that a lake may have: its own, and those of all instances that it recorded."""
    table = SmallTable.open(system_table_path(lake, "instances"))
    rows = [] if table is None else table.read(arrow_schema(INSTANCES, "cycle", "capture_instance")).to_pylist()
    names = dict.fromkeys(str(row["capture_instance"]) for row in rows)
    of_instances = [path(lake, name) for name in names for path in (change_table_path, base_table_path)]
    return [*(system_table_path(lake, name) for name in SYSTEM_TABLES), *of_instances]


def _read_publication(lake: str, now: datetime | None) -> LakePublication | None:
    table = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
    if table is None:
        return None
    found = _last(table, max(table.read_latest_cycle() - NEWEST_CYCLES, 0), now)
    return found if found.lsn is not None else _last(table, 0, now)


def _last(table: SmallTable, from_cycle: int, now: datetime | None) -> LakePublication:
    columns = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_end_time", "cycle", "published_at", "host")
    rows = table.read(columns, from_cycle=from_cycle)
    if now is not None:
        rows = past(rows, now, host_name())
    lsn = pc.max(rows["start_lsn"]).as_py()
    return LakePublication(
        cycle=pc.max(rows["cycle"]).as_py() or 0,
        lsn=CommitLsn(lsn) if lsn is not None else None,
        time=pc.max(rows["tran_end_time"]).as_py(),
    )


def past(publications: pa.Table, now: datetime, host: str) -> pa.Table:
    """Return the rows, with `host` and `published_at`, whose time is certainly in the past for a reader on a host."""
    is_ours = pc.equal(publications["host"], pa.scalar(host))
    limit = pc.if_else(is_ours, pa.scalar(now), pa.scalar(now - CLOCK_MARGIN))
    return publications.filter(pc.less(publications["published_at"], limit))


def _replay_instances(rows: Iterable[Mapping[str, Any]]) -> dict[str, RecordedInstance]:
    latest: dict[str, RecordedInstance] = {}
    for row in sorted(rows, key=lambda row: (row["cycle"], row["ordinal"])):
        instance, lsn = decode_instance(row["definition"]), CommitLsn(row["lsn"])
        apply_event(latest, instance, row["state"], lsn, row["note"])
    return latest


def apply_event(
    latest: dict[str, RecordedInstance], instance: Instance, state: str, lsn: CommitLsn, note: str | None
) -> None:
    """Apply one row of `instances`, the next in log order, to the latest state of each instance."""
    name = instance.capture_instance
    if state == SKIPPED:
        missing = (*latest[name].missing, MissingTransaction(lsn, note))
        latest[name] = replace(latest[name], missing=missing)
    elif state == ALTERED:
        latest[name] = replace(latest[name], instance=instance)
    elif (known := latest.get(name)) is not None and _is_moved(known, instance, state):
        latest[name] = replace(known, instance=instance, lsn=lsn, note=note)
    else:
        latest[name] = RecordedInstance(instance, state, lsn, note, whole_from=lsn if state == ENABLED else None)


def _is_moved(known: RecordedInstance, instance: Instance, state: str) -> bool:
    """Return whether an event only moves the low endpoint."""
    return known.state == state == ENABLED and known.instance.member_id == instance.member_id


@frozen
class ListedChange:
    """A row of sp_cdc_get_ddl_history, and rowtide's own columns.

    Schema and table are the names after the statement; `required_column_update`: a column of the change table changed
    its type; `ddl_time` is the commit time. `inferred`: no event trigger recorded the statement, `ddl_command`
    describes the difference. `rewrites_values`: the server rewrote values, or partitions with rows were attached or
    detached, without change rows.
    """

    source_schema: str
    source_table: str
    capture_instance: str
    required_column_update: bool
    ddl_command: str
    ddl_lsn: CommitLsn
    ddl_time: datetime
    inferred: bool
    rewrites_values: bool


def read_history(lake: str, member_id: str, cycle: int) -> tuple[ListedChange, ...]:
    """Return the DDL on an instance's table, up to a published cycle, in log order; without Spark."""
    return read_histories(lake, cycle).get(member_id, ())


def read_histories(lake: str, cycle: int) -> Mapping[str, tuple[ListedChange, ...]]:
    """Return the DDL on the tables of all instances as `read_history` does, by their member ids."""
    table = SmallTable.open(system_table_path(lake, "ddl_history"))
    if table is None:
        return {}
    found = table.read(arrow_schema(DDL_HISTORY)).sort_by([("cycle", "ascending"), ("ordinal", "ascending")])
    names = [field.name for field in fields(ListedChange)]
    histories: dict[str, list[ListedChange]] = {}
    for row in found.to_pylist():
        if row["cycle"] <= cycle:
            change = ListedChange(**{name: row[name] for name in names} | {"ddl_lsn": CommitLsn(row["ddl_lsn"])})
            histories.setdefault(row["member_id"], []).append(change)
    return {member_id: tuple(changes) for member_id, changes in histories.items()}
