"""Columns of readers, in Arrow: bits of masks, and typed values as texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.cdc.change_columns import mask_length
from rowtide.core.values import frozen
from rowtide.databases.lake_values import texts as source_texts

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
        return self._find(self._bit_indexes(keys))

    def add(self, keys: npt.NDArray[Any]) -> None:
        """Add keys of the range."""
        self._add(np.unique(self._bit_indexes(keys)))

    def take_new(self, keys: npt.NDArray[Any]) -> Flags:
        """Add keys of the range; return which are the last ones of each that was not in the set."""
        # Sorted as one number each, which is faster than a sort that returns positions.
        packed = np.sort(self._bit_indexes(keys) << _POSITION_BITS | np.arange(len(keys)))
        indexes = packed >> _POSITION_BITS
        is_last = np.append(indexes[1:] != indexes[:-1], np.ones(min(len(keys), 1), np.bool_))
        packed, indexes = packed[is_last], indexes[is_last]
        is_new = ~self._find(indexes)
        self._add(indexes[is_new])
        taken = np.zeros(len(keys), np.bool_)
        taken[packed[is_new] & _POSITION] = True
        return taken

    def _bit_indexes(self, keys: npt.NDArray[Any]) -> Numbers:
        """Return the keys' bits. Without sign, what is below the range is above it."""
        offsets = (keys.astype(np.int64, copy=False) - self._least).view(np.uint64)
        return np.minimum(offsets, np.uint64(self._size)).view(np.int64)

    def _find(self, indexes: Numbers) -> Flags:
        found: Flags = (self._bits[indexes >> 3] >> (indexes & 7).astype(np.uint8) & 1).view(np.bool_)
        return found

    def _add(self, indexes: Numbers) -> None:
        """Set bits, which ascend."""
        if not len(indexes):
            return
        owners = indexes >> 3
        begins = np.flatnonzero(np.append(True, owners[1:] != owners[:-1]))
        bits = np.uint8(1) << (indexes & 7).astype(np.uint8)
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


Values = Any
Texts = Any

_PLAIN_FLOATS = (1e-4, 1e14)
"""Absolute values of numbers that Arrow prints without exponent, as Python does."""
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def as_texts(values: Values) -> Texts:
    """Return the texts of an array of a lake type; null stays null.

    Binary values are hexadecimal, flags `true` and `false`, times with time zone in UTC.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        return _floats(values.cast(pa.float64()))
    if pa.types.is_binary(kind):
        return source_texts.hexadecimal(values)
    return source_texts.as_texts(values)


def _floats(values: Values) -> Texts:
    sizes = kernels.abs(values)
    is_plain = kernels.or_(
        kernels.and_(kernels.greater_equal(sizes, _PLAIN_FLOATS[0]), kernels.less(sizes, _PLAIN_FLOATS[1])),
        kernels.equal(values, 0.0),
    )
    texts = values.cast(pa.string())
    is_whole = kernels.invert(kernels.match_substring(texts, "."))
    texts = kernels.if_else(is_whole, kernels.binary_join_element_wise(texts, ".0", ""), texts)
    return source_texts.replaced(texts, kernels.invert(is_plain), values, _float_text)


def _float_text(value: float) -> str:
    text = repr(value)
    return _NOT_FINITE.get(text, text)


EXACT = "__$exact"


@frozen
class ExactTexts:
    """The texts of a column's values, and which rows have one."""

    is_there: Any
    texts: Any

    def put_into(self, values: Any) -> Any:
        """Return texts of the column with the exact ones in place of nulls."""
        return kernels.replace_with_mask(values, self.is_there, self.texts)


def read_exact_texts(maps: Any) -> dict[int, ExactTexts]:
    """Return the exact texts of rows by ordinal."""
    if maps.null_count == len(maps):
        return {}
    offsets = maps.offsets.to_numpy()
    begin, end = int(offsets[0]), int(offsets[-1])
    ordinals, texts = maps.keys.slice(begin, end - begin).to_numpy(), maps.items.slice(begin, end - begin)
    rows = np.repeat(np.arange(len(maps)), np.diff(offsets))
    found = {}
    for ordinal in np.unique(ordinals).tolist():
        is_of = ordinals == ordinal
        is_there = np.zeros(len(maps), np.bool_)
        is_there[rows[is_of]] = True
        found[ordinal] = ExactTexts(pa.array(is_there), texts.filter(pa.array(is_of)))
    return found
