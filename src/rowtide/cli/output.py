"""Rows for people and for programs: tables, CSV, JSON lines; printed, or in a file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rowtide.core.errors import FileNotWritable
from rowtide.core.lsn import CommitLsn, Position

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_PIPE_WIDTH = 10_000
_QUOTED_IN_CSV = re.compile(r'[",\r\n]|^$|^\\\.$')
"""`\\.` alone on a line ends what PostgreSQL's `copy` reads."""


class Notes:
    """What commands say on stderr, beside what they print; rich is imported with the first note."""

    @cached_property
    def console(self) -> Console:
        """The terminal, or what stands in its place."""
        from rich.console import Console

        return Console(stderr=True, markup=False, emoji=False, highlight=False)

    @property
    def is_terminal(self) -> bool:
        """Whether lines may be written over."""
        return self.console.is_terminal

    def print(self, text: str, *, soft_wrap: bool = False) -> None:
        """Print a note; with `soft_wrap` the terminal breaks it into lines, and a file has it in one."""
        self.console.print(text, soft_wrap=soft_wrap)

    def status(self, text: str) -> Status:
        """Return a context in which a terminal shows a line that changes."""
        return self.console.status(text)


notes = Notes()


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


def print_wait(whom: str) -> None:
    """Say what a command waits for."""
    notes.print(f"Still {whom} ...", soft_wrap=True)


def print_heirs(table: str, heirs: Sequence[str], read: str) -> None:
    """Say which rows a query of a table returns that its log does not have."""
    if heirs:
        notes.print(
            f"Rows of the tables that inherit from {table} are not {read} with it: {', '.join(heirs)}.", soft_wrap=True
        )


def print_rows(
    columns: Sequence[str], rows: Iterable[Sequence[object]], form: Format, out: TextIO | None = None
) -> None:
    """Print rows with their column names, to stdout if not to `out`; JSON lines and CSV as they come."""
    out = out or sys.stdout
    match form:
        case Format.TABLE:
            _print_table(columns, rows, out)
        case Format.JSONL:
            for row in rows:
                print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False), file=out)
        case Format.CSV:
            for row in chain([columns], rows):
                print(",".join(map(_as_csv, row)), file=out)


def print_listed(kind: type[Any], listed: Iterable[object], form: Format) -> None:
    """Print objects of a dataclass, by those of its fields that are shown."""
    columns = [field.name for field in fields(kind) if field.repr]
    print_rows(columns, ([as_json(getattr(row, name), form) for name in columns] for row in listed), form)


def as_json(value: object, form: Format) -> object:
    """Return a fact as JSON has it: LSNs as text, times in ISO 8601; lists are text where a format has none."""
    match value:
        case CommitLsn() | Position():
            return str(value)
        case datetime():
            return value.isoformat()
        case tuple():
            return list(value) if form is not Format.CSV else "; ".join(map(str, value))
        case _:
            return value


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a name to write under; the file is at `path` when all is written. Raises `FileNotWritable`."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise FileNotWritable(str(path), error.strerror or str(error)) from error
    finally:
        partial.unlink(missing_ok=True)


def _as_csv(value: object) -> str:
    """Return a field as PostgreSQL's `copy` writes and reads it: null is nothing, an empty text two quotes."""
    if value is None:
        return ""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if _QUOTED_IN_CSV.search(text) else text


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*("NULL" if value is None else str(value) for value in row))
    # A pipe has no width: rows are not folded for it. Values are printed as they are, brackets and colons too.
    width = None if out.isatty() else _PIPE_WIDTH
    Console(file=out, width=width, markup=False, emoji=False, highlight=False).print(table)
