"""Encode an article's log records as calls: for each change, the operation and its arguments. Pure.

Values keep the log's text form; they become Python bytes here, because each is a separate argument.

The bitmap of an update: which published columns changed. New rows of an article as the log has them, kept in Arrow:
many are sent without a Python object per value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind, TableShape
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import ArgumentGroup, CallFormat, KeyUpdates, parts_of
from rowtide.replication.errors.publishing import ColumnNotLogged
from rowtide.replication.filters.verdict import find_transitions, matches
from rowtide.replication.snapshot.agent import ArticleCopy


def bitmap_length(columns: int) -> int:
    """Return the number of bytes of a bitmap over a number of columns."""
    return columns // 8 + 1


def pack_bitmaps(changed: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Pack a matrix, rows by columns, into bitmaps, rows by bytes."""
    rows, columns = changed.shape
    packed = np.zeros((rows, bitmap_length(columns)), dtype=np.uint8)
    bits = np.packbits(changed, axis=1, bitorder="little")
    packed[:, : bits.shape[1]] = bits
    return packed


def bitmap_texts(changed: npt.NDArray[np.bool_]) -> list[bytes]:
    """Return each row's bitmap as PostgreSQL writes bytes, `\\x` and hexadecimal digits."""
    packed = pack_bitmaps(changed)
    patterns: list[bytes] = packed.view(f"V{packed.shape[1]}").reshape(-1).tolist()
    # Of thousands of updates there are few, which a sort would take long to find.
    texts = {pattern: b"\\x" + pattern.hex().encode() for pattern in set(patterns)}
    return [texts[pattern] for pattern in patterns]


@lru_cache
def unite(one: bytes, other: bytes) -> bytes:
    """Return the text of a bitmap with the bits of two texts of the same length."""
    united = bytes(ours | theirs for ours, theirs in zip(_bytes_of(one), _bytes_of(other), strict=True))
    return b"\\x" + united.hex().encode()


@lru_cache
def columns_of(text: bytes) -> Sequence[int]:
    """Return the columns, from 0, whose bits are set in a bitmap's text."""
    bits = np.unpackbits(np.frombuffer(_bytes_of(text), dtype=np.uint8), bitorder="little")
    return tuple(np.flatnonzero(bits).tolist())


def _bytes_of(text: bytes) -> bytes:
    return bytes.fromhex(text[2:].decode())


if TYPE_CHECKING:
    pass

_ESCAPED = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
"""What COPY's text format writes otherwise; the backslash first."""
_NULL_OF_ARROW = "\\N"


class InsertedRows:
    """Rows of one article: a list of texts per row, one per published column."""

    def __init__(self, rows: pa.Array[Any]) -> None:
        """`rows` are lists, none null, of the same number of texts."""
        assert isinstance(rows, pa.ListArray)
        self._rows = rows
        self._arguments: list[Arguments] | None = None

    @classmethod
    def of(cls, images: pa.ChunkedArray[Any], places: Sequence[int]) -> InsertedRows:
        """Take the columns at these positions from row images."""
        rows = pa.concat_arrays(images.chunks)
        assert isinstance(rows, pa.ListArray)
        width = len(rows[0])
        if list(places) == list(range(width)):
            return cls(rows)
        taken = np.add.outer(np.arange(len(rows)) * width, np.array(places)).reshape(-1)
        return cls(_in_rows(rows.flatten().take(pa.array(taken)), len(rows)))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> Arguments:
        """Return a row as arguments of a call; the first time all are made."""
        if self._arguments is None:
            width = len(self._rows[0]) if len(self) else 1
            values = np.array(self._rows.flatten().cast(pa.binary()).to_pylist(), dtype=object)
            self._arguments = values.reshape(len(self), width).tolist()
        return self._arguments[place]

    def __iter__(self) -> Iterator[Arguments]:
        return (self[place] for place in range(len(self)))

    def between(self, start: int, end: int) -> InsertedRows:
        """Return some rows, without copying them."""
        return InsertedRows(self._rows.slice(start, end - start))

    def as_copy_text(self) -> bytes:
        """Return the rows in the text format of PostgreSQL's COPY."""
        texts = self._rows.flatten()
        present = _data_of(texts)
        for character, written in _ESCAPED:
            if character.encode() in present:
                texts = pc.replace_substring(texts, character, written)
        # pyarrow's stubs know of separators in arrays only.
        join_list: Any = pc.binary_join
        join: Any = pc.binary_join_element_wise
        lines = join_list(_in_rows(texts.fill_null(_NULL_OF_ARROW), len(self)), "\t")
        return _data_of(join(lines, "\n", ""))


