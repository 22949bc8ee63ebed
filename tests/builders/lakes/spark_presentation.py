"""Change rows as programs outside Spark see them, made by Spark SQL and Python: to compare with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rowtide.cdc.change_columns import column_type
from rowtide.cdc.instances import Instance
from rowtide.lake.sql_text import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS = ("smallint", "int", "bigint", "float", "double", "boolean")
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_METADATA = {
    "__$start_lsn": "`__$start_lsn`",
    "__$seqval": "`__$seqval`",
    "__$operation": "`__$operation`",
    "__$update_mask": "lower(hex(`__$update_mask`))",
    "__$absent_mask": "lower(hex(`__$absent_mask`))",
    "__$capture_instance": "`__$capture_instance`",
}
_AS_TEXT: Mapping[str, str] = {
    "binary": "lower(hex({column}))",
    "timestamp": "trim(leading '+' from cast({column} as string)) || '+00'",
    "timestamp_ntz": "trim(leading '+' from cast({column} as string))",
    "date": "trim(leading '+' from cast({column} as string))",
}

Row = tuple[object, ...]


def present_by_spark(changes: DataFrame, instance: Instance) -> tuple[list[str], list[Row]]:
    """Return the column names, by their names in the source, and the rows of all or net changes."""
    shown = (name for name in _METADATA if name != "__$absent_mask" or instance.may_lack_values)
    metadata = [name for name in shown if name in changes.columns]
    rows = changes.selectExpr("`__$exact`", *(_METADATA[name] for name in metadata), *_plain_values(instance))
    names = [*metadata, *(column.name for column in instance.columns)]
    return names, [_present_row(tuple(row), len(metadata)) for row in rows.collect()]


def _plain_values(instance: Instance) -> Iterator[str]:
    for column in instance.columns:
        type_name = column_type(instance, column).name
        pattern = "{column}" if type_name in _NUMBERS else _AS_TEXT.get(type_name, "cast({column} as string)")
        yield pattern.format(column=quote(column.lake_name))


def _present_row(row: tuple[Any, ...], metadata: int) -> Row:
    exact, lsn, *values = row
    presented = [lsn, *(_exact_number(value) for value in values)]
    for ordinal, text in (exact or {}).items():
        presented[metadata + ordinal - 1] = text
    return tuple(presented)


def _exact_number(value: object) -> object:
    return _NOT_FINITE[str(value)] if isinstance(value, float) and not math.isfinite(value) else value
