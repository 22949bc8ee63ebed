"""Values of lake types as texts, as PostgreSQL prints them. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.databases.lake_values.casting import Column, Texts, kernels

_HEX_PREFIX = "\\x"
_DIGITS: dict[pa.DataType, int] = {pa.float32(): 6, pa.float64(): 15}
"""Number of digits before the point from which PostgreSQL prints exponents."""
_LEAST_PLAIN_EXPONENT = -4
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_FIRST_DAY, _END_DAY = -719_162, 2_932_897
"""0001-01-01 and 10000-01-01: Arrow has no text of all days and times outside of them."""
_DAYS_OF_400_YEARS = 146_097
_MICROS_PER_DAY = 86_400_000_000
_MIDNIGHT = datetime(1, 1, 1, tzinfo=UTC)


def as_texts(values: Column) -> Texts:
    """Return the texts of an array of a lake type; null stays null. Times with time zone are in UTC."""
    kind = values.type
    if pa.types.is_floating(kind):
        return _floats(values)
    if pa.types.is_decimal(kind):
        return _decimals(values)
    if pa.types.is_binary(kind):
        return kernels.binary_join_element_wise(_HEX_PREFIX, hexadecimal(values), "")
    if pa.types.is_date(kind):
        return _dates(values)
    if pa.types.is_timestamp(kind):
        return _times(values)
    return values.cast(pa.string())


def plain_numbers(values: Column) -> Texts:
    """Return numbers without exponents; what is not finite as Arrow prints it."""
    if pa.types.is_decimal(values.type):
        return _decimals(values)
    texts = values.cast(pa.string())
    has_exponent = kernels.match_substring_regex(texts, r"\d[eE]")
    return replaced(texts, has_exponent, texts, lambda text: format(Decimal(text), "f"))


def _floats(values: Column) -> Texts:
    """Arrow prints the shortest digits too, but begins to use exponents elsewhere."""
    texts = values.cast(pa.string())
    size = kernels.abs(values)
    digits = _DIGITS[values.type]
    is_plain = kernels.or_(
        kernels.equal(size, 0), kernels.and_(kernels.greater_equal(size, 1e-4), kernels.less(size, 10.0**digits))
    )
    is_odd = kernels.or_(kernels.invert(is_plain), kernels.match_substring(texts, "e"))
    return replaced(texts, is_odd, texts, lambda text: _NOT_FINITE.get(text) or _print_float(Decimal(text), digits))


def _print_float(number: Decimal, digits: int) -> str:
    exponent = number.adjusted()
    if _LEAST_PLAIN_EXPONENT <= exponent < digits:
        return format(number, "f")
    mantissa = format(number.scaleb(-exponent).normalize(), "f")
    return f"{mantissa}e{exponent:+03d}"


def _decimals(values: Column) -> Texts:
    """Return plain digits: Arrow's own text of small decimals has an exponent."""
    scale = values.type.scale
    # The same bytes, read as integers.
    buffers = values.buffers()
    unscaled: Any = pa.Array.from_buffers(
        pa.decimal128(38, 0), len(values), buffers, offset=values.offset, null_count=values.null_count
    )
    texts = unscaled.cast(pa.string())
    if scale <= 0:
        return texts
    digits = kernels.utf8_lpad(kernels.utf8_ltrim(texts, "-"), scale + 1, "0")
    sign = kernels.if_else(kernels.starts_with(texts, "-"), "-", "")
    whole = kernels.utf8_slice_codeunits(digits, 0, -scale)
    return kernels.binary_join_element_wise(
        kernels.binary_join_element_wise(sign, whole, ""), kernels.utf8_slice_codeunits(digits, -scale), "."
    )


def hexadecimal(values: Column) -> Texts:
    """Return the hexadecimal digits of binary values."""
    whole = values if values.offset == 0 else pa.concat_arrays([values])
    valid, offsets, data = whole.buffers()
    ends = np.frombuffer(offsets, np.int32)[: len(whole) + 1] * 2
    digits = binascii.hexlify(memoryview(data)[: ends[-1] // 2]) if data is not None else b""
    return pa.Array.from_buffers(pa.string(), len(whole), [valid, pa.py_buffer(ends.data), pa.py_buffer(digits)])


def _dates(values: Column) -> Texts:
    days = values.cast(pa.int32())
    is_far = kernels.or_(kernels.less(days, _FIRST_DAY), kernels.greater_equal(days, _END_DAY))
    return replaced(values.cast(pa.string()), is_far, days, _day_text)


def _day_text(days: int) -> str:
    """Return a day of any year; the calendar repeats after 400 years."""
    cycles, rest = divmod(days - _FIRST_DAY, _DAYS_OF_400_YEARS)
    day = date.fromordinal(rest + 1)
    year = day.year + 400 * cycles
    return f"{'-' if year < 0 else ''}{abs(year):04d}-{day:%m-%d}"


def _times(values: Column) -> Texts:
    micros = values.cast(pa.int64())
    first, end = _FIRST_DAY * _MICROS_PER_DAY, _END_DAY * _MICROS_PER_DAY
    is_far = kernels.or_(kernels.less(micros, first), kernels.greater_equal(micros, end))
    texts = values.cast(pa.timestamp("us")).cast(pa.string())
    texts = replaced(texts, is_far, micros, _time_text)
    # There is a decimal point: no zero of the seconds is cut off.
    texts = kernels.utf8_rtrim(kernels.utf8_rtrim(texts, "0"), ".")
    return texts if values.type.tz is None else kernels.binary_join_element_wise(texts, "+00", "")


def _time_text(micros: int) -> str:
    days, rest = divmod(micros, _MICROS_PER_DAY)
    return f"{_day_text(days)} {_MIDNIGHT + timedelta(microseconds=rest):%H:%M:%S.%f}"


def replaced(texts: Texts, is_odd: Column, values: Column, text_of: Callable[[Any], str]) -> Texts:
    """Return the texts, with those of odd values made one by one."""
    if not kernels.any(is_odd).as_py():
        return texts
    odd = pa.array([text_of(value) for value in values.filter(is_odd).to_pylist()], pa.string())
    return kernels.replace_with_mask(texts, kernels.fill_null(is_odd, False), odd)  # noqa: FBT003 - Arrow's own order
