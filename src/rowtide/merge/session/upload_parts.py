"""Parts of an upload by requests: each is committed at the hub as it arrives, so that an interrupted upload resumes.

A part is a request. What the hub refuses of one that others follow is deferred, and sent again with the last: a row may
need one of a later part, or have the unique value of one. All deletes are in the last part if they fit into one: those
that foreign keys connect are judged together. Parts of logical records are kept until the last has come: which record a
deleted row was in, the hub alone knows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rowtide.core.errors import FileNotWritable
from rowtide.merge.session.messages import RowBatch, size_of
from rowtide.merge.versions.changes import RowChange

_DIGEST_BYTES = 16
_ROW_OVERHEAD = 100
"""Bytes of a row beside its values, roughly."""
_TOMBSTONES_A_ROW = 4
_JOINED_ROWS = 2000


@dataclass(slots=True)
class PartSize:
    """What a part has at most, but for a single row that is larger; `size` is of values, in characters."""

    rows: float = 20_000
    size: int = 8 * 1024 * 1024

    def takes(self, batches: Sequence[RowBatch]) -> bool:
        """Whether batches fit into a part."""
        rows, size = _weigh_all(batches)
        return rows <= self.rows and size <= self.size

    def halve(self, part: Sequence[RowBatch]) -> bool:
        """Take half of a part that was too large, from now on; return whether it has more than one row."""
        rows, size = _weigh_all(part)
        self.rows, self.size = min(self.rows, rows / 2), min(self.size, size // 2)
        return sum(len(batch.changes) for batch in part) > 1


@dataclass(slots=True)
class _OpenPart:
    batches: list[RowBatch] = field(default_factory=list)
    rows: float = 0
    size: int = 0

    def fits(self, rows: float, size: int, most: PartSize) -> bool:
        return not self.batches or (self.rows + rows <= most.rows and self.size + size <= most.size)

    def add(self, batch: RowBatch, rows: float, size: int) -> None:
        self.batches.append(batch)
        self.rows += rows
        self.size += size


Division = Iterator[tuple[Sequence[RowBatch], bool]]
"""Parts of an upload, each with whether others follow it."""


def divide(
    batches: Iterable[RowBatch], most: PartSize, count_deletes: Callable[[], int] = lambda: 0, *, has_more: bool = False
) -> Division:
    """Yield an upload's batches in parts, in their order; there is one at least. With `has_more`, others follow them.

    `most` may be changed meanwhile. No more batches are taken than a part needs, but where the first deletes are:
    `count_deletes` returns the number of all.
    """
    part, has_deletes = _OpenPart(), False
    for batch in batches:
        is_delete = batch.changes[0].row is None
        if is_delete and not has_deletes:
            has_deletes = True
            if part.batches and not part.fits(*_weigh_deletes(count_deletes()), most):
                yield part.batches, True
                part = _OpenPart()
        for piece, rows, size in _pieces(batch, most):
            if not part.fits(rows, size, most):
                yield part.batches, True
                part = _OpenPart()
            part.add(piece, rows, size)
    yield part.batches, has_more


def _weigh_deletes(number: int) -> tuple[float, int]:
    return number / _TOMBSTONES_A_ROW, number * _ROW_OVERHEAD


def _weigh(batch: RowBatch) -> tuple[float, int]:
    number = len(batch.changes)
    if batch.changes[0].row is None:
        return _weigh_deletes(number)
    return number, number * _ROW_OVERHEAD + size_of(batch)


def _weigh_all(batches: Iterable[RowBatch]) -> tuple[float, int]:
    weights = [_weigh(batch) for batch in batches]
    return sum(rows for rows, _ in weights), sum(size for _, size in weights)


def _pieces(batch: RowBatch, most: PartSize) -> Iterator[tuple[RowBatch, float, int]]:
    """Yield a batch in pieces that fit into a part, each with its rows and its size."""
    rows, size = _weigh(batch)
    if len(batch.changes) == 1 or (rows <= most.rows and size <= most.size):
        yield batch, rows, size
        return
    middle = len(batch.changes) // 2
    for changes in (batch.changes[:middle], batch.changes[middle:]):
        yield from _pieces(RowBatch(batch.article, changes), most)


def select(batches: Iterable[RowBatch], rowguids: Mapping[int, Collection[str]]) -> Iterator[RowBatch]:
    """Yield the changes of some rows, by the article's nickname."""
    for batch in batches:
        wanted = rowguids.get(batch.article, ())
        changes = [change for change in batch.changes if change.rowguid in wanted]
        if changes:
            yield RowBatch(batch.article, changes)


