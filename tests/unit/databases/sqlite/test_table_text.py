"""The text of a table is edited column by column; everything else stays as it was written."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from rowtide.databases.sqlite.table_text import TableText, item_of, nullable, parse_table, retyped


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
