"""`__$exact` by column: the texts of values that a column's type in the lake cannot hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EXACT = "__$exact"
kernels: Any = pc


@dataclass(frozen=True, slots=True)
class ExactTexts:
    """The texts of a column's values, and which rows have one."""

    is_there: Any
    texts: Any

    def put_into(self, values: Any) -> Any:
        """Return texts of the column with the exact ones in their places."""
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
