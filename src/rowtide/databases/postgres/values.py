"""PostgreSQL's text form of values, and the lake types that store them.

The text form is the server's output under `connect.STREAM_SETTINGS`: lossless, and valid input for a PostgreSQL
subscriber.

A cast calls a function that the owner of a type can define, with the rights of the executing role. What
rowtide runs, or leaves behind in a trigger, converts users' values by `text_of` and `value_of`, which call the types'
own output and input functions. Only those of domains, alone or within a type, run code of others: their checks.
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


_CAST_TEXT = re.compile(r"boolean|inet|character\(\d+\)|bpchar")
"""The server's types whose cast to text is not their output: `true` for `t`, a network's length, no trailing blanks."""


def is_of_server(type_text: str) -> bool:
    """Return whether a type is the server's own: others have their schema in their text."""
    return "." not in type_text


def text_of(value: str, type_text: str) -> str:
    """Return the SQL expression of a value's text; `type_text` is its type, of a domain the base type.

    For the server's types that is what a cast to text returns, for others what their output function does. It stays so
    if the value's type becomes another than was known when the expression was written into a function.
    """
    text = f"pg_catalog.format('%s', {value})"
    if _CAST_TEXT.fullmatch(type_text):
        text += f"::{type_text}::text"
    # Of a null, `format` returns an empty text; a row of nulls is null only for `is null`.
    return f"case when {value} is distinct from null then {text} end"


def value_of(text: str, type_text: str) -> str:
    """Return the SQL expression of the value of a text, by the input function of its type; of a domain give the base
    type. A literal or an untyped parameter needs only `::`.
    """
    if is_of_server(type_text):
        return f"{text}::{type_text}"
    record = f"pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', {text}))"
    return f"(select r.v from {record} as r (v {type_text}))"  # noqa: S608 - of SQL expressions


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
