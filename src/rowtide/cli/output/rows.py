"""Output of rows for people and programs: tables, CSV, JSON lines; to stdout or a file."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar

from rowtide.cli.output.completion_names import is_remembered, remember
from rowtide.cli.output.tables import Show, show_as_is, show_fact, write_block, write_table
from rowtide.core.errors import FileNotWritable
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.redaction import redact
from rowtide.events.event import Level

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status


_AS_TERMINAL = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Variables that make rich treat other streams as terminals."""
_WITHOUT_CONTROLS = dict.fromkeys((7, 8, 11, 12, 13))
"""Bell, backspace, vertical tab, form feed, carriage return: rich leaves them out, too."""
_QUOTED_IN_CSV = re.compile(r'[",\r\n]|^$|^\\\.$')
"""`\\.` alone on a line would end the input of PostgreSQL's `copy`."""


class Notes:
    """Messages on stderr; rich is imported for a terminal, and to wrap lines.

    `level`: with error, `--quiet`, they are not printed; with debug, `-v`, events are printed that are not shown
    otherwise.
    """

    def __init__(self) -> None:
        self.level = Level.INFO
        self.is_debugging = False
        self._prefix = ""
        self._is_shared = False

    @contextmanager
    def telling(self, level: Level, *, is_debugging: bool) -> Iterator[None]:
        """Print at a level during the block; while debugging, errors end with their tracebacks."""
        before = self.level, self.is_debugging
        self.level, self.is_debugging = level, is_debugging
        try:
            yield
        finally:
            self.level, self.is_debugging = before

    def share(self, prefix: str) -> None:
        """Print on a stream that other processes print on too: each line with a prefix, and no line twice."""
        self._prefix, self._is_shared = prefix, True

    @cached_property
    def console(self) -> Console:
        """The terminal, or its replacement."""
        from rich.console import Console

        return Console(stderr=True, markup=False, emoji=False, highlight=False)

    @property
    def is_terminal(self) -> bool:
        """Whether lines can be overwritten."""
        may_be = sys.stderr.isatty() or not _AS_TERMINAL.isdisjoint(os.environ)
        return may_be and not self._is_shared and self.console.is_terminal

    def print(self, text: str, *, soft_wrap: bool = False, is_error: bool = False) -> None:
        """Print a message; with `soft_wrap` a terminal wraps it, and a file has it in one line."""
        if self.level is Level.ERROR and not is_error:
            return
        if soft_wrap and not self.is_terminal:
            print(f"{self._prefix}{redact(text)}".translate(_WITHOUT_CONTROLS), file=sys.stderr)
        else:
            self.console.print(f"{self._prefix}{redact(text)}", soft_wrap=soft_wrap)

    def status(self, text: str) -> Status | HiddenStatus:
        """Return a context during which a terminal shows a status line."""
        return self.console.status(text) if self.is_terminal and self.level is not Level.ERROR else HiddenStatus()


class HiddenStatus:
    """A status line without a terminal: shows nothing."""

    def __enter__(self) -> HiddenStatus:
        return self

    def __exit__(self, *_raised: object) -> None:
        """Show nothing."""

    def update(self, _text: str) -> None:
        """Show nothing."""


notes = Notes()


