"""Read stored metadata of rows: every length and every number is checked. Pure.

The owner of a device can write anything into its file. What is read of it is parsed here and in `comparison`, and
nowhere else; what is wrong raises `Malformed`, and the reader, who knows the row, says which one it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from math import isfinite

from rowtide.merge.versions.changes import TombstoneType
from rowtide.merge.versions.comparison import (
    MOST_VERSIONS,
    Lineage,
    Malformed,
    NodeChange,
    decode_columns,
)

_NICKNAMES = 1 << 48
_PLACES = 1 << 16
_UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_LINES = re.compile(f"(?:{_UUID.pattern}\n)*")
_SHOWN = 40
_STAMP_DIGITS = 16
_MOST_BASES = 100
_UUID_LENGTH = 36
_DIGITS = frozenset("0123456789abcdefABCDEF")


def read_rowguid(value: object) -> str:
    """Return a row's rowguid: a UUID as a server writes it, which would take other texts of one for the same row."""
    if isinstance(value, str) and _UUID.fullmatch(value) is not None:
        return value
    raise Malformed(f"{str(value)[:_SHOWN]!a} is no UUID in lower case")


def are_rowguids(values: Sequence[object]) -> bool:
    """Whether all values are rowguids: thousands are checked together."""
    lines = "".join([f"{value}\n" for value in values])
    return _UUID_LINES.fullmatch(lines) is not None and len(lines) == (_UUID_LENGTH + 1) * len(values)


def read_version(value: object) -> int:
    """Return the number of a generation or of a stamp."""
    return _number(value, "generation", MOST_VERSIONS)


def read_origin(value: object) -> int | None:
    """Return a node's nickname."""
    return None if value is None else _number(value, "origin", _NICKNAMES)


def _number(value: object, name: str, most: int) -> int:
    if isinstance(value, int) and 0 <= value < most:
        return value
    raise Malformed(f"its {name} is no number below {most}")


def read_priority(value: object) -> float | None:
    """Return a version's weight."""
    if value is None:
        return None
    if isinstance(value, int | float) and isfinite(value):
        return float(value)
    raise Malformed("its priority is no number")


def read_lineage(value: object) -> bytes | None:
    """Return an encoded lineage that `Lineage.decode` reads."""
    encoded = _bytes(value, "lineage")
    if encoded is not None:
        Lineage.decode(encoded)
    return encoded


def read_last(value: object) -> bytes | None:
    """Return an encoded change that `NodeChange.decode` reads."""
    encoded = _bytes(value, "last change")
    if encoded is not None:
        NodeChange.decode(encoded)
    return encoded


def read_columns(value: object) -> bytes | None:
    """Return encoded changes of columns that `decode_columns` reads."""
    encoded = _bytes(value, "columns' changes")
    if encoded is not None:
        decode_columns(encoded)
    return encoded


def _bytes(value: object, name: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise Malformed(f"its {name} are no bytes")


def read_own_columns(text: object) -> dict[int, int]:
    """Return the stamps of the columns that the node changed, by position, from 16 hexadecimal digits for each."""
    if text is None:
        return {}
    if not isinstance(text, str) or len(text) % _STAMP_DIGITS or len(text) > _PLACES * _STAMP_DIGITS:
        raise Malformed("its columns' stamps are no digits of columns")
    if not _DIGITS.issuperset(text):
        raise Malformed("its columns' stamps are no digits")
    pieces = (text[start : start + _STAMP_DIGITS] for start in range(0, len(text), _STAMP_DIGITS))
    return {index: read_version(stamp) for index, stamp in enumerate(int(piece, 16) for piece in pieces) if stamp}


def read_bases(text: object) -> str | None:
    """Return the values that an additive column was sent with; see `append`."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise Malformed("its earlier values are no text")
    try:
        pairs = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed("its earlier values are no list") from error
    if not isinstance(pairs, list) or not 0 < len(pairs) <= _MOST_BASES or not all(map(_is_base, pairs)):
        raise Malformed("its earlier values are no list of numbers and values")
    return text


def _is_base(pair: object) -> bool:
    return (
        isinstance(pair, list)
        and [type(part) for part in pair] in ([int, str], [int, type(None)])
        and 0 <= pair[0] < MOST_VERSIONS
    )


def read_tombstone_type(value: object) -> TombstoneType:
    """Return why a row is absent."""
    if isinstance(value, int) and value in TombstoneType.__members__.values():
        return TombstoneType(value)
    raise Malformed("its tombstone is of no known type")


def require_complete(origin: int | None, lineage: bytes | None, last: bytes | None) -> None:
    """Raise unless a version that was received has its lineage and its change."""
    if origin is not None and (lineage is None or last is None):
        raise Malformed("its version was received, and has no lineage or no last change")
