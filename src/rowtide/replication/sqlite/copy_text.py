"""Rows as PostgreSQL's COPY writes them: a line each, values between tabs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NULL = b"\\N"
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANINGS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def read_rows(block: bytes) -> Iterator[list[bytes | None]]:
    """Yield the rows of whole lines; NULL is None."""
    for line in block.split(b"\n")[:-1]:
        yield [None if value == _NULL else _unescape(value) for value in line.split(b"\t")]


def _unescape(value: bytes) -> bytes:
    if b"\\" not in value:
        return value
    return _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), value)
