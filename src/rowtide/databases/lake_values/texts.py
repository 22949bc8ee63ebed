"""Values of lake types as texts, in the form in which PostgreSQL prints them. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.databases.lake_values.casting import Column, Texts, bytes_of, kernels, where

_HEX_PREFIX = "\\x"
_FRACTION_ENDS = r"\.?0+$"
_DIGITS: dict[pa.DataType, int] = {pa.float32(): 6, pa.float64(): 15}
"""From so many digits before the point on PostgreSQL prints exponents."""
_LEAST_PLAIN_EXPONENT = -4
_DAY_US = 86_400_000_000
_EPOCH = "1970-01-01"
_DAYS_BEFORE_1970 = date(1970, 1, 1).toordinal() - 1
_DAYS_IN_400_YEARS = 146_097
_PRINTED_DAYS = 10_000_000
"""More than 27,000 years."""
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def as_texts(values: Column) -> Texts:
    """Return the texts of values; null where a value is null, or is none that has a text."""
    kind: Any = values.type
    if pa.types.is_decimal(kind):
        return plain_numbers(values.cast(pa.string()))
    if pa.types.is_floating(kind):
        return _floats(values)
    if pa.types.is_timestamp(kind):
        texts = _timestamps(values)
        return texts if kind.tz is None else kernels.binary_join_element_wise(texts, "+00", "")
    if pa.types.is_date(kind):
        return _dates(values.cast(pa.int32()).cast(pa.int64()))
    if pa.types.is_binary(kind):
        return _binary(values)
    return values.cast(pa.string())


def plain_numbers(texts: Texts) -> Texts:
    """Return numbers without exponents; each different one that has an exponent costs Python's time once."""
    has_exponent = kernels.match_substring_regex(texts, r"\d[eE]")
    return _each(texts, has_exponent, lambda text: format(Decimal(text), "f"))


def _floats(values: Column) -> Texts:
    """Arrow prints the shortest digits too, but begins to use exponents elsewhere."""
    texts = values.cast(pa.string())
    size = kernels.abs(values)
    digits = _DIGITS[values.type]
    is_plain = kernels.or_(
        kernels.equal(size, 0), kernels.and_(kernels.greater_equal(size, 1e-4), kernels.less(size, 10.0**digits))
    )
    is_odd = kernels.or_(kernels.invert(is_plain), kernels.match_substring(texts, "e"))
    return _each(texts, is_odd, lambda text: _NOT_FINITE.get(text) or _print_float(Decimal(text), digits))


def _print_float(number: Decimal, digits: int) -> str:
    exponent = number.adjusted()
    if _LEAST_PLAIN_EXPONENT <= exponent < digits:
        return format(number, "f")
    mantissa = format(number.scaleb(-exponent).normalize(), "f")
    return f"{mantissa}e{exponent:+03d}"


def _each(texts: Texts, wanted: Column, change: Callable[[str], str]) -> Texts:
    """Change some of the texts, each different one once."""
    if not kernels.any(wanted).as_py():
        return texts
    found = kernels.dictionary_encode(where(wanted, texts))
    changed = pa.array([change(text) for text in found.dictionary.to_pylist()], pa.string())
    return kernels.coalesce(changed.take(found.indices), texts)


def _timestamps(values: Column) -> Texts:
    """The day, and the time of day of the first day that there is; nulls stay null."""
    micros = values.cast(pa.int64())
    days = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), _DAY_US)
    of_day = kernels.subtract(micros, pa.array(days * _DAY_US))
    times = kernels.utf8_slice_codeunits(of_day.cast(pa.timestamp("us")).cast(pa.string()), len(_EPOCH))
    whole = kernels.binary_join_element_wise(_dates(pa.array(days)), times, "")
    return kernels.replace_substring_regex(whole, _FRACTION_ENDS, "")


def _dates(days: Column) -> Texts:
    """Arrow prints the days of sixteen-bit years only; others are printed one by one."""
    is_far = kernels.greater(kernels.abs(days), _PRINTED_DAYS)
    texts = where(kernels.invert(is_far), days).cast(pa.int32()).cast(pa.date32()).cast(pa.string())
    far = where(is_far, days).cast(pa.string())
    return kernels.coalesce(texts, _each(far, far.is_valid(), lambda text: _print_day(int(text))))


def _print_day(days: int) -> str:
    """The calendar repeats every four hundred years."""
    cycles, rest = divmod(days + _DAYS_BEFORE_1970, _DAYS_IN_400_YEARS)
    day = date.fromordinal(rest + 1)
    return f"{day.year + 400 * cycles:04d}-{day:%m-%d}"


def _binary(values: Column) -> Texts:
    offsets, data = bytes_of(values)
    digits = binascii.hexlify(data[offsets[0] : offsets[-1]].tobytes())
    ends = (2 * (offsets - offsets[0])).astype(np.int32)
    valid = kernels.is_valid(values).buffers()[1] if values.null_count else None
    buffers = [valid, pa.py_buffer(ends.tobytes()), pa.py_buffer(digits)]
    return kernels.binary_join_element_wise(
        _HEX_PREFIX, pa.Array.from_buffers(pa.string(), len(values), buffers, values.null_count), ""
    )
