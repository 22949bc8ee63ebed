"""PostgreSQL's text form of values, and the lake types that hold them.

The text form is the server's output under the pinned settings of `connect.STREAM_SETTINGS`: lossless, and what a
PostgreSQL subscriber takes back as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAX_DECIMAL_PRECISION = 38
_DECIMAL = re.compile(r"numeric\((\d+),(-?\d+)\)")


@dataclass(frozen=True, slots=True)
class LakeType:
    """How a source type is held in the lake.

    `name` is the type in Spark SQL; `cast` turns the text, written `{text}`, into it, giving null where it does not
    fit (infinity, years before 1, NaN in a decimal): the exact text is kept beside. `holds_all`: every value fits.
    """

    name: str
    cast: str
    holds_all: bool = False

    @property
    def is_text(self) -> bool:
        """Tell whether the source's text is held as it is, so that every value fits."""
        return self.cast == "{text}"


_STRING = LakeType("string", "{text}", holds_all=True)


def _tried(name: str, *, holds_all: bool = False) -> LakeType:
    return LakeType(name, f"try_cast({{text}} as {name})", holds_all)


_BY_NAME = {
    "smallint": _tried("smallint", holds_all=True),
    "integer": _tried("int", holds_all=True),
    "bigint": _tried("bigint", holds_all=True),
    "oid": _tried("bigint", holds_all=True),
    "real": _tried("float"),
    "double precision": _tried("double"),
    "boolean": LakeType("boolean", "{text} = 't'", holds_all=True),
    "bytea": LakeType("binary", "unhex(substring({text}, 3))", holds_all=True),
    "date": LakeType("date", "if(endswith({text}, ' BC'), null, try_cast({text} as date))"),
    "timestamp without time zone": _tried("timestamp_ntz"),
    "timestamp with time zone": _tried("timestamp"),
}


def lake_type(type_text: str) -> LakeType:
    """Return the lake type for a type as SQL writes it; what has no exact counterpart is held as text."""
    decimal = _DECIMAL.fullmatch(type_text)
    if decimal is not None:
        return _decimal(int(decimal[1]), int(decimal[2]))
    return _BY_NAME.get(re.sub(r"\(\d+\)", "", type_text), _STRING)


def _decimal(precision: int, scale: int) -> LakeType:
    """Return the decimal with room for every digit: a negative scale adds zeros, one above the precision too."""
    digits = max(precision, precision - scale, scale)
    return _tried(f"decimal({digits},{max(scale, 0)})") if digits <= _MAX_DECIMAL_PRECISION else _STRING
