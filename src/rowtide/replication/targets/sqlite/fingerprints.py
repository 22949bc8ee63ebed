"""Row counts and checksums of an article's rows in a SQLite file, comparable with the publisher's.

See the fingerprints of PostgreSQL.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from contextlib import closing

from rowtide.databases.sqlite.keys import SqliteValue
from rowtide.databases.sqlite.quoting import quote
from rowtide.replication.articles import Article
from rowtide.replication.targets.fingerprints import FLOATING, Fingerprint
from rowtide.replication.targets.sqlite.files import SubscriberFile

_NULL = b"-"
_HALF, _WHOLE = 1 << 63, 1 << 64


def read_subscribed(url: str, articles: Sequence[Article], *, with_checksum: bool) -> Sequence[Fingerprint]:
    """Return the fingerprints of all rows of the file's tables, in one snapshot. Raises `FileNotOpened`."""
    with closing(SubscriberFile(url)) as file, file.undone_by_errors():
        file.connection.execute("begin")
        found = [_read(file, article, with_checksum=with_checksum) for article in articles]
        file.connection.commit()
    return found


def _read(file: SubscriberFile, article: Article, *, with_checksum: bool) -> Fingerprint:
    table = quote(article.table)
    if not with_checksum:
        (count,) = file.connection.execute(f"select count(*) from {table}").fetchone()
        return Fingerprint(count, None)
    names = ", ".join(quote(column.name) for column in article.columns)
    texts = [_TEXTS.get(column.value_type_text, _text) for column in article.columns]
    rows, checksum = 0, 0
    for row in file.connection.execute(f"select {names} from {table}"):
        rows += 1
        checksum += row_hash([None if value is None else text(value) for text, value in zip(texts, row, strict=True)])
    return Fingerprint(rows, str(checksum))


def row_hash(values: Sequence[bytes | None]) -> int:
    """Return the hash of a row, given its values' texts, as a signed 64-bit integer. Pure."""
    text = b"".join(_NULL if value is None else b"%d:%s" % (len(value), value) for value in values)
    number = int.from_bytes(hashlib.sha256(text).digest()[:8])
    return number - _WHOLE if number >= _HALF else number


def _text(value: SqliteValue) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _truth(value: SqliteValue) -> bytes:
    return b"t" if value == 1 else b"f"


def _bits(value: SqliteValue) -> bytes:
    """Return a floating point number's bits in hexadecimal; NaN is stored as text in the file."""
    number = math.nan if isinstance(value, str) else float(value or 0)
    return struct.pack(">d", number).hex().encode()


def _hexadecimal(value: SqliteValue) -> bytes:
    return b"\\x" + value.hex().encode() if isinstance(value, bytes) else _text(value)


_TEXTS: dict[str, Callable[[SqliteValue], bytes]] = {
    "boolean": _truth,
    "bytea": _hexadecimal,
    **dict.fromkeys(FLOATING, _bits),
}
