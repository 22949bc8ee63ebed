"""PostgreSQL's text form of values, and the lake types that hold them.

The text form is the server's output under the pinned settings of `connect.PINNED_SETTINGS`: lossless, and what a
PostgreSQL subscriber takes back as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAX_DECIMAL_PRECISION = 38
_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class LakeType:
    """How a source type is held in the lake.

    `name` is the type in Spark SQL; `cast` turns the text, written `{text}`, into it, giving null where it does
    not fit; `may_not_fit` says that there are such values (infinity, years before 1, NaN): their exact text is
    kept beside.
    """

    name: str
    cast: str
    may_not_fit: bool


_STRING = LakeType("string", "{text}", may_not_fit=False)


def _tried(name: str, *, may_not_fit: bool) -> LakeType:
    return LakeType(name, f"try_cast({{text}} as {name})", may_not_fit=may_not_fit)


_BY_NAME = {
    "smallint": _tried("smallint", may_not_fit=False),
    "integer": _tried("int", may_not_fit=False),
    "bigint": _tried("bigint", may_not_fit=False),
    "oid": _tried("bigint", may_not_fit=False),
    "real": _tried("float", may_not_fit=False),
    "double precision": _tried("double", may_not_fit=False),
    "boolean": LakeType("boolean", "{text} = 't'", may_not_fit=False),
    "bytea": LakeType("binary", "unhex(substring({text}, 3))", may_not_fit=False),
    "date": LakeType("date", "if(endswith({text}, ' BC'), null, try_cast({text} as date))", may_not_fit=True),
    "timestamp without time zone": _tried("timestamp_ntz", may_not_fit=True),
    "timestamp with time zone": _tried("timestamp", may_not_fit=True),
}


def lake_type(type_text: str) -> LakeType:
    """Return the lake type for a type as SQL writes it; what has no exact counterpart is held as text."""
    decimal = _DECIMAL.fullmatch(type_text)
    if decimal is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if scale <= precision <= _MAX_DECIMAL_PRECISION:
            return _tried(f"decimal({precision},{scale})", may_not_fit=True)
        return _STRING
    return _BY_NAME.get(re.sub(r"\(\d+\)", "", type_text), _STRING)