def join_parts(parts: Iterable[RowBatch], order: Mapping[int, int]) -> Iterator[RowBatch]:
    """Yield the changes of parts as of one upload: of each row the last that came, rows parents first.

    `order` is that of the articles, by nickname.
    """
    last: dict[tuple[int, str], RowChange] = {}
    for batch in parts:
        last.update({(batch.article, change.rowguid): change for change in batch.changes})
    groups: dict[tuple[bool, int], list[RowChange]] = {}
    for (nickname, _), change in last.items():
        groups.setdefault((change.row is None, nickname), []).append(change)

    def place(group: tuple[bool, int]) -> tuple[bool, int]:
        is_delete, nickname = group
        return is_delete, -order.get(nickname, 0) if is_delete else order.get(nickname, 0)

    for is_delete, nickname in sorted(groups, key=place):
        changes = groups[is_delete, nickname]
        for start in range(0, len(changes), _JOINED_ROWS):
            yield RowBatch(nickname, changes[start : start + _JOINED_ROWS])


@dataclass(slots=True)
class ConfirmedRows:
    """The versions of an unfinished upload that the hub has confirmed, in a file beside the device's.

    They belong to one session's proposal, `tag`: a file of another one is ignored. What is lost of it is sent again,
    with the same effect.
    """

    path: Path | None
    tag: str
    kept: str = ""
    """The name under which the hub keeps parts of logical records; it is the last entry of the file."""
    _known: set[bytes] = field(default_factory=set)
    _is_begun: bool = False

    @classmethod
    def read(cls, path: Path | None, *tag: object) -> Self:
        """Return what is confirmed; nothing where that is not kept. Raises `FileNotWritable`."""
        own = cls(path, "\n".join(map(str, tag)))
        try:
            stored = path.read_bytes() if path is not None and path.exists() else b""
        except OSError as error:
            raise FileNotWritable(str(path), error.strerror or str(error)) from error
        listed = [stored[at : at + _DIGEST_BYTES] for at in range(0, len(stored), _DIGEST_BYTES)]
        if listed and listed[0] == own._head:
            own._is_begun = True
            own._known.update(listed[1:])
            own.kept = listed[-1].hex() if len(listed) > 1 else ""
        return own

    @property
    def _head(self) -> bytes:
        return _digest(self.tag.encode())

    def without(self, batches: Iterable[RowBatch], wanted: Mapping[int, Collection[str]]) -> Iterator[RowBatch]:
        """Yield the changes that are not confirmed, and those of rows that the hub requests."""
        for batch in batches:
            asked = wanted.get(batch.article, ())
            left = batch.changes
            if self._known:
                digests = _digests_of(batch)
                left = [
                    change
                    for change, digest in zip(batch.changes, digests, strict=True)
                    if change.rowguid in asked or digest not in self._known
                ]
            if left:
                yield RowBatch(batch.article, left)

    def add(self, batches: Iterable[RowBatch], deferred: Mapping[int, Collection[str]], kept: str = "") -> None:
        """Store that the hub has confirmed all of some batches but what it has deferred, or that it keeps them.

        Raises `FileNotWritable`.
        """
        self.kept = kept
        if self.path is None:
            return
        digests = [
            digest
            for batch in batches
            for change, digest in zip(batch.changes, _digests_of(batch), strict=True)
            if change.rowguid not in deferred.get(batch.article, ())
        ]
        if kept:
            digests.append(bytes.fromhex(kept))
        if self._is_begun:
            self._write(b"".join(digests), "ab")
        else:
            self._write(b"".join((self._head, *digests)), "wb")
            self._is_begun = True

    def forget(self) -> None:
        """Remove the file: the upload is complete. Raises `FileNotWritable`."""
        try:
            if self.path is not None:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            raise FileNotWritable(str(self.path), error.strerror or str(error)) from error

    def _write(self, data: bytes, mode: str) -> None:
        assert self.path is not None
        try:
            with open(self.path, mode) as file:
                file.write(data)
        except OSError as error:
            raise FileNotWritable(str(self.path), error.strerror or str(error)) from error


def _digests_of(batch: RowBatch) -> list[bytes]:
    """Return the digests of changes; what those of a version share is put together once."""
    versions: dict[tuple[object, ...], bytes] = {}
    digests = []
    for change in batch.changes:
        key = (change.lineage, change.last, change.columns, change.row is None)
        shared = versions.get(key)
        if shared is None:
            is_gone = b"+" if change.row is None else b"-"
            shared = _joined(str(batch.article).encode(), change.lineage, change.last, change.columns or b"", is_gone)
            versions[key] = shared
        digests.append(_digest(shared + change.rowguid.encode()))
    return digests


def _joined(*parts: bytes) -> bytes:
    return b"".join([len(part).to_bytes(4) + part for part in parts])


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
