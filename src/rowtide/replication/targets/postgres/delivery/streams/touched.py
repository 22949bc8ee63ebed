"""Which values of a row's columns a call takes away and brings, as far as its arguments say so. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import Part, parts_of
from rowtide.replication.distribution.calls.encoding import Arguments


class Unknown(Enum):
    """What stands for values that the arguments do not have."""

    VALUES = "unknown"


Values = tuple[bytes | None, ...]
Side = Values | Unknown | None
"""Values of some columns; None: the call changes none of them on this side."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The values of some columns before a call, which it takes away, and after it."""

    before: Side
    after: Side


NOTHING = Touched(None, None)


class ColumnReader:
    """Reads some columns of one article from the arguments of one operation; `columns` are places in the row."""

    def __init__(self, article: Article, operation: Operation, columns: Sequence[int]) -> None:
        self._operation = operation
        self._columns = tuple(columns)
        starts: dict[Part, int] = {}
        length = 0
        for part in parts_of(operation, article.command(operation).call_format):
            starts[part] = length
            length += len(article.key_columns) if part is Part.OLD_KEY else len(article.columns)
        in_key = {article.columns.index(column): place for place, column in enumerate(article.key_columns)}
        # Where an old value is: in the old row, or in the old key.
        old, old_key = starts.get(Part.OLD), starts.get(Part.OLD_KEY)
        if old is not None:
            self._old: tuple[int | None, ...] = tuple(old + column for column in self._columns)
        elif old_key is not None:
            self._old = tuple(old_key + in_key[column] if column in in_key else None for column in self._columns)
        else:
            self._old = (None,) * len(self._columns)
        self._new, self._changed = starts.get(Part.NEW), starts.get(Part.CHANGED)
        self._bitmap = starts.get(Part.BITMAP)

    def read(self, arguments: Arguments) -> Touched:
        """Return the values that a call changes."""
        match self._operation:
            case Operation.INSERT:
                return Touched(None, self._after(arguments, self._columns))
            case Operation.DELETE:
                return Touched(self.read_old(arguments), None)
            case _:
                return self._read_update(arguments)

    def read_old(self, arguments: Arguments) -> Side:
        """Return the values before an update or a delete, changed or not."""
        values = tuple(arguments[place] for place in self._old if place is not None)
        return values if len(values) == len(self._columns) else Unknown.VALUES

    def _read_update(self, arguments: Arguments) -> Touched:
        changed = self._columns
        if self._bitmap is not None:
            bits = arguments[self._bitmap]
            assert bits is not None
            changed = tuple(column for column in self._columns if _is_set(bits, column))
            if not changed:
                return NOTHING
        before, after = self.read_old(arguments), self._after(arguments, changed)
        return NOTHING if before == after and before is not Unknown.VALUES else Touched(before, after)

    def _after(self, arguments: Arguments, changed: Sequence[int]) -> Side:
        if self._new is not None:
            return tuple(arguments[self._new + column] for column in self._columns)
        assert self._changed is not None
        values: list[bytes | None] = []
        for column, old in zip(self._columns, self._old, strict=True):
            if column in changed:
                values.append(arguments[self._changed + column])
            elif old is not None:
                values.append(arguments[old])
            else:
                return Unknown.VALUES
        return tuple(values)


def _is_set(bits: bytes, column: int) -> bool:
    """Return whether a bitmap, `\\x` and hexadecimal digits, has a column's bit."""
    digits = 2 + column // 8 * 2
    return bool(int(bits[digits : digits + 2], 16) >> column % 8 & 1)
