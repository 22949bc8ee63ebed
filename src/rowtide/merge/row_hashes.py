"""What a subscriber was sent and has sent: a hash of each row, in a table that outlives the merged tables.

A program that rebuilds a table drops its triggers. A row that differs from its hash was changed meanwhile, one that is
equal to it was not. Hashes are appended in batches, and read only after a rebuild; the last one of a row counts. They
name their columns: after a schema change older ones are ignored.

Comparing with the hub instead says neither which of two versions is older nor whether a missing row was deleted: every
row that the hub changed since would be a conflict, in which the real ones are lost. A batch costs 1 µs a row, 3 % of an
exchange; a line for each row would double the cost of writing, and take twice the space.
"""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from uuid import UUID
from zlib import adler32, crc32

from sqlalchemy import Connection, delete, func, insert, select

from rowtide.merge.articles import Article
from rowtide.merge.definitions import row_hashes
from rowtide.merge.nodes.untyped_values import as_stored_by_server, untyped_indexes
from rowtide.merge.versions.changes import Row

GONE = bytes(8)
"""In place of a hash: the row was deleted."""
_NOTHING = 0xFFFFFFFF
"""Each half of `_UNKNOWN`."""
_UNKNOWN = b"\xff" * 8
"""In place of a hash: the hub has refused the row."""
_KEY, _HALF = 16, 4
_ENTRY = _KEY + 2 * _HALF
_BETWEEN, _NULL = "\x1f", "\x02"
BATCH_ROWS = 50_000
"""Of the initial rows."""
_MOST_BATCHES = 100
Hashes = Mapping[bytes, bytes]
"""The hashes of a table's rows by `key_of` their rowguids; `GONE` for those that were deleted."""


@dataclass(slots=True)
class HashBatch:
    """Hashes of a table's rows that are stored together.

    They are two checksums of 4 bytes, which cost a fifth of a cryptographic one.
    """

    article: Article
    _keys: list[bytes] = field(default_factory=list)
    # Arrays: of all rows that a subscriber starts with, lists of numbers take ten times as much memory.
    _first: array[int] = field(default_factory=partial(array, "I"))
    _second: array[int] = field(default_factory=partial(array, "I"))

    def add(self, rows: Sequence[tuple[str, Row | None]]) -> None:
        """Add rows by rowguid; None in place of a row that was deleted."""
        texts = _texts(self.article, [row for _, row in rows])
        try:
            self._keys.append(_uuids([rowguid for rowguid, _ in rows]))
        except ValueError:
            self._keys += [key_of(rowguid) for rowguid, _ in rows]
        self._first.extend(0 if text is None else crc32(text) for text in texts)
        self._second.extend(0 if text is None else adler32(text) for text in texts)

    def add_unknown(self, rowguids: Sequence[str]) -> None:
        """Add rows whose hashes are no longer valid."""
        self._keys += map(key_of, rowguids)
        self._first.extend([_NOTHING] * len(rowguids))
        self._second.extend([_NOTHING] * len(rowguids))

    def put(self, connection: Connection) -> None:
        """Append them to what is stored, in the caller's transaction, and begin another batch."""
        if self._first:
            hashes = struct.pack(f"<{2 * len(self._first)}I", *self._first, *self._second)
            _append(connection, self.article, b"".join([*self._keys, hashes]))
        self._keys, self._first, self._second = [], array("I"), array("I")

    def __len__(self) -> int:
        return len(self._first)


def hash_rows(article: Article, rows: Sequence[Row]) -> list[bytes]:
    """Return a hash of 8 bytes for each row."""
    return [struct.pack("<II", crc32(text), adler32(text)) for text in _texts(article, rows) if text is not None]


def key_of(rowguid: str) -> bytes:
    """Return the 16 bytes of a UUID, or of the hash of a rowguid that is none."""
    try:
        return _uuids([rowguid])
    except ValueError:
        return blake2b(rowguid.encode("utf-8", "surrogatepass"), digest_size=_KEY).digest()


def rowguid_of(key: bytes) -> str:
    """Return the UUID of a key."""
    return str(UUID(bytes=key))


def read_hashes(connection: Connection, article: Article) -> dict[bytes, bytes]:
    """Return the hashes of a table's rows that are of the article's present columns."""
    found: dict[bytes, bytes] = {}
    listed = select(row_hashes.c.columns, row_hashes.c.entries).where(row_hashes.c.tablenick == article.nickname)
    for columns, entries in connection.execute(listed.order_by(row_hashes.c.batch)):
        is_same = columns == _names(article)
        found.update((key, value if is_same else _UNKNOWN) for key, value in _decode(entries))
    return {key: value for key, value in found.items() if value != _UNKNOWN}


def drop_hashes(connection: Connection, nickname: int) -> None:
    """Remove a table's hashes, in the caller's transaction."""
    connection.execute(delete(row_hashes).where(row_hashes.c.tablenick == nickname))


def compact_hashes(connection: Connection, article: Article) -> None:
    """Join a table's batches, in the caller's transaction, if there are many: then most entries are earlier ones."""
    counted = select(func.count()).select_from(row_hashes).where(row_hashes.c.tablenick == article.nickname)
    if connection.execute(counted).scalar_one() <= _MOST_BATCHES:
        return
    live = [(key, value) for key, value in read_hashes(connection, article).items() if value != GONE]
    drop_hashes(connection, article.nickname)
    for start in range(0, len(live), BATCH_ROWS):
        chunk = live[start : start + BATCH_ROWS]
        halves = [value[:_HALF] for _, value in chunk] + [value[_HALF:] for _, value in chunk]
        entries = b"".join([key for key, _ in chunk] + halves)
        _append(connection, article, entries)


def _append(connection: Connection, article: Article, entries: bytes) -> None:
    values = {"tablenick": article.nickname, "columns": _names(article), "entries": entries}
    connection.execute(insert(row_hashes).values(values).inline())


def _names(article: Article) -> str:
    return json.dumps([column.name for column in article.columns])


def _texts(article: Article, rows: Sequence[Row | None]) -> list[bytes | None]:
    # A PostgreSQL subscriber does not know the classes that values have in files.
    if untyped_indexes(article):
        rows = [None if row is None else as_stored_by_server(article, row) for row in rows]
    texts = [None if row is None else _joined(row) for row in rows]
    for index, text in enumerate(texts):
        row = rows[index]
        if text is not None and row is not None and b"\0" in text:
            texts[index] = _joined(as_stored_by_server(article, row))
    return texts


def _joined(row: Row) -> bytes:
    return _BETWEEN.join([_NULL if value is None else value for value in row]).encode("utf-8", "surrogatepass")


def _decode(entries: bytes) -> Iterator[tuple[bytes, bytes]]:
    rows = len(entries) // _ENTRY
    first, second = rows * _KEY, rows * (_KEY + _HALF)
    for index in range(rows):
        low, high = index * _HALF, (index + 1) * _HALF
        yield (
            entries[index * _KEY : (index + 1) * _KEY],
            entries[first + low : first + high] + entries[second + low : second + high],
        )


def _uuids(rowguids: Sequence[str]) -> bytes:
    """Return the bytes of UUIDs, one after the other. Raises `ValueError` for other texts."""
    joined = bytes.fromhex("".join(rowguids).replace("-", ""))
    if len(joined) != _KEY * len(rowguids):
        raise ValueError(rowguids)
    return joined
