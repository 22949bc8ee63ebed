"""Values of lake types as texts, in the form in which PostgreSQL prints them. Pure."""

from __future__ import annotations

import binascii
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.databases.lake_values.casting import Column, Texts, bytes_of, kernels

_HEX_PREFIX = "\\x"
_FRACTION_ENDS = r"\.?0+$"
_ONE_DIGIT_EXPONENT = r"e([+-])(\d)$"
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def as_texts(values: Column) -> Texts:
    """Return the texts of values; null where a value is null, or is none that has a text."""
    kind: Any = values.type
    if pa.types.is_decimal(kind):
        return plain_numbers(values.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _floats(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        texts = _timestamps(values.cast(pa.int64()).cast(pa.timestamp("us")))
        return texts if kind.tz is None else kernels.binary_join_element_wise(texts, "+00", "")
    if pa.types.is_binary(kind):
        return _binary(values)
    return values.cast(pa.string())


def plain_numbers(texts: Texts) -> Texts:
    """Return numbers without exponents; each different one that has an exponent costs Python's time once."""
    has_exponent = kernels.match_substring_regex(texts, r"\d[eE]")
    if not kernels.any(has_exponent).as_py():
        return texts
    found = kernels.dictionary_encode(kernels.if_else(has_exponent, texts, pa.scalar(None, pa.string())))
    plain = pa.array([format(Decimal(text), "f") for text in found.dictionary.to_pylist()], pa.string())
    return kernels.coalesce(plain.take(found.indices), texts)


def _floats(texts: Texts) -> Texts:
    texts = kernels.replace_substring_regex(texts, _ONE_DIGIT_EXPONENT, r"e\10\2")
    for printed, said in _NOT_FINITE.items():
        texts = kernels.if_else(kernels.equal(texts, printed), said, texts)
    return texts


def _timestamps(values: Column) -> Texts:
    return kernels.replace_substring_regex(values.cast(pa.string()), _FRACTION_ENDS, "")


def _binary(values: Column) -> Texts:
    offsets, data = bytes_of(values)
    digits = binascii.hexlify(data[offsets[0] : offsets[-1]].tobytes())
    ends = (2 * (offsets - offsets[0])).astype(np.int32)
    valid = kernels.is_valid(values).buffers()[1] if values.null_count else None
    buffers = [valid, pa.py_buffer(ends.tobytes()), pa.py_buffer(digits)]
    return kernels.binary_join_element_wise(
        _HEX_PREFIX, pa.Array.from_buffers(pa.string(), len(values), buffers, values.null_count), ""
    )
