"""Bits of masks in Arrow columns. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from rowtide.core.mask import mask_length

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
