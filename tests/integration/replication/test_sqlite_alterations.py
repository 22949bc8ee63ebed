"""A column of a file's table is altered, and all else of the table stays: what SQLite's `alter table` cannot do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.replication.targets.sqlite import alterations

TABLE = """
create table [Codes] (
    id integer primary key autoincrement, U int unique, v text not null, x int, y int as (x + 1),
    unique (x, v), check (id > 0))
"""
OWN = (
    "create table log (id integer)",
    "create index by_v on codes (v)",
    "create unique index by_u on codes (u, v)",
    "create trigger written after insert on codes begin insert into log values (new.id); end",
)
ROWS = [(1, 10, "a", 7, 8), (2, 20, "b", 8, 9)]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A file whose table has had three rows, of which the last was deleted."""
    with closing(sqlite3.connect(tmp_path / "file.db", isolation_level=None)) as connection:
        for statement in (TABLE, *OWN):
            connection.execute(statement)
        connection.execute("insert into codes (u, v, x) values (10, 'a', 7), (20, 'b', 8), (30, 'c', 9)")
        connection.execute("delete from codes where id = 3")
        yield connection


def columns(file: sqlite3.Connection) -> list[tuple[str, str, int]]:
    """Return the table's columns with their declared types, and whether they are not null."""
    return file.execute("select name, type, \"notnull\" from pragma_table_xinfo('codes')").fetchall()


def names(file: sqlite3.Connection) -> set[str]:
    """Return the names of what the file has besides tables and the constraints' indexes."""
    return {
        name for (name,) in file.execute("select name from sqlite_schema where type <> 'table' and sql is not null")
    }


def test_a_column_is_retyped_and_the_rest_stays(file: sqlite3.Connection) -> None:
    (code,) = article(source_table([("u", "text")], name="codes", key=("u",))).columns
    alterations.retype(file, "codes", code)

    assert columns(file) == [
        ("id", "INTEGER", 0),
        ("U", "TEXT", 0),
        ("v", "TEXT", 1),
        ("x", "INT", 0),
        ("y", "INT", 0),
    ]
    assert file.execute("select * from codes").fetchall() == [(1, "10", "a", 7, 8), (2, "20", "b", 8, 9)]
    require_the_rest(file)


def test_a_strict_table_has_its_own_word_for_a_type(file: sqlite3.Connection) -> None:
    file.execute("create table flags (id integer primary key, is_set text) strict")
    file.execute("insert into flags values (1, '1')")
    (column,) = article(source_table([("is_set", "boolean")], name="flags", key=("is_set",))).columns
    alterations.retype(file, "flags", column)

    assert file.execute("select type from pragma_table_info('flags')").fetchall() == [("INTEGER",), ("INTEGER",)]
    assert file.execute("select is_set, typeof(is_set) from flags").fetchall() == [(1, "integer")]


def test_a_column_takes_nulls_and_the_rest_stays(file: sqlite3.Connection) -> None:
    _, text = article(source_table([("u", "text"), ("V", "text")], name="codes", key=("u",))).columns
    alterations.allow_nulls(file, "codes", text)

    assert [name for name, _, is_needed in columns(file) if is_needed] == []
    assert file.execute("select * from codes").fetchall() == ROWS
    require_the_rest(file)


def require_the_rest(file: sqlite3.Connection) -> None:
    """Indexes, constraints, triggers and the numbers that were given are as before."""
    assert names(file) == {"by_v", "by_u", "written"}
    file.execute("insert into codes (u, v, x) values ('40', 'd', 10)")
    assert file.execute("select max(id) from codes").fetchall() == file.execute("select max(id) from log").fetchall()
    assert file.execute("select max(id) from codes").fetchone() == (4,)
    for values, broken in (("'40', 'e', 1", "Codes.U"), ("'50', 'd', 10", "Codes.x, Codes.v")):
        with pytest.raises(sqlite3.IntegrityError, match=f"UNIQUE constraint failed: {broken}"):
            file.execute(f"insert into codes (u, v, x) values ({values})")
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        file.execute("insert into codes (id, u, v, x) values (-1, 60, 'f', 1)")


def test_a_dropped_column_takes_its_indexes_along(file: sqlite3.Connection) -> None:
    (code,) = article(source_table([("u", "text")], name="codes", key=("u",))).columns
    alterations.drop(file, "codes", code)

    assert [name for name, *_ in columns(file)] == ["id", "v", "x", "y"]
    assert file.execute("select * from codes").fetchall() == [(one, *others) for one, _, *others in ROWS]
    assert names(file) == {"by_v", "written"}
