"""Tables for people: in columns if they fit the terminal, else one block per row."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import TextIO

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen

SAMPLE = 1000
"""Number of rows that determine the widths of columns; later ones are written as they arrive."""
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_NARROWEST = 20
_MOVES = {"Cc", "Cs", "Zl", "Zp"}
"""Unicode categories of characters that end lines or control a terminal."""

Show = Callable[[str, object], str]
"""Converts a column's value to text."""


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], out: TextIO, *, width: int | None, show: Show
) -> None:
    """Write rows with their column names, in psql's layout; without a `width` lines may have any length."""
    rows = iter(rows)
    sample = list(islice(rows, SAMPLE))
    texts = ([show(name, value) for name, value in zip(columns, row, strict=True)] for row in chain(sample, rows))
    if not sample:
        out.write(f"{' | '.join(columns)}\n(0 rows)\n")
        return
    layout = lay_out(columns, sample, show)
    if width is not None and layout.width > width:
        _write_blocks(columns, texts, out, width)
    else:
        layout.write_header(columns, out)
        out.writelines(layout.line(cells) for cells in texts)


@frozen
class ColumnWidths:
    """Widths of a table's columns, in terminal columns, and which of them have numbers."""

    widths: Sequence[int]
    are_numbers: Sequence[bool]

    @property
    def width(self) -> int:
        """The width of the table."""
        return sum(self.widths) + 3 * (len(self.widths) - 1)

    def write_header(self, columns: Sequence[str], out: TextIO) -> None:
        """Write the columns' names, and a line below them."""
        out.write(self.line(columns))
        out.write("-+-".join("-" * width for width in self.widths) + "\n")

    def line(self, cells: Iterable[str]) -> str:
        """Return a row's line."""
        return f"{' | '.join(map(self.cell, cells, range(len(self.widths)))).rstrip()}\n"

    def cell(self, text: str, place: int) -> str:
        """Return the text of a column, by its place, in the column's width."""
        return _padded(text, self.widths[place], self.are_numbers[place])


def lay_out(columns: Sequence[str], sample: Sequence[Sequence[object]], show: Show) -> ColumnWidths:
    """Return the layout for columns by a sample of rows, at least one."""
    texts = ([show(name, value) for name, value in zip(columns, row, strict=True)] for row in sample)
    widths = [max(map(_cells, column)) for column in zip(columns, *texts, strict=True)]
    return ColumnWidths(widths, [all(map(_is_number, column)) for column in zip(*sample, strict=True)])


def write_block(names: Sequence[str], values: Sequence[object], out: TextIO, *, width: int | None, show: Show) -> None:
    """Write one row with a line for each column."""
    texts = [show(name, value) for name, value in zip(names, values, strict=True)]
    out.writelines(f"{line}\n" for line in _block(names, texts, width))


def show_as_is(_column: str, value: object) -> str:
    """Return a value of a user's table: not rounded, with control characters escaped."""
    return "NULL" if value is None else _printable(str(value))


def show_fact(column: str, value: object) -> str:
    """Return a fact for people: numbers rounded, sizes in units, times in UTC to the second; empty for None."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case CommitLsn() | Position():
            return str(value)
        case int() if column.endswith("bytes"):
            return _size(value)
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        case tuple() | list():
            return ", ".join(show_fact(column, item) for item in value)
        case dict():
            return ", ".join(f"{name}={show_fact(str(name), item)}" for name, item in value.items())
        case _:
            return _printable(str(value))


def _write_blocks(columns: Sequence[str], rows: Iterable[Sequence[str]], out: TextIO, width: int) -> None:
    for at, texts in enumerate(rows, 1):
        out.write(f"-[ {at} ]".ljust(min(width, 60), "-") + "\n")
        out.writelines(f"{line}\n" for line in _block(columns, texts, width))


def _block(names: Sequence[str], texts: Sequence[str], width: int | None) -> Iterable[str]:
    label = max(map(_cells, names))
    room = max(width - label - 3, _NARROWEST) if width is not None else None
    for name, text in zip(names, texts, strict=True):
        lines = [text] if room is None or _cells(text) <= room else _wrapped(text, room)
        for at, line in enumerate(lines or [""]):
            yield f"{_padded('' if at else name, label, is_number=False)} | {line}".rstrip()


def _wrapped(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)


def _padded(text: str, width: int, is_number: bool) -> str:  # noqa: FBT001 - a cell's third part
    fill = " " * (width - _cells(text))
    return fill + text if is_number else text + fill


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _size(value: int) -> str:
    size, unit = float(value), 0
    while abs(size) >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"


def _cells(text: str) -> int:
    """Return how many terminal columns a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in _MOVES else character
        for character in text
    )
