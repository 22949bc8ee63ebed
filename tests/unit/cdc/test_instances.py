from __future__ import annotations

import pytest

from rowtide.cdc.change_columns import full_mask, is_bit_set, mask_length, pack_mask


@pytest.mark.parametrize(("columns", "length"), [(0, 0), (1, 1), (8, 1), (9, 2), (16, 2), (17, 3), (1024, 128)])
def test_a_mask_has_a_byte_for_every_eight_columns(columns: int, length: int) -> None:
    assert mask_length(columns) == length
    assert len(full_mask(columns)) == length


@pytest.mark.parametrize(
    ("ordinals", "columns", "mask"),
    [
        ([], 3, "00"),
        ([1], 1, "01"),
        ([1], 5, "01"),
        ([3], 5, "04"),
        ([2, 4], 5, "0A"),
        ([1, 2, 3, 4, 5], 5, "1F"),
        ([8], 8, "80"),
        (range(1, 9), 8, "FF"),
        ([], 9, "0000"),
        ([1], 9, "0001"),
        ([9], 9, "0100"),
        (range(1, 10), 9, "01FF"),
        ([16, 1], 16, "8001"),
        ([17], 17, "010000"),
    ],
)
def test_ordinals_fill_the_mask_from_the_last_bytes_lowest_bit(ordinals: list[int], columns: int, mask: str) -> None:
    packed = pack_mask(ordinals, columns)

    assert packed == bytes.fromhex(mask)
    assert [ordinal for ordinal in range(1, columns + 1) if is_bit_set(ordinal, packed)] == sorted(ordinals)


@pytest.mark.parametrize(("columns", "mask"), [(1, "01"), (7, "7F"), (8, "FF"), (9, "01FF"), (17, "01FFFF")])
def test_full_mask_has_a_bit_per_captured_column_and_none_above(columns: int, mask: str) -> None:
    assert full_mask(columns) == bytes.fromhex(mask)


@pytest.mark.parametrize("position", [9, 16, 17, 1000])
def test_a_position_beyond_the_mask_has_not_changed(position: int) -> None:
    assert not is_bit_set(position, b"\xff")


def test_in_an_empty_mask_nothing_has_changed() -> None:
    assert not is_bit_set(1, b"")
