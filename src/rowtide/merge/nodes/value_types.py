"""How a device's SQL sees the values of each PostgreSQL type: one table, which the documentation and the tests use.

A SQLite file stores values so that they come back to the byte. `is_ordered` and `is_compared` say whether the file's
SQL sorts and compares them as PostgreSQL does; `limit` says what differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_MODIFIER = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class ValueType:
    """PostgreSQL types with the same representation in a SQLite file.

    `names` are without lengths; empty for all types that are not listed. `declaration` is the declared type of a
    device's column; None for the type itself, with its precision.
    """

    title: str
    names: tuple[str, ...]
    declaration: str | None
    representation: str
    is_ordered: bool = True
    is_compared: bool = True
    limit: str = ""


VALUE_TYPES = (
    ValueType(
        "smallint, integer, bigint, oid",
        ("smallint", "integer", "bigint", "oid"),
        "integer",
        "INTEGER",
    ),
    ValueType(
        "real, double precision",
        ("real", "double precision"),
        "real",
        "REAL; `NaN` is a text, which sorts after all numbers, as in PostgreSQL",
        limit="a `real` is the number that it prints as: the device finds it with `= 0.1`, PostgreSQL does not",
    ),
    ValueType(
        "numeric",
        ("numeric",),
        None,
        "INTEGER or REAL; digits that the number lacks (`1.10`) are kept beside it, in `MSmerge_exact`",
        limit="the device's SQL sees the nearest floating point number: numbers that differ only after the 15th digit "
        "may be equal there, and those beyond 1e308 are infinite",
    ),
    ValueType("boolean", ("boolean",), "boolean", "INTEGER, 0 or 1"),
    ValueType(
        "text, character varying, name",
        ("text", "character varying", "name"),
        "text",
        "TEXT",
        limit="sorted by bytes, as with collation C; a nondeterministic collation compares by bytes too",
    ),
    ValueType(
        "character",
        ("character",),
        "text collate rtrim",
        "TEXT, with its padding",
        limit="sorted by bytes, as with collation C",
    ),
    ValueType("bytea", ("bytea",), "blob", "BLOB"),
    ValueType("uuid", ("uuid",), "text", "TEXT, in lower case"),
    ValueType("bit, bit varying", ("bit", "bit varying"), "text", "TEXT of 0 and 1"),
    ValueType("macaddr, macaddr8", ("macaddr", "macaddr8"), "text", "TEXT, `08:00:2b:01:02:03`"),
    ValueType(
        "date, timestamp",
        ("date", "timestamp without time zone", "timestamp with time zone"),
        "text",
        "TEXT: `2026-11-23`, `2026-11-23 19:44:00.5`, and with time zone `2026-11-23 19:44:00.5+00`, always in UTC",
        limit="years before 1 and after 9999 sort as texts; SQLite's date functions do not read `+00`: give them "
        "`substr(seen, 1, 19)`",
    ),
    ValueType("time", ("time without time zone",), "text", "TEXT, `19:44:00.5`"),
    ValueType(
        "time with time zone, interval",
        ("time with time zone", "interval"),
        "text",
        "TEXT: `12:00:00+05:45`, `P1Y2M-3DT4H5M6.789S`",
        is_ordered=False,
        is_compared=False,
        limit="compared as texts: `P30D` is not `P1M`",
    ),
    ValueType(
        "json, jsonb",
        ("json", "jsonb"),
        "text",
        "TEXT, as the server prints it; SQLite's JSON functions read it",
        is_ordered=False,
        is_compared=False,
        limit="compared as texts: in `jsonb`, 1 and 1.0 are equal at the server alone",
    ),
    ValueType(
        "no type (a SQLite hub's)",
        ("any",),
        "",
        "each value in its own class; a PostgreSQL subscriber has `text`",
        limit="a value that the PostgreSQL subscriber changes becomes TEXT",
    ),
    ValueType(
        "arrays, ranges, enums, money, inet, every other type",
        (),
        "text",
        "TEXT, as the server prints it: `{1,2}`, `[1,5)`, `$1.10`",
        is_ordered=False,
        is_compared=False,
        limit="compared as texts: labels of an enum sort by name, the elements of arrays as digits",
    ),
)

_OTHER = VALUE_TYPES[-1]
_BY_NAME: Mapping[str, ValueType] = {name: each for each in VALUE_TYPES for name in each.names}


def value_type(type_text: str) -> ValueType:
    """Return the row of the table for a type."""
    return _BY_NAME.get(_MODIFIER.sub("", type_text), _OTHER)


def declaration_of(type_text: str) -> str:
    """Return how a SQLite file declares a column of a PostgreSQL type."""
    declaration = value_type(type_text).declaration
    return type_text if declaration is None else declaration