class OutputFormat(StrEnum):
    """Output formats of listings."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


def print_wait(reason: str) -> None:
    """Report what a command waits for."""
    notes.print(f"Still {reason} ...", soft_wrap=True)


def print_child_tables(table: str, child_tables: Sequence[str], read: str) -> None:
    """Report the tables whose rows a query of a table returns, but its log does not contain."""
    if child_tables:
        notes.print(
            f"Rows of the tables that inherit from {table} are not {read} with it: {', '.join(child_tables)}.",
            soft_wrap=True,
        )


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    form: OutputFormat,
    out: TextIO | None = None,
    *,
    show: Show = show_as_is,
) -> None:
    """Print rows with their column names, to stdout or `out`; JSON lines and CSV are written as rows arrive.

    A table wider than the terminal is printed as one block per row; `show` converts values to text.
    """
    out = out or sys.stdout
    match form:
        case OutputFormat.TABLE:
            write_table(columns, rows, out, width=width_of(out), show=show)
        case OutputFormat.JSONL:
            for row in rows:
                print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False), file=out)
        case OutputFormat.CSV:
            for row in chain([columns], rows):
                print(",".join(map(_as_csv, row)), file=out)


def print_listed(
    kind: type[Any],
    listed: Iterable[object],
    form: OutputFormat,
    brief: Mapping[str, str] | None = None,
    *,
    wide: bool = False,
    json_texts: Collection[str] = (),
) -> None:
    """Print objects of a dataclass.

    A table has the fields in `brief`, under its headings, unless `wide`; other formats have all fields. JSON lines
    contain the texts of the fields `json_texts` as JSON.
    """
    if is_remembered(kind):
        listed = list(listed)
        _remember(kind, listed)
    shown = {field.name: field.name for field in fields(kind) if field.repr}
    if form is not OutputFormat.TABLE:
        parsed = set(json_texts) if form is OutputFormat.JSONL else set()
        rows = ([_value(row, name, form, is_json=name in parsed) for name in shown] for row in listed)
        print_rows(tuple(shown), rows, form)
        return
    chosen = shown if wide or brief is None else brief
    show: Show = lambda heading, value: show_fact(chosen[heading], value)  # noqa: E731
    print_rows(tuple(chosen), ([getattr(row, name) for name in chosen.values()] for row in listed), form, show=show)


def _remember(kind: type[Any], rows: Sequence[object]) -> None:
    """Keep names for completion, of the database that the command names."""
    from click import get_current_context

    context = get_current_context(silent=True)
    db = context.params.get("db") if context is not None else None
    if db:
        remember(kind, rows, db)


def _value(row: object, name: str, form: OutputFormat, *, is_json: bool) -> object:
    value = getattr(row, name)
    return json.loads(value) if is_json and value is not None else as_json(value, form)


def print_facts(found: Any, form: OutputFormat) -> None:
    """Print one object of a dataclass, with passwords masked: a table has one line per field."""
    names = [field.name for field in fields(found) if field.repr]
    values = [getattr(found, name) for name in names]
    values = [redact(value) if isinstance(value, str) else value for value in values]
    if form is OutputFormat.TABLE:
        write_block(names, values, sys.stdout, width=width_of(sys.stdout), show=show_fact)
    else:
        print_rows(names, [[as_json(value, form) for value in values]], form)


def as_json(value: Any, form: OutputFormat) -> object:
    """Return a value as JSON: LSNs as text, times in ISO 8601, durations in seconds, objects as objects.

    For CSV, which has neither lists nor objects, these are text.
    """
    match value:
        case CommitLsn() | Position():
            return str(value)
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case tuple() | list() if form is OutputFormat.CSV:
            return "; ".join(str(as_json(item, form)) for item in value)
        case tuple() | list():
            return [as_json(item, form) for item in value]
        case dict() if form is OutputFormat.CSV:
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return {name: as_json(item, form) for name, item in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            return as_json({field.name: getattr(value, field.name) for field in fields(value)}, form)
        case _:
            return value


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file to write to; it is moved to `path` when complete.

    A symbolic link stays, and its file is replaced; a file that was there hands its permissions on. A pipe or a device
    is written in place.
    Raises `FileNotWritable`.
    """
    if not path.name:
        raise FileNotWritable(str(path), "it has no name")
    try:
        if path.exists() and not path.is_file():
            yield path
        else:
            with _replacing(path.resolve()) as partial:
                yield partial
    except OSError as error:
        raise FileNotWritable(str(path), error.strerror or str(error)) from error


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    # Two processes that write one file have temporary files of their own: the last one to end replaces the file as a
    # whole.
    partial = path.with_name(f".{uuid.uuid4().hex}.partial")
    try:
        partial.touch()
        with suppress(FileNotFoundError):
            partial.chmod(path.stat().st_mode & 0o777)
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _as_csv(value: object) -> str:
    """Return a field in the format of PostgreSQL's `copy`: null is empty, an empty text two quotes."""
    if value is None:
        return ""
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if _QUOTED_IN_CSV.search(text) else text


def width_of(out: TextIO) -> int | None:
    """Return the terminal's width; None for a pipe, where lines are not wrapped."""
    return shutil.get_terminal_size().columns if out.isatty() else None


class Rehearsal(Protocol):
    """A rehearsal, as a handle's `rehearsal` returns it."""

    statements: list[str]


Rehearsed = TypeVar("Rehearsed", bound=Rehearsal)


@contextmanager
def printed(rehearsal: Rehearsed) -> Iterator[Rehearsed]:
    """Yield a rehearsal, and print its statements as they would run."""
    yield rehearsal
    for each in rehearsal.statements:
        sys.stdout.write(f"{each.strip()};\n")


def report(what: str, *, dry_run: bool) -> None:
    """Print what was done, unless nothing was."""
    if not dry_run:
        notes.print(what)
