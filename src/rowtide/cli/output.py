"""Rows for people and for programs: tables, CSV, JSON lines."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum

from rich.console import Console
from rich.table import Table

_PIPE_WIDTH = 10_000


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], form: Format) -> None:
    """Print rows with their column names; JSON lines and CSV as they come, a table when all are there."""
    match form:
        case Format.TABLE:
            _print_table(columns, rows)
        case Format.JSONL:
            for row in rows:
                print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
        case Format.CSV:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    table = Table(*columns)
    for row in rows:
        table.add_row(*("NULL" if value is None else str(value) for value in row))
    # A pipe has no width: rows are not folded for it.
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)
