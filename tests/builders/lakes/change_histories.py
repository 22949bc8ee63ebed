"""What change tables have of a workload, in the form in which the workload remembers it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from builders.capture.captured_databases import FINDS_EVERYTHING, CapturedDatabase
from builders.workloads import COLUMNS, ChangeRow, History
from rowtide.cdc.published import system_table_path
from rowtide.core.lsn import CommitLsn
from rowtide.lake import tables


def read_transactions(captured: CapturedDatabase) -> dict[int, int]:
    """Return the transaction id for each LSN that is published, or is about to be."""
    mapping = tables.read_table(captured.spark, system_table_path(str(captured.lake), "lsn_time_mapping"))
    rows = mapping.where("start_lsn is not null").select("start_lsn", "tran_id").toArrow().to_pylist()
    return {row["start_lsn"]: row["tran_id"] for row in rows}


def read_instance(
    captured: CapturedDatabase, instance: str, table: str, to_lsn: CommitLsn, xids: Mapping[int, int]
) -> History:
    """Return the change rows of an instance of one of the workload's tables (its key in `COLUMNS`) up to an LSN.

    `xids` are those of `read_transactions`, read after the LSN was.
    """
    columns = COLUMNS[table]
    changes = captured.cdc.get_all_changes(instance, None, to_lsn, FINDS_EVERYTHING, spark=captured.spark)
    rows = changes.select("`__$start_lsn`", "`__$seqval`", "`__$operation`", *columns).toArrow().columns
    by_column: list[list[Any]] = [column.to_pylist() for column in rows]
    history: dict[int, list[ChangeRow]] = defaultdict(list)
    for lsn, seqval, operation, *values in zip(*by_column, strict=True):
        history[xids[lsn]].append((seqval, operation, table, tuple(values)))
    return dict(history)
