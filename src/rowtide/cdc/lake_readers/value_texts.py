"""Typed values as readers' texts, in Arrow, and the texts of `__$exact`, for what a column cannot hold. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.core.values import frozen
from rowtide.databases.lake_values import texts as source_texts

kernels: Any = pc
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
