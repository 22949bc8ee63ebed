"""The text of a table is edited column by column; everything else stays as it was written."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from rowtide.databases.sqlite.sql_text import (
    IndexText,
    TableText,
    concatenated,
    item_of,
    nullable,
    packing_expression,
    parse_index,
    parse_table,
    retyped,
)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("a int", "a text"),
        ("a", "a text"),
        ('"a b" numeric ( 10, 2 ) not null', '"a b" text not null'),
        ("[default] double precision default (1 + 2) collate nocase", "[default] text default (1 + 2) collate nocase"),
        ("a unsigned big int constraint c primary key", "a text constraint c primary key"),
        ("a/* not null */int/* int */check (a > 0)", "a text check (a > 0)"),
        ("a 'not' unique", "a text unique"),
    ],
)
def test_a_declared_type_is_replaced(column: str, wanted: str) -> None:
    assert retyped(item_of(column), "text").text == wanted


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("a int not null", "a int"),
        ("a int not null on conflict ignore default 1", "a int default 1"),
        ('a int constraint "not null" not null unique', "a int unique"),
        ("a int check (a is not null) default 'not null'", "a int check (a is not null) default 'not null'"),
        ("a int unique not null not null", "a int unique"),
    ],
)
def test_not_null_is_taken_away(column: str, wanted: str) -> None:
    assert nullable(item_of(column)).text == wanted


def test_an_edited_table_is_one_that_sqlite_takes() -> None:
    table = parse_table(
        'create table t (a int not null /* , */, "b," text, primary key (a), check (a > 0)) without rowid'
    )
    edited = TableText(
        tuple(retyped(nullable(item), "blob") if item.column else item for item in table.items), table.options
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(edited.create("t"))
        found = connection.execute("select name, lower(type), pk from pragma_table_info('t')").fetchall()
    assert found == [("a", "blob", 1), ("b,", "blob", 0)]


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


def test_as_many_columns_as_a_table_has_are_concatenated() -> None:
    values = [str(number) for number in range(2000)]
    with closing(sqlite3.connect(":memory:")) as file:
        (joined,) = file.execute(f"select {concatenated(values)}").fetchone()
        (packed,) = file.execute(f"select {packing_expression(values)}").fetchone()

    assert joined == "".join(values)
    assert packed == ",".join(values)
