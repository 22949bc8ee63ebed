"""The bitmap is the documents': column 1 the lowest bit of the first byte, one byte to spare at multiples of eight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rowtide.replication.distribution.calls.bitmaps import bitmap_length, bitmap_texts, pack_bitmaps

MATRICES = arrays.arrays(np.bool_, st.tuples(st.integers(0, 20), st.integers(1, 70)))


def rows_of(columns: int, *changed: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return a row for each list of changed columns, which count from 1."""
    return np.array([[column in row for column in range(1, columns + 1)] for row in changed], dtype=np.bool_)


def columns_in(bitmap: bytes) -> list[int]:
    """Return the changed columns, as a procedure of SQL Server reads them."""
    return [column for column in range(1, 8 * len(bitmap) + 1) if bitmap[(column - 1) // 8] & 2 ** ((column - 1) % 8)]


@pytest.mark.parametrize(("table", "columns"), [("Purchasing.Vendor", 8), ("authors", 9)])
def test_the_published_examples_have_two_bytes(table: str, columns: int) -> None:
    assert bitmap_length(columns) == 2
    assert pack_bitmaps(rows_of(columns, [1], [columns])).shape == (2, 2)


@pytest.mark.parametrize(("columns", "length"), [(1, 1), (7, 1), (8, 2), (9, 2), (15, 2), (16, 3), (1024, 129)])
def test_a_bitmap_has_a_byte_more_than_columns_by_eight(columns: int, length: int) -> None:
    assert bitmap_length(columns) == length
    assert pack_bitmaps(rows_of(columns, [])).shape == (1, length)


@pytest.mark.parametrize(
    ("columns", "changed", "bitmap"),
    [
        (1, [1], "01"),
        (8, [], "0000"),
        (8, [1], "0100"),
        (8, [2], "0200"),
        (8, [8], "8000"),
        (8, range(1, 9), "ff00"),
        (9, [9], "0001"),
        (9, [1, 3, 9], "0501"),
        (9, range(1, 10), "ff01"),
        (1024, [1024], "00" * 127 + "80" + "00"),
        (1600, [1, 1593, 1600], "01" + "00" * 198 + "81" + "00"),
    ],
)
def test_each_column_is_its_bit_the_least_significant_first(columns: int, changed: Sequence[int], bitmap: str) -> None:
    assert pack_bitmaps(rows_of(columns, changed)).tobytes().hex() == bitmap


@given(MATRICES)
def test_unpacking_gives_the_changed_columns_back(changed: npt.NDArray[np.bool_]) -> None:
    packed = pack_bitmaps(changed)
    assert packed.shape == (changed.shape[0], changed.shape[1] // 8 + 1)
    assert [columns_in(bitmap.tobytes()) for bitmap in packed] == [
        [column + 1 for column in np.flatnonzero(row)] for row in changed
    ]


@given(MATRICES.filter(lambda changed: len(changed) > 0))
def test_a_text_is_the_rows_bitmap_in_hexadecimal(changed: npt.NDArray[np.bool_]) -> None:
    assert bitmap_texts(changed) == [b"\\x" + bitmap.tobytes().hex().encode() for bitmap in pack_bitmaps(changed)]


def test_bitmap_texts_are_bytea_input_in_row_order() -> None:
    changed = rows_of(9, [9], [1], [9], [])
    assert bitmap_texts(changed) == [b"\\x0001", b"\\x0100", b"\\x0001", b"\\x0000"]


def test_no_rows_have_no_texts() -> None:
    assert bitmap_texts(np.empty((0, 9), dtype=np.bool_)) == []
