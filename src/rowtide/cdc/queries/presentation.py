"""Change rows for programs outside Spark: text where their numbers or times would not be exact."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.cdc.definitions import Instance
from rowtide.cdc.rows.expressions import column_type
from rowtide.lake.session import spark_failures_named
from rowtide.lake.spool import stream_rows
from rowtide.lake.sql_text import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LARGEST_EXACT_INTEGER = 2**53
_NUMBERS = ("smallint", "int", "bigint", "float", "double", "boolean")
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""Numbers that JSON lacks, by Python's text for them."""
_METADATA = {
    "__$start_lsn": "`__$start_lsn`",
    "__$seqval": "`__$seqval`",
    "__$operation": "`__$operation`",
    "__$update_mask": "lower(hex(`__$update_mask`))",
    "__$absent_mask": "lower(hex(`__$absent_mask`))",
    "__$capture_instance": "`__$capture_instance`",
}

Row = tuple[object, ...]


def present(changes: DataFrame, instance: Instance) -> tuple[list[str], Generator[Row]]:
    """Return the column names, by their names in the source, and the rows of all or net changes, in their order.

    Masks and binary values are hexadecimal text, times, decimals, infinities and NaN the source's text, a value that
    its Spark type cannot hold its exact text, an integer beyond 2**53 text. `__$absent_mask` is there for instances
    whose log may leave values out.
    """
    shown = (name for name in _METADATA if name != "__$absent_mask" or instance.may_lack_values)
    metadata = [name for name in shown if name in changes.columns]
    rows = changes.selectExpr("`__$exact`", *(_METADATA[name] for name in metadata), *_plain_values(instance))
    names = [*metadata, *(column.name for column in instance.columns)]
    return names, _present_rows(stream_rows(rows), len(metadata))


def write_parquet(changes: DataFrame, instance: Instance, file: Path) -> None:
    """Write all or net changes to one local Parquet file, typed, in their order; captured columns as in the source."""
    names = {column.lake_name: column.name for column in instance.columns}
    # The sort's partitions follow one another: one task writes them in order.
    renamed = changes.toDF(*(names.get(name, name) for name in changes.columns)).coalesce(1)
    with tempfile.TemporaryDirectory(prefix=f"{file.name}.", dir=file.parent) as folder:
        with spark_failures_named():
            renamed.write.parquet(f"{folder}/rows")
        (written,) = Path(folder, "rows").glob("*.parquet")
        written.replace(file)


_AS_TEXT: Mapping[str, str] = {
    "binary": "lower(hex({column}))",
    "timestamp": "trim(leading '+' from cast({column} as string)) || '+00'",
    "timestamp_ntz": "trim(leading '+' from cast({column} as string))",
    "date": "trim(leading '+' from cast({column} as string))",
}


def _plain_values(instance: Instance) -> Iterator[str]:
    for column in instance.columns:
        type_name = column_type(instance, column).name
        pattern = "{column}" if type_name in _NUMBERS else _AS_TEXT.get(type_name, "cast({column} as string)")
        yield pattern.format(column=quote(column.lake_name))


def _present_rows(rows: Generator[Row], metadata: int) -> Generator[Row]:
    with closing(rows):
        for row in rows:
            yield _present_row(row, metadata)


def _present_row(row: Row, metadata: int) -> Row:
    exact, lsn, *values = row
    presented = [lsn, *(_exact_number(value) for value in values)]
    if isinstance(exact, list):
        for ordinal, text in exact:
            presented[metadata + ordinal - 1] = text
    return tuple(presented)


def _exact_number(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return _NOT_FINITE[str(value)]
    is_inexact = type(value) is int and abs(value) > _LARGEST_EXACT_INTEGER
    return str(value) if is_inexact else value
