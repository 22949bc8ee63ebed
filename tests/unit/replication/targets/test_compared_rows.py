"""What of rows is added up when copies are compared."""

from __future__ import annotations

from builders.capture.capture_instances import source_table
from builders.replication.articles import article
from rowtide.replication.targets.compared_rows import Row, hash_row


def test_rows_differing_in_value_boundaries_hash_differently() -> None:
    columns = article(source_table((("a", "text"), ("b", "text")), key=("a",))).columns
    rows: list[Row] = [(b"ab", b"c"), (b"a", b"bc"), (b"abc", None), (None, b"abc"), (b"", b"abc")]

    assert len({hash_row(columns, row) for row in rows}) == len(rows)
    assert -(1 << 63) <= hash_row(columns, (b"1", None)) < 1 << 63


def test_numbers_with_what_only_a_file_may_hold_differ() -> None:
    columns = article(source_table((("a", "integer"), ("b", "integer")), key=("a",))).columns
    rows: list[Row] = [(b"1", b"2"), (b"12", None), (None, b"12"), (b"1,2", None), (b"-", b"2"), (b"", b"2")]

    assert len({hash_row(columns, row) for row in rows}) == len(rows)
