"""How rows of two databases are compared: by hashes of their values' texts, in buckets by the hash of their key.

A row's canonical text consists of its published values' texts as the log has them: numbers and times are followed by a
comma, others preceded by their length in bytes; NULL has its own sign, and a floating point number is represented by
its bits. The row's hash is the first 64 bits of that text's SHA-256, as a signed integer. The sum of hashes does not
depend on row order, and counts duplicates. A key's hash is formed in the same way, from the key's columns in key order.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Iterable, Sequence
from enum import Enum

from rowtide.replication.articles.articles import Article, PublishedColumn

NULL = "-"
SEPARATOR = ","
_FLOATING = ("real", "double precision")
_PLAIN = re.compile(
    r"smallint|integer|bigint|numeric(\([0-9,-]+\))?|date|uuid|timestamp(\([0-9]\))? with(out)? time zone"
)
_HALF, _WHOLE = 1 << 63, 1 << 64


class TextForm(Enum):
    """How a value's text is a part of its row's."""

    PLAIN = "plain"
    """It has no separator, which ends it, and is not the sign of NULL."""
    BITS = "bits"
    """Its text differs between databases: its bits in hexadecimal, as any text."""
    SIZED = "sized"
    """Its length in bytes comes before it."""


def form_of(column: PublishedColumn) -> TextForm:
    """Return the form of a column's texts."""
    if column.value_type_text in _FLOATING:
        return TextForm.BITS
    return TextForm.PLAIN if _PLAIN.fullmatch(column.value_type_text) else TextForm.SIZED


Row = tuple[bytes | None, ...]
"""The texts of a row's published values, or of its key, as the log has them; None is NULL."""


def key_of(article: Article, row: Row) -> Row:
    """Return a row's key, in key order."""
    return tuple(row[article.columns.index(column)] for column in article.key_columns)


def hash_row(columns: Sequence[PublishedColumn], row: Row) -> int:
    """Return the hash of a row's values, or of a key."""
    return hash_parts(part_of(form_of(column), text) for column, text in zip(columns, row, strict=True))


def hash_parts(parts: Iterable[bytes]) -> int:
    """Return the hash of a canonical text, given its parts, as a signed 64-bit integer."""
    number = int.from_bytes(hashlib.sha256(b"".join(parts)).digest()[:8])
    return number - _WHOLE if number >= _HALF else number


def part_of(form: TextForm, text: bytes | None) -> bytes:
    """Return what a value's text, as the log has it, is in its row's."""
    if text is None:
        return _PLAIN_NULL if form is TextForm.PLAIN else _NULL
    if form is TextForm.PLAIN and _SEPARATOR not in text and text != _NULL:
        return text + _SEPARATOR
    sized = bits_of(text) if form is TextForm.BITS else text
    return b"%d:%s" % (len(sized), sized)


_NULL, _SEPARATOR = NULL.encode(), SEPARATOR.encode()
_PLAIN_NULL = _NULL + _SEPARATOR


def bits_of(text: bytes) -> bytes:
    """Return a floating point number's bits in hexadecimal; minus zero is zero.

    The text itself if it is no number, which only a SQLite file has in such a column.
    """
    try:
        number = float(text)
    except ValueError:
        return text
    return struct.pack(">d", math.nan if math.isnan(number) else number + 0.0).hex().encode()
