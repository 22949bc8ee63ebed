"""JSON, ranges of days, values without a declared type, and every type that no family has. Pure."""

from __future__ import annotations

from rowtide.databases.types.value_type import (
    NEVER_NUMBERS,
    DeviceColumn,
    ValueType,
)

_DEVICE_JSON = DeviceColumn(
    "json, jsonb",
    "text",
    "TEXT, as the server prints it; SQLite's JSON functions read it",
    is_ordered=False,
    is_compared=False,
    limit="compared as texts: in `jsonb`, 1 and 1.0 are equal at the server alone",
)

DOCUMENTS = (
    ValueType(name="json", oid=114, device=_DEVICE_JSON, compared="documents are not compared"),
    ValueType(
        name="jsonb", oid=3802, array_oid=3807, device=_DEVICE_JSON, compared="documents are not compared by their text"
    ),
)


ANY = "any"
"""The type of a SQLite column without a declared type: its values' texts are SQLite's own literals.

They say which class a value is stored as: `5`, `5.0`, `'5'`, `X'35'`.
"""

UNDECLARED_AND_RANGES = (
    ValueType(
        name=ANY,
        device=DeviceColumn(
            "no type (a SQLite hub's)",
            "",
            "each value in its own class; a PostgreSQL subscriber has `text`",
            limit="a value that the PostgreSQL subscriber changes becomes TEXT",
        ),
    ),
    ValueType(name="daterange", stored=NEVER_NUMBERS),
    ValueType(name="datemultirange", stored=NEVER_NUMBERS),
)

OTHER = ValueType(name="")
"""Any other type, the server's or a user's."""

TYPES = (*DOCUMENTS, *UNDECLARED_AND_RANGES)
