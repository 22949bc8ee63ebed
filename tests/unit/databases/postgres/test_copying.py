"""COPY's lines become the values that a server would make of them, and values become lines."""

from __future__ import annotations

from hypothesis import given, strategies as st

from rowtide.databases.postgres.copying import read_rows, read_texts, write_row

VALUES = st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def test_values_nulls_and_escapes_are_read() -> None:
    block = b"1\ta\\tb\\n\\\\N\t\\N\n2\t\t\\\\\\b\\f\\r\\v\n"

    assert list(read_rows(block)) == [[b"1", b"a\tb\n\\N", None], [b"2", b"", b"\\\b\f\r\v"]]


def test_what_would_end_a_value_or_a_line_is_escaped() -> None:
    assert write_row(["a\tb", None, "", "\\N", "c\r\nd"]) == "a\\tb\t\\N\t\t\\\\N\tc\\r\\nd"


@given(st.lists(st.lists(VALUES, min_size=1, max_size=4)))
def test_lines_that_were_written_are_read_as_the_same_rows(rows: list[list[str | None]]) -> None:
    block = "".join(f"{write_row(row)}\n" for row in rows).encode()

    assert list(read_texts(block)) == [tuple(row) for row in rows]
    assert list(read_rows(block)) == [[None if value is None else value.encode() for value in row] for row in rows]
