"""Values without a declared type, ranges of days, and every type that no family has. Pure."""

from __future__ import annotations

from rowtide.databases.types.file_storage import NEVER_NUMBERS
from rowtide.databases.types.value_type import DeviceColumn, ValueType

ANY = "any"
"""The type of a SQLite column without a declared type: its values' texts are SQLite's own literals.

They say which class a value is stored as: `5`, `5.0`, `'5'`, `X'35'`.
"""

TYPES = (
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
