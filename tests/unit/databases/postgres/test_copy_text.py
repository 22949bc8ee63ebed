"""COPY's lines become the values that a server would make of them."""

from __future__ import annotations

from rowtide.databases.postgres.copy_text import read_rows
from rowtide.replication.sqlite.fingerprints import row_hash


def test_values_nulls_and_escapes_are_read() -> None:
    block = b"1\ta\\tb\\n\\\\N\t\\N\n2\t\t\\\\\\b\\f\\r\\v\n"

    assert list(read_rows(block)) == [[b"1", b"a\tb\n\\N", None], [b"2", b"", b"\\\b\f\r\v"]]


def test_rows_that_differ_only_in_where_a_value_ends_have_other_hashes() -> None:
    rows: list[list[bytes | None]] = [[b"ab", b"c"], [b"a", b"bc"], [b"abc", None], [None, b"abc"], [b"", b"abc"]]

    assert len({row_hash(row) for row in rows}) == len(rows)
    assert -(1 << 63) <= row_hash([b"1"]) < 1 << 63
