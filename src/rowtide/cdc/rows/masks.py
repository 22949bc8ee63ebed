"""Change tables' masks as Arrow binary: a row of bytes for each row, ordinal 1 the lowest bit of the last."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.mask import full_mask, mask_length

Masks = npt.NDArray[np.uint8]


def empty_masks(rows: int, columns: int) -> Masks:
    """Return masks without a bit."""
    return np.zeros((rows, mask_length(columns)), np.uint8)


def full_masks(rows: int, columns: int) -> Masks:
    """Return masks with every column's bit."""
    return np.tile(np.frombuffer(full_mask(columns), np.uint8), (rows, 1))


def set_bits(masks: Masks, ordinal: int, is_set: npt.NDArray[np.bool_]) -> None:
    """Set the bit of an ordinal in the masks of the rows that have it set."""
    masks[:, -1 - (ordinal - 1) // 8] |= is_set.astype(np.uint8) << (ordinal - 1) % 8


def as_binary(masks: Masks, is_null: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    """Return masks as an Arrow array, null for some rows."""
    rows, length = masks.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(length)
    valid = pa.py_buffer(np.packbits(~is_null, bitorder="little").data) if is_null.any() else None
    buffers = [valid, pa.py_buffer(offsets.data), pa.py_buffer(np.ascontiguousarray(masks).data)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)
