"""An article's log records, encoded as calls: for each change, the operation and its arguments. Pure.

Values keep the log's text form; they become Python bytes here, because each is a separate argument. Only new rows stay
in Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.operations import Operation
from rowtide.core.tables import ImageKind, TableShape
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import ArgumentGroup, CallFormat, KeyUpdates, parts_of
from rowtide.replication.distribution.calls.arguments import CallArguments, InsertedRows, Matrix, bitmap_texts
from rowtide.replication.distribution.calls.ordered import Calls, key_indexes
from rowtide.replication.errors.publishing import ColumnNotLogged
from rowtide.replication.filters.evaluation import find_transitions, matches
from rowtide.replication.snapshot.agent import ArticleCopy

_DELIVERED = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
_NULL = np.array(None, dtype=object)
_Facts = npt.NDArray[np.bool_]


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
            indexes = _find_indexes(article, shape, may_lack_columns=may_lack_columns)
            if operation is Operation.INSERT and article.condition is None and copy is None and None not in indexes:
                rows = InsertedRows.of_images(chosen["after"], [index for index in indexes if index is not None])
                yield _calls(article, operation, chosen, rows)
            else:
                yield from _routed(article, operation, chosen, _Images.of(chosen, indexes), copy)
    truncates = records.filter(operations == Operation.TRUNCATE)
    if copy is not None and truncates.num_rows:
        truncates = truncates.filter(copy.lacks_all(truncates["xid"].to_numpy()))
    if article.delete.call_format is not CallFormat.NONE and truncates.num_rows:
        yield _calls(
            article, Operation.TRUNCATE, truncates, CallArguments(np.empty((truncates.num_rows, 0), dtype=object))
        )


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
    xids, keys = records["xid"].to_numpy(), key_indexes(article)
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
            # The old row goes first: their position in the log is the same.
            yield Operation.DELETE, transitions.deletes | divided
            yield Operation.INSERT, transitions.inserts | divided


def _find_divided(article: Article, images: _Images, keys: Sequence[int]) -> _Facts:
    """Return which updates become a delete and an insert, because they change the key."""
    if article.key_updates is KeyUpdates.UPDATE:
        return np.zeros(images.new.shape[0], dtype=np.bool_)
    changes: _Facts = np.any(images.old_key(keys) != images.new[:, keys], axis=1)
    return changes


def _find_published(article: Article, rows: Matrix) -> _Facts:
    condition = article.condition
    if condition is None:
        return np.ones(rows.shape[0], dtype=np.bool_)
    return matches(condition, {index: rows[:, index] for index in range(rows.shape[1])})


def _calls(article: Article, operation: Operation, records: pa.Table, arguments: CallArguments) -> Calls:
    return Calls(article, operation, records["commit_lsn"].to_numpy(), records["seqval"].to_numpy(), arguments)


@frozen
class _Images:
    """Values before and after each change, and which of the latter the log carried."""

    before: Matrix
    after: Matrix
    is_carried: _Facts
    has_rows_before: _Facts
    has_keys_before: _Facts

    @classmethod
    def of(cls, records: pa.Table, indexes: Sequence[int | None]) -> _Images:
        kinds = records["image"].to_numpy()
        after = _matrix(records["after"], indexes)
        return cls(
            before=_matrix(records["before"], indexes),
            after=after,
            is_carried=_carried(records["absent"], after.shape[0], indexes),
            has_rows_before=kinds == ImageKind.FULL,
            has_keys_before=kinds == ImageKind.KEY,
        )

    @property
    def changed(self) -> npt.NDArray[np.bool_]:
        """Which columns an update changed; all that the log carried if it does not say."""
        differs: npt.NDArray[np.bool_] = self.before != self.after
        return self.is_carried & (differs | ~self.has_rows_before[:, np.newaxis])

    @property
    def new(self) -> Matrix:
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

    def old_key(self, indexes: Sequence[int]) -> Matrix:
        """The key before a change: the log carries it only if it changed, or with the whole row."""
        known = self.has_rows_before | self.has_keys_before
        return np.where(known[:, np.newaxis], self.before[:, indexes], self.after[:, indexes])


def _arguments(article: Article, operation: Operation, images: _Images) -> CallArguments:
    parts = parts_of(operation, article.command(operation).call_format)
    key_places = key_indexes(article)
    # Only formats with a bitmap say what changed.
    changed = images.changed if ArgumentGroup.BITMAP in parts else images.is_carried
    matrices: list[Matrix] = []
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
    return CallArguments(np.concatenate(matrices, axis=1))


def _find_indexes(article: Article, shape: TableShape, *, may_lack_columns: bool) -> list[int | None]:
    """Return the positions of the published columns in row images: by column number, which a rename does not change.

    None for a column that the images lack. Raises `ColumnNotLogged` unless they may.
    """
    numbered = {column.number: index for index, column in enumerate(shape.columns) if column.number is not None}
    named = {column.name: index for index, column in enumerate(shape.columns) if column.number is None}
    found = [numbered.get(column.number, named.get(column.name)) for column in article.columns]
    missing = [column.name for column, index in zip(article.columns, found, strict=True) if index is None]
    if missing and not may_lack_columns:
        raise ColumnNotLogged(shape.qualified_name, ", ".join(missing))
    return found


def _matrix(images: pa.ChunkedArray[Any], indexes: Sequence[int | None]) -> Matrix:
    """Return row images as a matrix of the columns at these positions; all None for rows without an image."""
    lists = pa.concat_arrays(images.chunks) if images.num_chunks else pa.array([], images.type)
    assert isinstance(lists, pa.ListArray)
    rows = len(lists)
    matrix = np.full((rows, len(indexes)), None, dtype=object)
    present = np.flatnonzero(lists.is_valid().to_numpy(zero_copy_only=False))
    if present.size:
        values = lists.flatten().cast(pa.binary())
        whole = values.to_numpy(zero_copy_only=False).reshape(present.size, -1)
        matrix[present] = np.where(
            [index is None for index in indexes], _NULL, whole[:, [index or 0 for index in indexes]]
        )
    return matrix


def _carried(absent: pa.ChunkedArray[Any], rows: int, indexes: Sequence[int | None]) -> npt.NDArray[np.bool_]:
    is_there = [index is not None for index in indexes]
    carried = np.broadcast_to(np.array(is_there, dtype=np.bool_), (rows, len(indexes))).copy()
    if absent.null_count < rows:
        for row, bitmap in enumerate(absent.to_pylist()):
            if bitmap is not None:
                bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
                carried[row] = [index is not None and (index >= len(bits) or not bits[index]) for index in indexes]
    return carried