def _data_of(texts: pa.Array[Any]) -> bytes:
    """Return all characters of an array of texts, which may be a part of a larger one."""
    _, ends, data = texts.buffers()
    if ends is None or data is None:
        return b""
    places = np.frombuffer(memoryview(ends), dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return memoryview(data)[places[0] : places[-1]].tobytes()


def _in_rows(values: pa.Array[Any], rows: int) -> pa.ListArray[Any]:
    """Divide values into lists of the same length."""
    ends = np.arange(rows + 1, dtype=np.int32) * (len(values) // rows if rows else 0)
    return pa.ListArray.from_arrays(pa.array(ends, type=pa.int32()), values)


Arguments = list[bytes | None]

_DELIVERED = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_NULL = np.array(None, dtype=object)
_Matrix = npt.NDArray[np.object_]
"""Values by row and published column: bytes, or None."""
_Facts = npt.NDArray[np.bool_]


@frozen
class Calls:
    """Changes of one article and operation, as calls of one statement; in no order.

    `commit_lsn` and `seqval` are their places in the log, `arguments` the arguments of each: rows where the change is
    the new row as the log has it.
    """

    article: Article
    operation: Operation
    commit_lsn: npt.NDArray[np.int64]
    seqval: npt.NDArray[np.int64]
    arguments: list[Arguments] | InsertedRows


def encode(
    article: Article,
    shape: TableShape,
    records: pa.Table,
    copy: ArticleCopy | None = None,
    *,
    may_lack_columns: bool = False,
) -> Iterator[Calls]:
    """Return the calls for log records of one table version, which all have its columns.

    With `may_lack_columns` the records may predate a column that was added, which is null then.

    Operations that the article does not propagate are omitted; a truncate counts as a delete. An update that moves a
    row into the article's filter is an insert, one that moves it out a delete. `copy`: the changes that the
    subscriber's snapshot contains are omitted. Raises `ColumnNotLogged`.
    """
    operations = records["operation"].to_numpy()
    for operation in _DELIVERED:
        chosen = filtered(records, operations == operation)
        if article.command(operation).call_format is not CallFormat.NONE and chosen.num_rows:
            places = _find_indexes(article, shape, may_lack_columns=may_lack_columns)
            if operation is Operation.INSERT and article.condition is None and copy is None and None not in places:
                rows = InsertedRows.of(chosen["after"], [place for place in places if place is not None])
                yield _calls(article, operation, chosen, rows)
            else:
                yield from _routed(article, operation, chosen, _Images.of(chosen, places), copy)
    truncates = records.filter(operations == Operation.TRUNCATE)
    if copy is not None and truncates.num_rows:
        truncates = truncates.filter(copy.lacks_all(truncates["xid"].to_numpy()))
    if article.delete.call_format is not CallFormat.NONE and truncates.num_rows:
        yield _calls(article, Operation.TRUNCATE, truncates, [[] for _ in range(truncates.num_rows)])


def filtered(records: pa.Table, chosen: _Facts) -> pa.Table:
    """Return the chosen records, without copying if they follow each other, as those of a table in a segment do: a copy
    may take a gigabyte.
    """
    count = int(np.count_nonzero(chosen))
    first = int(np.argmax(chosen)) if count else 0
    return records.slice(first, count) if chosen[first : first + count].all() else records.filter(chosen)


def _routed(
    article: Article, operation: Operation, records: pa.Table, images: _Images, copy: ArticleCopy | None
) -> Iterator[Calls]:
    """Return the calls of one operation's records, according to the filter and the copy."""
    is_divided = operation is Operation.UPDATE and article.key_updates is KeyUpdates.DELETE_INSERT
    if article.condition is None and copy is None and not is_divided:
        yield _calls(article, operation, records, _arguments(article, operation, images))
        return
    for delivered, chosen in _route(article, operation, records, images, copy):
        if chosen.any() and article.command(delivered).call_format is not CallFormat.NONE:
            arguments = _arguments(article, delivered, images.take(chosen))
            yield _calls(article, delivered, records.filter(chosen), arguments)


def _route(
    article: Article, operation: Operation, records: pa.Table, images: _Images, copy: ArticleCopy | None
) -> Iterator[tuple[Operation, _Facts]]:
    """Yield what each record is to the subscriber: a delete, an insert, or an update."""
    loses = gains = np.ones(records.num_rows, dtype=np.bool_)
    xids, keys = records["xid"].to_numpy(), _key_indexes(article)
    if operation is not Operation.INSERT:
        loses = _find_published(article, images.before)
        if copy is not None:
            loses = loses & copy.lacks(xids, images.old_key(keys))
    if operation is not Operation.DELETE:
        gains = _find_published(article, images.new)
        if copy is not None:
            gains = gains & copy.lacks(xids, images.new[:, keys])
    match operation:
        case Operation.INSERT:
            yield operation, gains
        case Operation.DELETE:
            yield operation, loses
        case _:
            transitions = find_transitions(loses, gains)
            divided = transitions.updates & _find_divided(article, images, keys)
            yield Operation.UPDATE, transitions.updates & ~divided
            # The old row goes first: their place in the log is one.
            yield Operation.DELETE, transitions.deletes | divided
            yield Operation.INSERT, transitions.inserts | divided


def _find_divided(article: Article, images: _Images, keys: Sequence[int]) -> _Facts:
    """Return which updates become a delete and an insert, because they change the key."""
    if article.key_updates is KeyUpdates.UPDATE:
        return np.zeros(images.new.shape[0], dtype=np.bool_)
    changes: _Facts = np.any(images.old_key(keys) != images.new[:, keys], axis=1)
    return changes


def _find_published(article: Article, rows: _Matrix) -> _Facts:
    condition = article.condition
    if condition is None:
        return np.ones(rows.shape[0], dtype=np.bool_)
    return matches(condition, {place: rows[:, place] for place in range(rows.shape[1])})


def _calls(
    article: Article, operation: Operation, records: pa.Table, arguments: list[Arguments] | InsertedRows
) -> Calls:
    return Calls(article, operation, records["commit_lsn"].to_numpy(), records["seqval"].to_numpy(), arguments)


@frozen
class _Images:
    """Values before and after each change, and which of the latter the log carried."""

    before: _Matrix
    after: _Matrix
    is_carried: _Facts
    has_rows_before: _Facts
    has_keys_before: _Facts

    @classmethod
    def of(cls, records: pa.Table, places: Sequence[int | None]) -> _Images:
        kinds = records["image"].to_numpy()
        after = _matrix(records["after"], places)
        return cls(
            before=_matrix(records["before"], places),
            after=after,
            is_carried=_carried(records["absent"], after.shape[0], places),
            has_rows_before=kinds == ImageKind.FULL,
            has_keys_before=kinds == ImageKind.KEY,
        )

    @property
    def changed(self) -> npt.NDArray[np.bool_]:
        """Which columns an update changed; all that the log carried if it does not say."""
        differs: npt.NDArray[np.bool_] = self.before != self.after
        return self.is_carried & (differs | ~self.has_rows_before[:, np.newaxis])

    @property
    def new(self) -> _Matrix:
        """The values after a change; unchanged TOASTed values are taken from the old row if the log has it."""
        return np.where(self.is_carried, self.after, self.before)

    def take(self, chosen: _Facts) -> _Images:
        """Return the images of some changes."""
        return _Images(
            before=self.before[chosen],
            after=self.after[chosen],
            is_carried=self.is_carried[chosen],
            has_rows_before=self.has_rows_before[chosen],
            has_keys_before=self.has_keys_before[chosen],
        )

    def old_key(self, places: Sequence[int]) -> _Matrix:
        """The key before a change: the log carries it only if it changed, or with the whole row."""
        known = self.has_rows_before | self.has_keys_before
        return np.where(known[:, np.newaxis], self.before[:, places], self.after[:, places])


def _arguments(article: Article, operation: Operation, images: _Images) -> list[Arguments]:
    parts = parts_of(operation, article.command(operation).call_format)
    key_places = _key_indexes(article)
    # Only formats with a bitmap say what changed.
    changed = images.changed if ArgumentGroup.BITMAP in parts else images.is_carried
    matrices: list[_Matrix] = []
    for part in parts:
        match part:
            case ArgumentGroup.NEW:
                matrices.append(images.new)
            case ArgumentGroup.CHANGED:
                matrices.append(np.where(changed, images.after, _NULL))
            case ArgumentGroup.OLD_KEY:
                matrices.append(images.old_key(key_places))
            case ArgumentGroup.OLD:
                matrices.append(images.before)
            case ArgumentGroup.BITMAP:
                texts = bitmap_texts(changed)
                matrices.append(np.array(texts, dtype=object).reshape(-1, 1))
    found: list[Arguments] = np.concatenate(matrices, axis=1).tolist()
    return found


@frozen
class KeyIndexes:
    """Positions of the key in a call's arguments, before and after the change, by column.

    An insert has none before, a delete none after.
    """

    old: tuple[int, ...]
    new: tuple[int, ...]


def indexes_of_keys(article: Article, operation: Operation) -> KeyIndexes:
    """Return the positions of the key in the arguments of an operation."""
    starts: dict[ArgumentGroup, int] = {}
    length = 0
    for part in parts_of(operation, article.command(operation).call_format):
        starts[part] = length
        length += len(article.key_columns) if part is ArgumentGroup.OLD_KEY else len(article.columns)
    in_row = _key_indexes(article)
    new = starts.get(ArgumentGroup.NEW, starts.get(ArgumentGroup.CHANGED))
    old = range(len(in_row)) if ArgumentGroup.OLD_KEY in starts else in_row
    first = starts.get(ArgumentGroup.OLD_KEY, starts.get(ArgumentGroup.OLD))
    return KeyIndexes(
        old=tuple(first + place for place in old) if first is not None else (),
        new=tuple(new + place for place in in_row) if new is not None else (),
    )


def _key_indexes(article: Article) -> list[int]:
    return [article.columns.index(column) for column in article.key_columns]


def _find_indexes(article: Article, shape: TableShape, *, may_lack_columns: bool) -> list[int | None]:
    """Return the positions of the published columns in row images: by column number, which a rename does not change.

    None for a column that the images lack. Raises `ColumnNotLogged` unless they may.
    """
    numbered = {column.number: place for place, column in enumerate(shape.columns) if column.number is not None}
    named = {column.name: place for place, column in enumerate(shape.columns) if column.number is None}
    found = [numbered.get(column.number, named.get(column.name)) for column in article.columns]
    missing = [column.name for column, place in zip(article.columns, found, strict=True) if place is None]
    if missing and not may_lack_columns:
        raise ColumnNotLogged(shape.qualified_name, ", ".join(missing))
    return found


def _matrix(images: pa.ChunkedArray[Any], places: Sequence[int | None]) -> _Matrix:
    """Return row images as a matrix of the columns at these positions; all None for rows without an image."""
    lists = pa.concat_arrays(images.chunks) if images.num_chunks else pa.array([], images.type)
    assert isinstance(lists, pa.ListArray)
    rows = len(lists)
    matrix = np.full((rows, len(places)), None, dtype=object)
    present = np.flatnonzero(lists.is_valid().to_numpy(zero_copy_only=False))
    if present.size:
        values = lists.flatten().cast(pa.binary())
        whole = values.to_numpy(zero_copy_only=False).reshape(present.size, -1)
        matrix[present] = np.where(
            [place is None for place in places], _NULL, whole[:, [place or 0 for place in places]]
        )
    return matrix


def _carried(absent: pa.ChunkedArray[Any], rows: int, places: Sequence[int | None]) -> npt.NDArray[np.bool_]:
    is_there = [place is not None for place in places]
    carried = np.broadcast_to(np.array(is_there, dtype=np.bool_), (rows, len(places))).copy()
    if absent.null_count < rows:
        for row, bitmap in enumerate(absent.to_pylist()):
            if bitmap is not None:
                bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
                carried[row] = [place is not None and (place >= len(bits) or not bits[place]) for place in places]
    return carried
