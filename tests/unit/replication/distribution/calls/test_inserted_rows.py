"""Rows in COPY's text format: every value comes back, nulls apart from texts, whatever part of a batch it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowtide.replication.distribution.calls.encoding import filtered
from rowtide.replication.distribution.calls.inserted_rows import InsertedRows

Row = tuple[str | None, str | None, str | None]

TEXTS = st.none() | st.text(st.sampled_from("a\\\t\n\r\bN.\u00e4\U0001f600,"), max_size=5)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=20)
_READ = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def inserted(rows: Sequence[Row], places: Sequence[int] = (0, 1, 2)) -> InsertedRows:
    images = pa.chunked_array([pa.array([list(row) for row in rows], pa.list_(pa.string()))])
    return InsertedRows.of(images, places)


def read_copy(data: bytes) -> list[list[str | None]]:
    """Read COPY's text format as its documentation says."""
    lines = data.decode().split("\n")
    assert lines.pop() == ""
    return [[_read(value) for value in line.split("\t")] for line in lines]


def _read(value: str) -> str | None:
    if value == "\\N":
        return None
    pieces = value.split("\\")
    read, place = pieces[0], 1
    while place < len(pieces):
        piece = pieces[place]
        if piece:
            read += _READ[piece[0]] + piece[1:]
            place += 1
        else:
            read += "\\" + (pieces[place + 1] if place + 1 < len(pieces) else "")
            place += 2
    return read


@given(ROWS)
def test_copy_text_has_every_value(rows: list[Row]) -> None:
    assert read_copy(inserted(rows).as_copy_text()) == [list(row) for row in rows]


@given(ROWS, st.integers(0, 19), st.integers(1, 20))
def test_a_part_has_its_own_rows(rows: list[Row], start: int, count: int) -> None:
    part = inserted(rows).between(min(start, len(rows) - 1), min(start + count, len(rows)))
    wanted = [list(row) for row in rows][min(start, len(rows) - 1) : start + count]

    assert read_copy(part.as_copy_text()) == wanted
    assert list(part) == [[None if text is None else text.encode() for text in row] for row in wanted]


@given(ROWS)
def test_columns_are_taken_in_the_articles_order(rows: list[Row]) -> None:
    assert read_copy(inserted(rows, (2, 0)).as_copy_text()) == [[row[2], row[0]] for row in rows]


@pytest.mark.parametrize("chosen", [[False, True, True, False], [True, False, False, True], [False] * 4])
def test_rows_that_follow_each_other_are_taken_without_copying(chosen: list[bool]) -> None:
    rows = [["1", "a"], ["2", "b"], ["3", None], ["4", "d"]]
    images: Any = pa.chunked_array([pa.array(rows, pa.list_(pa.string()))])
    lines = ["1\ta\n", "2\tb\n", "3\t\\N\n", "4\td\n"]
    records = pa.table({"after": images})
    found: Any = filtered(records, np.array(chosen))["after"]

    assert found.to_pylist() == [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]
    if any(chosen):
        expected = "".join(line for line, is_chosen in zip(lines, chosen, strict=True) if is_chosen)
        assert InsertedRows.of(found, [0, 1]).as_copy_text() == expected.encode()
    if chosen[1]:
        assert found.chunk(0).buffers()[1].address == images.chunk(0).buffers()[1].address
