"""What tables and their columns mean, in the words that catalogues show. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rowtide.cdc.instances import Instance
from rowtide.targets.columns import TableShape
from rowtide.targets.options import HISTORY

_CHANGE_COLUMNS = {
    "__$start_lsn": "commit LSN of the transaction: with __$seqval and __$operation the order of changes",
    "__$end_lsn": "always null",
    "__$seqval": "number of the change in its transaction, from 1; both rows of an update share it",
    "__$operation": "1 delete, 2 insert, 3 update (row before), 4 update (row after), 6 truncate",
    "__$update_mask": "bits of the columns that changed; ordinal 1 is the lowest bit of the last byte",
    "__$absent_mask": "bits of the columns whose value the log did not carry; null: all are carried",
    "__$exact": "exact texts, by ordinal, of values that their column's type cannot hold",
}
_BASE_COLUMNS = {
    **_CHANGE_COLUMNS,
    "__$start_lsn": "LSN of the snapshot that the row is of; of a row that cleanup kept, its own commit LSN",
    "__$seqval": "0 for a row of a snapshot",
    "__$operation": "2 for a row of a snapshot; else as in the change table",
}
_HISTORY_COLUMNS = {
    "valid_from_lsn": "LSN from which on the row was so",
    "valid_from_time": "time of that transaction",
    "valid_to_lsn": "LSN at which the row was so no longer; null: it still is",
    "valid_to_time": "time of that transaction",
    "is_current": "true: the row is so now",
}


def describe_change_table(instance: Instance) -> str:
    """Return a change table's comment."""
    return (
        f"Changes of {_source(instance)}, by rowtide: read __$start_lsn up to the last published LSN "
        "(docs/how-to/read-a-lake.md)"
    )


def describe_base_table(instance: Instance) -> str:
    """Return a base table's comment."""
    return f"Rows of {_source(instance)} below its changes, by rowtide: the table as of an LSN is made of both"


def describe_target(target: str, kind: str, instance: Instance | None, capture_instance: str) -> str:
    """Return the comment of a target's table; `instance` is None if it is no longer captured."""
    rows = "History" if kind == HISTORY else "Current rows"
    source = _source(instance) if instance is not None else capture_instance
    return f"{rows} of {source}, by rowtide's target {target}: written by it alone"


def change_column_comments(instance: Instance) -> dict[str, str]:
    """Return the comments of a change table's columns."""
    return {**_captured(instance), **_CHANGE_COLUMNS}


def base_column_comments(instance: Instance) -> dict[str, str]:
    """Return the comments of a base table's columns."""
    return {**_captured(instance), **_BASE_COLUMNS}


def target_column_comments(instance: Instance, shape: TableShape, kind: str) -> Mapping[str, str]:
    """Return the comments of the columns of a target's table."""
    found = dict(_HISTORY_COLUMNS) if kind == HISTORY else {}
    if shape.soft_delete is not None:
        found[shape.soft_delete] = "true: the row is deleted at the source"
    for column in shape.columns:
        # An expression may have a secret in it.
        found[column.name] = (
            _column(instance, column.sources[0]) if column.sources else f"computed of {_source(instance)}"
        )
    return found


def _captured(instance: Instance) -> dict[str, str]:
    return {column.lake_name: _column(instance, ordinal) for ordinal, column in enumerate(instance.columns, 1)}


def _column(instance: Instance, ordinal: int) -> str:
    column = instance.columns[ordinal - 1]
    key = ", key" if column.index_ordinal is not None else ""
    return f"column {column.name} of {_source(instance)}, {column.type_text}, ordinal {ordinal}{key}"


def _source(instance: Instance) -> str:
    return f"{instance.source_schema}.{instance.source_table}"
