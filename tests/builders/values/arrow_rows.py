"""Arrow tables compared: names, types and values, floating point numbers bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def assert_same_rows(found: pa.Table, expected: pa.Table, hint: object = None) -> None:
    """Compare tables whose rows are in order."""
    assert [(field.name, field.type) for field in found.schema] == [
        (field.name, field.type) for field in expected.schema
    ]
    for name in found.column_names:
        one, other = as_bits(found[name]), as_bits(expected[name])
        assert one.equals(other), (name, hint, *difference(one, other))


def as_bits(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """Return a column as one array, floating point numbers as integers of the same bits."""
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    integers = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}.get(whole.type)
    return whole.view(integers) if integers else whole


def difference(one: pa.Array[Any], other: pa.Array[Any]) -> Sequence[object]:
    """Return the first rows that differ; as Arrow's scalars, since Python's dates end with the year 9999."""
    return [(row, left, right) for row, (left, right) in enumerate(zip(one, other, strict=True)) if left != right][:5]
