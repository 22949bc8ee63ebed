"""Typed values as readers' texts, in Arrow: exact, floating point numbers in the shortest form. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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
