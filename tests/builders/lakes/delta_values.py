"""Rows of every type that Delta has, and Spark's reading of a table beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from builders.lakes.delta_tables import own
from rowtide.delta.snapshot import Snapshot
from rowtide.lake.session import pinned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUES = """
    select cast(id as bigint) as id, cast(id as int) as `int`, cast(id as smallint) as small,
        cast(id as tinyint) as tiny,
        cast(id + 0.5 as float) as `float`, if(id = 1, double('NaN'), double(id) / 3) as `double`,
        id % 2 = 0 as flag, if(id = 2, null, concat('ü', id)) as text, cast(concat('b', id) as binary) as bytes,
        date_add(date'0001-01-02', cast(id as int)) as day, timestamp_micros(-62135596799999999 + id) as early,
        timestamp'2024-02-29 12:00:00.123456' as moment, timestamp_ntz'1500-02-28 12:00:00.000001' as local,
        cast(id as decimal(9, 2)) as small_decimal, cast(id as decimal(18, 4)) as middle_decimal,
        cast('12345678901234567890.123456789' as decimal(38, 18)) as large_decimal,
        if(id = 3, null, array(cast(id as int), null)) as numbers,
        if(id = 0, null, map(cast(id as int), 'x', -1, null)) as exact,
        if(id = 1, null, named_struct('a', id, 'b', named_struct('c', array(named_struct('d', id))))) as nested
    from range({start}, {end})
"""


def in_order(rows: Sequence[object]) -> list[str]:
    return sorted(map(repr, rows))


def require_same(spark: SparkSession, path: Path) -> Snapshot:
    """Require that all rows are as Spark reads them, now; return the version."""
    shown = pinned(spark).read.format("delta").load(str(path)).toArrow()
    snapshot = own(path)
    found = snapshot.read()
    assert found.column_names == shown.column_names
    types = [(str(field.type), str(other.type)) for field, other in zip(found.schema, shown.schema, strict=True)]
    assert [pair for pair in types if pair[0] != pair[1].replace(" not null", "")] == []
    assert in_order(found.to_pylist()) == in_order(shown.to_pylist())
    assert in_order([row for batch in snapshot.stream(batch_rows=2) for row in batch.to_pylist()]) == in_order(
        found.to_pylist()
    )
    return snapshot
