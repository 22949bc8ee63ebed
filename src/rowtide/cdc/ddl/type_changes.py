"""Conversions of values between lake types. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.databases.lake_types import LakeType, parse_decimal
from rowtide.databases.lake_values.arrow_types import arrow_type
from rowtide.databases.lake_values.casting import Cast, Column, Texts, kernels, where
from rowtide.databases.lake_values.numbers import decimals, whole_numbers
from rowtide.databases.lake_values.texts import as_texts, plain_numbers
from rowtide.databases.postgres.types.typed_values import typed_values

_NUMBERS = ("boolean", "smallint", "int", "bigint", "float", "double")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_TRUE, _FALSE = pa.array(["t", "true", "y", "yes", "1"]), pa.array(["f", "false", "n", "no", "0"])
_BLANKS = "".join(map(chr, range(0x21)))
_DAY_US = 86_400_000_000
_MOST_DAYS = np.iinfo(np.int64).max // _DAY_US


def convert(values: Column, old: str, new: LakeType) -> Column:
    """Return values of one type in another, null where one does not fit."""
    if _is_kin(old, new.name):
        return _convert_kin(values, old, new.name)
    texts = as_texts(values)
    return texts if new.is_text else _FROM_TEXT.get(new.name, lambda texts: typed_values(texts, new))(texts)


def is_misfit(values: Column, old: str, new: LakeType) -> Column:
    """Return which values change in another type; of a text only whether it cannot be read."""
    converted = convert(values, old, new)
    if not _is_kin(old, new.name):
        return kernels.and_(values.is_valid(), converted.is_null())
    back = _convert_kin(converted, new.name, old)
    is_same = kernels.equal(values, back).fill_null(fill_value=False)
    if pa.types.is_floating(values.type):
        are_no_numbers = kernels.and_(kernels.is_nan(values), kernels.is_nan(back))
        is_same = kernels.or_(is_same, are_no_numbers.fill_null(fill_value=False))
    return kernels.and_(values.is_valid(), kernels.invert(is_same))


def _convert_kin(values: Column, old: str, new: str) -> Column:
    return _convert_times(values, new) if old in _TIMES else _convert_numbers(values, new)


def _convert_times(values: Column, new: str) -> Column:
    """Without zone as in UTC."""
    to = arrow_type(new)
    if pa.types.is_timestamp(to) and pa.types.is_timestamp(values.type):
        return values.cast(pa.int64()).cast(to)
    if pa.types.is_timestamp(to):
        days = values.cast(pa.int32()).cast(pa.int64())
        days = where(kernels.less_equal(kernels.abs(days), _MOST_DAYS), days)
        return kernels.multiply(days, _DAY_US).cast(to)
    if pa.types.is_timestamp(values.type):
        micros = values.cast(pa.int64())
        days = np.floor_divide(micros.fill_null(0).to_numpy(zero_copy_only=False), _DAY_US).astype(np.int32)
        return pa.array(days, mask=micros.is_null().to_numpy(zero_copy_only=False)).cast(to)
    return values


def _convert_numbers(values: Column, new: str) -> Column:
    """Fractions are cut off for whole numbers, and rounded half up for decimals."""
    kind: Any = values.type
    to: Any = arrow_type(new)
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif kind == pa.float32() and not pa.types.is_float32(to):
        values = values.cast(pa.float64())
    if pa.types.is_floating(to) and not pa.types.is_decimal(kind):
        return values.cast(to, safe=False)
    if pa.types.is_integer(to) and pa.types.is_floating(values.type):
        return _whole(values, to)
    texts = values.cast(pa.string())
    if pa.types.is_floating(to):
        return texts.cast(to)
    if pa.types.is_boolean(to):
        return kernels.match_substring_regex(texts, r"^[^eE]*[1-9nN]")
    plain = plain_numbers(values)
    if isinstance(to, pa.Decimal128Type):
        return decimals(plain, to)
    return whole_numbers(kernels.replace_substring_regex(plain, r"\.\d*$", ""), to)


def _whole(values: Column, to: Any) -> Column:
    """Their shortest texts are not what large numbers are exactly."""
    numbers = np.trunc(values.cast(pa.float64()).fill_null(math.nan).to_numpy(zero_copy_only=False))
    bound = 2.0 ** (to.bit_width - 1)
    fits = (numbers >= -bound) & (numbers < bound)
    return pa.array(np.where(fits, numbers, 0).astype(np.int64), mask=~fits).cast(to)


def _flags(texts: Texts) -> Column:
    words = kernels.utf8_lower(kernels.utf8_trim(texts, _BLANKS))
    is_true, is_false = kernels.is_in(words, _TRUE), kernels.is_in(words, _FALSE)
    return where(kernels.or_(is_true, is_false), is_true)


def _bytes(texts: Texts) -> Column:
    return typed_values(where(kernels.starts_with(texts, "\\x"), texts), LakeType("binary", ""))


_FROM_TEXT: Mapping[str, Cast] = {"boolean": _flags, "binary": _bytes}


def _is_kin(old: str, new: str) -> bool:
    return {old, new} <= set(_TIMES) or (_is_number(old) and _is_number(new))


def _is_number(name: str) -> bool:
    return name in _NUMBERS or parse_decimal(name) is not None
