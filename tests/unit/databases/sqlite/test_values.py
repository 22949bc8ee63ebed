"""What SQLite derives from a column's declaration, and how types are stored, as SQLite itself sees it."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing

import pytest

from builders.values.type_catalogue import SAMPLES
from rowtide.databases.sqlite.values import (
    affinity,
    decode_text,
    from_text,
    lake_type,
    stored_type,
    text_of,
    to_text,
)
from rowtide.databases.types.value_type import Affinity

DECLARED = {
    "": Affinity.NONE,
    "int": Affinity.INTEGER,
    "BIGINT": Affinity.INTEGER,
    "unsigned big int": Affinity.INTEGER,
    "floating point": Affinity.INTEGER,
    "charint": Affinity.INTEGER,
    "varchar(20)": Affinity.TEXT,
    "CLOB": Affinity.TEXT,
    "textblob": Affinity.TEXT,
    "blob": Affinity.NONE,
    "real blob": Affinity.NONE,
    "double precision": Affinity.REAL,
    "float": Affinity.REAL,
    "numeric": Affinity.NUMERIC,
    "decimal(10, 2)": Affinity.NUMERIC,
    "boolean": Affinity.NUMERIC,
    "datetime": Affinity.NUMERIC,
    "json": Affinity.NUMERIC,
    "any": Affinity.NUMERIC,
}
STORED_BY = {
    Affinity.INTEGER: ("integer", "integer", "real"),
    Affinity.NUMERIC: ("integer", "integer", "real"),
    Affinity.REAL: ("real", "real", "real"),
    Affinity.TEXT: ("text", "text", "text"),
    Affinity.NONE: ("integer", "text", "text"),
}
"""How a column of an affinity stores the integer 1 and the texts 1 and 1.5."""


@pytest.mark.parametrize("declared", DECLARED)
def test_the_affinity_is_what_sqlite_derives(declared: str) -> None:
    found = affinity(declared, is_strict=False)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"create table t (v {declared})")
        connection.executemany("insert into t values (?)", [(1,), ("1",), ("1.5",)])
        stored = tuple(row[0] for row in connection.execute("select typeof(v) from t"))

    assert found is DECLARED[declared]
    assert stored == STORED_BY[found]


def test_every_declaration_keeps_the_values_that_it_is_for() -> None:
    for samples in SAMPLES:
        stored = stored_type(samples.value_type_text)
        assert affinity(stored.declaration, is_strict=False) in stored.keeping, samples.type_text


def test_types_with_number_like_text_avoid_numeric_affinity() -> None:
    for type_text in ("numeric(10,2)", "numeric", "money", "text", "character(7)", "json", "jsonb", "oid", "tid"):
        assert Affinity.NUMERIC not in stored_type(type_text).keeping


@pytest.mark.parametrize("number", ["0", "-1", "9223372036854775807", "-9223372036854775808"])
def test_integers_are_whole(number: str) -> None:
    assert stored_type("bigint").convert(number.encode()) == int(number)


def test_nan_stays_text_because_sqlite_would_store_null() -> None:
    convert = stored_type("double precision").convert

    assert convert(b"NaN") == "NaN"
    assert convert(b"-Infinity") == -math.inf
    assert convert(b"0.30000000000000004") == 0.30000000000000004


@pytest.mark.parametrize(
    ("declared", "held"),
    [
        ("INTEGER", "bigint"),
        ("unsigned big int", "bigint"),
        ("tinyint(1)", "bigint"),
        ("FLOATING POINT", "bigint"),  # SQLite finds INT in it
        ("charint", "bigint"),
        ("NVARCHAR(100)", "string"),
        ("clob", "string"),
        ("BLOB", "binary"),
        ("double precision", "double"),
        ("FLOAT", "double"),
        ("", "string"),
        ("uuid", "string"),
        ("timestamp with time zone", "string"),
        ("Boolean", "boolean"),
        ("DATE", "date"),
        ("datetime(6)", "timestamp_ntz"),
        ("timestamp (3) without time zone", "timestamp_ntz"),
        ("DECIMAL(10,5)", "decimal(10,5)"),
        ("numeric ( 38 )", "decimal(38,0)"),
        ("numeric(39, 2)", "double"),
        ("decimal(2, 5)", "double"),
        ("decimal(0)", "double"),
        ("numeric", "double"),
    ],
)
def test_lake_type_follows_the_declared_type_then_its_affinity(declared: str, held: str) -> None:
    assert lake_type(declared).name == held


def test_a_text_that_is_not_utf_8_is_written_as_its_bytes() -> None:
    assert text_of(decode_text(b"a\xff")) == "cast(X'61ff' as text)"
    assert text_of(decode_text("a'ü".encode())) == "'a''ü'"


@pytest.mark.parametrize("type_text", ["numeric", "numeric(10,2)", "double precision", "real"])
@pytest.mark.parametrize(
    ("text", "stored"),
    [("Inf", math.inf), ("+inf", math.inf), ("Infinity", math.inf), ("-Inf", -math.inf), ("-infinity", -math.inf)],
)
def test_every_word_for_infinity_is_a_number(type_text: str, text: str, stored: float) -> None:
    assert from_text(text, type_text) == stored
    assert to_text(stored, type_text) == ("Infinity" if stored > 0 else "-Infinity")


@pytest.mark.parametrize("type_text", ["numeric", "double precision"])
def test_a_program_may_store_a_word_as_text(type_text: str) -> None:
    assert (from_text("nan", type_text), to_text("NaN", type_text)) == ("NaN", "NaN")
    for word in ("inf", "nan"):
        sent = to_text(word, type_text)
        assert sent == f"\0'{word}'"
        assert from_text(sent, type_text) == word
