"""What a SQLite column's declaration says of the lake type that holds its values."""

from __future__ import annotations

import pytest

from rowtide.databases.sqlite.values import decode_text, lake_type, text_of


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
