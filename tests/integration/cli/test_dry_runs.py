"""A dry run prints what the command would do to a SQLite file, and leaves nothing behind."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from builders.commands.dry_runs import require_true_dry_run_of_file
from rowtide.databases.sqlite.guarding import writing
from rowtide.handle import connect
from rowtide.tracking import ChangeTracking


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with three tables."""
    made = tmp_path / "field.db"
    with closing(sqlite3.connect(made)) as program:
        program.executescript(
            "create table item (id integer primary key, note text);"
            "create table piece (id integer primary key, note text);"
            "create table third (id integer primary key);"
            "insert into item values (1, 'it''s 100%');"
        )
    return made


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as program, writing(program):
        program.execute(statement)


def test_dry_runs_of_tracking_are_true(path: Path) -> None:
    require_true_dry_run_of_file(path, "tracking", "enable", "item")
    require_true_dry_run_of_file(path, "tracking", "enable", "piece", "--storage", "side")
    execute(path, 'drop trigger "__sysTracking_item_insert"')
    require_true_dry_run_of_file(path, "tracking", "resume", "item")
    require_true_dry_run_of_file(path, "tracking", "disable", "item")
    require_true_dry_run_of_file(path, "tracking", "disable", "piece")


def test_dry_runs_of_merge_are_true(path: Path) -> None:
    require_true_dry_run_of_file(path, "merge", "add-publication", "shop")
    require_true_dry_run_of_file(path, "merge", "add-article", "shop", "item")
    require_true_dry_run_of_file(path, "merge", "add-article", "shop", "piece", "--where", "note is not null")
    require_true_dry_run_of_file(path, "merge", "change-article", "shop", "piece", "--where", "id > 0")
    require_true_dry_run_of_file(path, "merge", "alter-article", "shop", "piece", "add column extra text")
    require_true_dry_run_of_file(path, "merge", "change-publication", "shop", "--no-replicate-ddl")
    require_true_dry_run_of_file(path, "merge", "drop-article", "shop", "piece")
    require_true_dry_run_of_file(path, "merge", "drop-publication", "shop")


def test_a_rehearsal_in_memory_leaves_nothing() -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as program:
        program.execute("create table item (id integer primary key)")
        tracking = ChangeTracking(program)
        rehearsal = tracking.rehearsal()
        rehearsal.enable_tracking("item")

        assert any("create trigger" in statement for statement in rehearsal.statements)
        assert program.execute("select name from sqlite_schema").fetchall() == [("item",)]
        assert tracking.list_tracked() == ()


def test_rehearsals_and_real_work_do_not_disturb_each_other(path: Path) -> None:
    ready = threading.Barrier(3)

    def enable(table: str, *, really: bool) -> list[str]:
        with connect(f"sqlite:///{path}") as database:
            rehearsal = database.tracking.rehearsal()
            ready.wait()
            (database.tracking if really else rehearsal).enable_tracking(table)
            return rehearsal.statements

    with ThreadPoolExecutor(3) as threads:
        working = [
            threads.submit(enable, table, really=really)
            for table, really in (("item", False), ("piece", False), ("third", True))
        ]
        rehearsed = [" ".join(work.result()) for work in working]

    assert "item" in rehearsed[0]
    assert "piece" not in rehearsed[0]
    assert "piece" in rehearsed[1]
    assert rehearsed[2] == ""
    with connect(f"sqlite:///{path}") as database:
        assert [tracked.name for tracked in database.tracking.list_tracked()] == ["third"]


def test_two_rehearsals_of_one_handle_do_not_disturb_each_other(path: Path) -> None:
    with connect(f"sqlite:///{path}") as database:
        first, second = database.tracking.rehearsal(), database.tracking.rehearsal()
        first.enable_tracking("item")
        database.tracking.enable_tracking("third")
        second.enable_tracking("piece")

        assert "piece" not in " ".join(first.statements)
        assert "item" not in " ".join(second.statements)
        assert [tracked.name for tracked in database.tracking.list_tracked()] == ["third"]
