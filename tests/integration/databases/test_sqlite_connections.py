"""Connections to SQLite files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from rowtide.databases.sqlite import connect
from rowtide.databases.sqlite.connect import FileLimits, StrangeFile, open_connection


def test_a_cursor_that_is_held_keeps_no_file_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a debugger or a profiler holds it, which asks for all objects."""
    held: list[Any] = []

    class Watched(StrangeFile):
        def execute(self, *statement: Any) -> Any:
            held.append(super().execute(*statement))
            return held[-1]

    with closing(sqlite3.connect(tmp_path / "held.db")) as made:
        made.execute("create table item (id integer primary key)")
    monkeypatch.setattr(connect, "StrangeFile", Watched)
    with open_connection(f"sqlite:///{tmp_path / 'held.db'}", FileLimits(5.0, 1_000_000)) as opened:
        assert opened.exec_driver_sql("select floor(1.5)").scalar() == 1
    assert held
