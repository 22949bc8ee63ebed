"""Columns of change tables made of others, in Arrow: masks, and `__$exact`, the texts of values that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.core.mask import full_mask, mask_length
from rowtide.databases.lake_values.casting import Column, Texts, kernels

EXACT = pa.map_(pa.int32(), pa.string())


@dataclass(slots=True)
class ExactValues:
    """Collects the misfits of a number of rows, column by column in the order of ordinals."""

    rows: int
    _found: list[tuple[npt.NDArray[np.int64], int, Texts]] = field(default_factory=list)

    def add(self, ordinal: int, texts: Texts, typed: Column) -> None:
        """Add the texts of a column whose typed values are null."""
        if typed.null_count == texts.null_count:
            return
        is_misfit = kernels.and_(texts.is_valid(), typed.is_null())
        rows = np.flatnonzero(is_misfit.to_numpy(zero_copy_only=False))
        self._found.append((rows, ordinal, texts.filter(is_misfit)))

    def as_maps(self) -> Column:
        """Return a map for each row, null if everything fits."""
        if not self._found:
            return pa.nulls(self.rows, EXACT)
        rows = np.concatenate([rows for rows, _, _ in self._found])
        ordinals = np.repeat([ordinal for _, ordinal, _ in self._found], [len(rows) for rows, _, _ in self._found])
        texts = pa.concat_arrays([texts for _, _, texts in self._found])
        by_row = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=self.rows)
        offsets: Column = pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))
        keys: Column = pa.array(ordinals[by_row].astype(np.int32))
        maps: Any = pa.MapArray
        return maps.from_arrays(offsets, keys, texts.take(by_row), EXACT, mask=pa.array(counts == 0))


def texts_by_ordinal(maps: Column) -> dict[int, Texts]:
    """Return the texts that maps have, by ordinal, each with a place for every map; null where a map has none."""
    if maps.null_count == len(maps):
        return {}
    whole = maps.take(pa.array(range(len(maps)))) if maps.offset else maps
    offsets = whole.offsets.to_numpy()
    lengths = np.where(whole.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    entries = np.flatnonzero(np.repeat(lengths > 0, np.diff(offsets))) + offsets[0]
    rows = np.repeat(np.arange(len(whole)), lengths)
    keys, items = whole.keys.to_numpy()[entries], whole.items.take(pa.array(entries))
    return {int(ordinal): _spread(items, rows, keys == ordinal, len(whole)) for ordinal in np.unique(keys)}


def _spread(items: Texts, rows: npt.NDArray[np.int64], wanted: npt.NDArray[np.bool_], size: int) -> Texts:
    places = np.full(size, -1)
    places[rows[wanted]] = np.flatnonzero(wanted)
    return items.take(pa.array(places, mask=places < 0))


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
