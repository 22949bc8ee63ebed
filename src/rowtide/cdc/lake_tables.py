"""The lake's tables for change data capture: their paths, and the columns of its system tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

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
