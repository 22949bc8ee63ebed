"""Bits in Arrow columns: those of masks, and sets of whole numbers in a range, a bit each. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from rowtide.core.mask import mask_length

MOST_KEYS = 1 << 29
"""The number of keys of a range that takes 64 MB."""

_POSITION_BITS = 31
_POSITION = (1 << _POSITION_BITS) - 1

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class KeyBits:
    """Keys in [least, most], at most `MOST_KEYS`; of an empty range none can be added."""

    def __init__(self, least: int = 0, most: int = -1) -> None:
        self._least = least
        self._size = most - least + 1
        # One bit more: that of the keys outside the range, which is never set.
        self._bits = np.zeros(self._size // 8 + 1, np.uint8)

    @property
    def has_room(self) -> bool:
        """A key may be added."""
        return self._size > 0

    @property
    def is_empty(self) -> bool:
        """No key is in the set."""
        return not self._bits.any()

    def new(self) -> KeyBits:
        """Return an empty set of the same range."""
        return KeyBits(self._least, self._least + self._size - 1)

    def find_known(self, keys: npt.NDArray[Any]) -> Flags:
        """Return which keys are in the set."""
        return self._find(self._places(keys))

    def add(self, keys: npt.NDArray[Any]) -> None:
        """Add keys of the range."""
        self._add(np.unique(self._places(keys)))

    def take_new(self, keys: npt.NDArray[Any]) -> Flags:
        """Add keys of the range; return which are the last ones of each that was not in the set."""
        # Sorted as one number each, which is faster than a sort that returns positions.
        packed = np.sort(self._places(keys) << _POSITION_BITS | np.arange(len(keys)))
        places = packed >> _POSITION_BITS
        is_last = np.append(places[1:] != places[:-1], np.ones(min(len(keys), 1), np.bool_))
        packed, places = packed[is_last], places[is_last]
        is_new = ~self._find(places)
        self._add(places[is_new])
        taken = np.zeros(len(keys), np.bool_)
        taken[packed[is_new] & _POSITION] = True
        return taken

    def _places(self, keys: npt.NDArray[Any]) -> Numbers:
        """Return the keys' bits. Without sign, what is below the range is above it."""
        offsets = (keys.astype(np.int64, copy=False) - self._least).view(np.uint64)
        return np.minimum(offsets, np.uint64(self._size)).view(np.int64)

    def _find(self, places: Numbers) -> Flags:
        found: Flags = (self._bits[places >> 3] >> (places & 7).astype(np.uint8) & 1).view(np.bool_)
        return found

    def _add(self, places: Numbers) -> None:
        """Set bits, which ascend."""
        if not len(places):
            return
        owners = places >> 3
        begins = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
        bits = np.uint8(1) << (places & 7).astype(np.uint8)
        self._bits[owners[begins]] |= np.bitwise_or.reduceat(bits, begins)


kernels: Any = pc


class Bits:
    """The bits of change tables' masks; a null mask has none."""

    def __init__(self, masks: Any, columns: int) -> None:
        self._packed = pack_rows(masks, mask_length(columns))

    def of(self, ordinal: int) -> npt.NDArray[np.bool_]:
        """Return in which masks an ordinal's bit is set."""
        return (self._packed[:, -1 - (ordinal - 1) // 8] >> (ordinal - 1) % 8 & 1).astype(np.bool_)


def pack_rows(masks: Any, length: int) -> npt.NDArray[np.uint8]:
    """Return masks of a length as rows of bytes."""
    _, offsets, data = (whole := kernels.fill_null(masks, bytes(length))).buffers()
    begin = np.frombuffer(offsets, np.int32)[whole.offset] if len(whole) else 0
    packed = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return packed[begin : begin + len(whole) * length].reshape(len(whole), length)
