"""The history of DDL on captured tables, in the lake (SQL Server: cdc.ddl_history, sp_cdc_get_ddl_history)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from rowtide.cdc.published import DDL_HISTORY, arrow_schema, system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.lake.tables import SmallTable

if TYPE_CHECKING:
    from rowtide.cdc.ddl.schema_changes import InstanceSchemaChange


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


def history_rows(cycle: int, history: Sequence[InstanceSchemaChange], transactions: pa.Table) -> pa.Table:
    """Return a cycle's rows of `ddl_history`, in log order; times are those of its `transactions`."""
    times = dict(zip(*(transactions[name].to_pylist() for name in ("start_lsn", "tran_commit_time")), strict=True))
    rows = [
        {
            "cycle": cycle,
            "ordinal": ordinal,
            "source_object_id": change.instance.source_id,
            "source_schema": change.instance.source_schema,
            "source_table": change.instance.source_table,
            "capture_instance": change.instance.capture_instance,
            "member_id": change.instance.member_id,
            "required_column_update": change.required_column_update,
            "ddl_command": change.command,
            "ddl_lsn": change.lsn.value,
            "ddl_time": times[change.lsn.value],
            "inferred": change.is_inferred,
            "rewrites_values": change.rewrites_values,
        }
        for ordinal, change in enumerate(history)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(DDL_HISTORY))


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
