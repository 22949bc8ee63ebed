"""The Arrow type of a lake type: the one that Spark exchanges it as."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

_BY_NAME: dict[str, pa.DataType] = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "map<int,string>": pa.map_(pa.int32(), pa.string()),
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type for a type's name in Spark SQL, as `LakeType` has it."""
    decimal = _DECIMAL.fullmatch(name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _BY_NAME[name]


def arrow_schema(columns: list[tuple[str, str]]) -> pa.Schema:
    """Return the schema of columns, given as names and types in Spark SQL."""
    fields: list[pa.Field[Any]] = [pa.field(name, arrow_type(type_name)) for name, type_name in columns]
    return pa.schema(fields)
