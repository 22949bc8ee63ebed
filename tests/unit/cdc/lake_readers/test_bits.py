"""Sets of whole numbers as bits, beside Python's sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rowtide.cdc.lake_readers.bits import KeyBits

LEAST, MOST = -(1 << 63), (1 << 63) - 1
BATCHES = st.lists(st.lists(st.integers(0, 40), max_size=30), max_size=6)


@given(BATCHES, st.sampled_from([LEAST, -20, 0, 7, MOST - 40]))
def test_last_of_each_new_key_is_taken(batches: list[list[int]], least: int) -> None:
    bits, seen = KeyBits(least, least + 40), set[int]()
    for batch in batches:
        keys = [key + least for key in batch]
        last = {key: position for position, key in enumerate(keys) if key not in seen}
        taken = bits.take_new(np.array(keys, np.int64))
        assert np.flatnonzero(taken).tolist() == sorted(last.values())
        seen |= set(keys)
        asked = np.array([*range(least, least + 41), LEAST, MOST, 0], np.int64)
        assert bits.find_known(asked).tolist() == [key in seen for key in asked.tolist()]
    assert bits.is_empty == (not seen)
    assert bits.new().is_empty


@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64])
def test_keys_of_any_width_are_found(kind: type[np.signedinteger]) -> None:
    bits = KeyBits(-3, 5)
    bits.add(np.array([5, -3, 5], kind))
    assert bits.find_known(np.array([-4, -3, 0, 5, 6], kind)).tolist() == [False, True, False, True, False]


def test_empty_range_has_no_keys() -> None:
    bits = KeyBits()
    assert not bits.has_room
    assert not bits.find_known(np.array([0, -1, LEAST, MOST])).any()
