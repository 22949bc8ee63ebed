"""Rows in PostgreSQL's COPY text format: one line per row, values separated by tabs. Pure.

(https://www.postgresql.org/docs/current/sql-copy.html, "Text Format".)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

_NULL = b"\\N"
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_MEANINGS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_TO_ESCAPE = re.compile(r"[\\\n\r\t]")
_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_OF_LINES = re.compile(r"[\\\n\r]")
_TAB = "\t"


def read_rows(block: bytes) -> Iterator[list[bytes | None]]:
    """Yield the rows of whole lines; NULL is None."""
    for line in block.split(b"\n")[:-1]:
        yield [value if b"\\" not in value else _unescape(value) for value in line.split(b"\t")]


def read_texts(block: bytes) -> Iterator[tuple[str | None, ...]]:
    """Yield the rows of whole UTF-8 lines as texts; NULL is None."""
    # What is decoded all at once costs a tenth.
    for line in block.decode().split("\n")[:-1]:
        yield tuple([value if "\\" not in value else _unescape_text(value) for value in line.split(_TAB)])


def write_row(values: Sequence[str | None]) -> str:
    """Return a line without its newline; None is NULL."""
    if None not in values:
        line = _TAB.join(values)  # type: ignore[arg-type]
        if line.count(_TAB) == len(values) - 1 and _OF_LINES.search(line) is None:
            return line
    return _TAB.join(["\\N" if value is None else _TO_ESCAPE.sub(_escape, value) for value in values])


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES[found[0]]


def _unescape(value: bytes) -> bytes | None:
    return None if value == _NULL else _ESCAPED.sub(lambda found: _MEANINGS.get(found[1], found[1]), value)


# What is known of rows is the same for thousands of them.
@lru_cache(maxsize=1 << 12)
def _unescape_text(value: str) -> str | None:
    plain = _unescape(value.encode())
    return None if plain is None else plain.decode()
