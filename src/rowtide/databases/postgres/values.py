"""PostgreSQL's text form of values, and the lake types that store them.

The text form is the server's output under `connect.STREAM_SETTINGS`: lossless, and valid input for a PostgreSQL
subscriber.
"""

from __future__ import annotations

import re

from rowtide.databases.lake_types import MAX_DECIMAL_PRECISION, LakeType, tried

_DECIMAL = re.compile(r"numeric\((\d+),(-?\d+)\)")

_STRING = LakeType("string", "{text}", holds_all=True)

_BY_NAME = {
    "smallint": tried("smallint", holds_all=True),
    "integer": tried("int", holds_all=True),
    "bigint": tried("bigint", holds_all=True),
    "oid": tried("bigint", holds_all=True),
    "real": tried("float"),
    "double precision": tried("double"),
    "boolean": LakeType("boolean", "{text} = 't'", holds_all=True),
    "bytea": LakeType("binary", "unhex(substring({text}, 3))", holds_all=True),
    "date": LakeType("date", "if(endswith({text}, ' BC'), null, try_cast({text} as date))"),
    "timestamp without time zone": tried("timestamp_ntz"),
    "timestamp with time zone": tried("timestamp"),
}


def lake_type(type_text: str) -> LakeType:
    """Return the lake type for an SQL type; a type without exact counterpart is stored as text."""
    decimal = _DECIMAL.fullmatch(type_text)
    if decimal is not None:
        return _decimal(int(decimal[1]), int(decimal[2]))
    return _BY_NAME.get(re.sub(r"\(\d+\)", "", type_text), _STRING)


def _decimal(precision: int, scale: int) -> LakeType:
    """Return the decimal with room for every digit: a negative scale adds zeros, as does one above the precision."""
    digits = max(precision, precision - scale, scale)
    return tried(f"decimal({digits},{max(scale, 0)})") if digits <= MAX_DECIMAL_PRECISION else _STRING
