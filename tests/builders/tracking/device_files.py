"""A folder of SQLite files as devices send them, each with tracked tables and a program that writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rowtide.tracking import ChangeTracking

T = "create table t (id integer primary key, name text, qty integer)"


@dataclass(frozen=True)
class Fleet:
    """The folder; a device is known by its file's name."""

    folder: Path

    @property
    def pattern(self) -> str:
        """What names all files."""
        return f"{self.folder}/*.db"

    def path(self, device: str) -> str:
        """Return a device's file, which is its name in DataFrames."""
        return str(self.folder / f"{device}.db")

    def add(self, device: str, *statements: str, tables: Sequence[str] = ("t",)) -> str:
        """Make a device of statements, `T` where there are none, and track its tables; return its file."""
        self.folder.mkdir(exist_ok=True)
        with closing(sqlite3.connect(self.path(device), isolation_level=None)) as program:
            program.execute("pragma journal_mode = wal")
            for statement in statements or (T,):
                program.execute(statement)
            for table in tables:
                ChangeTracking(program).enable_tracking(table)
        return self.path(device)

    def write(self, device: str, *statements: str) -> None:
        """Let the device's program run statements."""
        with closing(sqlite3.connect(self.path(device), isolation_level=None)) as program:
            for statement in statements:
                program.execute(statement)

    def rows(self, device: str, table: str = "t", columns: str = "id, name, qty") -> list[tuple[object, ...]]:
        """Return what a table has now."""
        with closing(sqlite3.connect(self.path(device), isolation_level=None)) as program:
            return program.execute(f"select {columns} from {table}").fetchall()
