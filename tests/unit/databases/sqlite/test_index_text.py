from __future__ import annotations

import sqlite3

import pytest

from rowtide.databases.sqlite.index_text import IndexText, parse_index


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("create unique index i on t (a)", IndexText(("a",), None)),
        ('CREATE UNIQUE INDEX "on" ON "t (x)" ("a,b" DESC, c COLLATE nocase asc)', IndexText(('"a,b"', "c"), None)),
        (
            "create unique index i on t (lower(a || ',)'), coalesce(b, 1.5)) where a <> 'where' and (b > 1)",
            IndexText(("lower(a || ',)')", "coalesce(b, 1.5)"), "a <> 'where' and (b > 1)"),
        ),
        (
            "create unique index i on t (a /* , */ , -- (\n [c d] collate binary desc) where b is not null -- why",
            IndexText(("a", "[c d]"), "b is not null"),
        ),
        (
            "create unique index main.i on `t``` (x'00ff', substr(a, 1, 2))",
            IndexText(("x'00ff'", "substr(a, 1, 2)"), None),
        ),
    ],
)
def test_an_index_is_taken_apart_as_sqlite_does(sql: str, expected: IndexText) -> None:
    assert parse_index(sql) == expected


def test_what_is_parsed_is_what_sqlite_keeps() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a, b)")
    connection.execute("create unique index i on t (abs ( a ) collate nocase desc, b) where b > 0")
    (sql,) = connection.execute("select sql from sqlite_schema where name = 'i'").fetchone()
    connection.close()

    assert parse_index(sql) == IndexText(("abs ( a )", "b"), "b > 0")
