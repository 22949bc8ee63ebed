"""Numbers: whole numbers, decimals, floating point numbers.

Not taken, though `try_cast` takes them, because no server prints them: hexadecimal floating point numbers, Java's type
suffixes, decimals with exponents, digits of other scripts.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rowtide.databases.lake_values.casting import (
    Odd,
    Texts,
    bytes_of,
    cast_in_pieces,
    fields_of,
    require_no_letters,
    where,
)

_BLANK = r"[\x00-\x20]*"
_BLANK_OR_DELETE = r"[\x00-\x20\x7f]*"
_LONGEST_WHOLE_NUMBER = 19
_WHOLE_NUMBER = rf"{_BLANK_OR_DELETE}\+?(?P<sign>-?)0*(?P<digits>\d+){_BLANK_OR_DELETE}"
_DECIMAL = rf"{_BLANK}(?P<sign>[+-]?)0*(?P<whole>\d*)(?P<point>\.?)(?P<fraction>\d*){_BLANK}"
_FLOAT = (
    rf"{_BLANK}(?:\+?(?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    rf"|(?P<infinity>[+-]?(?i:inf|infinity))|(?P<nan>[+-]?NaN|(?i:nan))){_BLANK}"
)
_OPEN = ord("(")


def whole_numbers(texts: Texts, to: pa.DataType) -> pa.Array:
    """Cast texts to integers of a type."""
    return cast_in_pieces(texts, partial(_quick_whole_numbers, to=to), partial(_careful_whole_numbers, to=to))


def _quick_whole_numbers(texts: Texts, to: pa.DataType) -> pa.Array:
    require_no_letters(texts)
    return texts.cast(to)


def _careful_whole_numbers(texts: Texts, to: pa.DataType) -> pa.Array:
    fields = fields_of(texts, _WHOLE_NUMBER)
    is_short = pc.less_equal(pc.binary_length(fields["digits"]), _LONGEST_WHOLE_NUMBER)
    digits = where(is_short, pc.binary_join_element_wise(fields["sign"], fields["digits"], ""))
    numbers = digits.cast(pa.decimal128(_LONGEST_WHOLE_NUMBER, 0))
    limits = np.iinfo(to.to_pandas_dtype())
    fits = pc.and_(pc.greater_equal(numbers, _decimal(limits.min)), pc.less_equal(numbers, _decimal(limits.max)))
    return where(fits, numbers).cast(to)


def _decimal(number: int) -> pa.Scalar:
    return pa.scalar(Decimal(number), pa.decimal128(_LONGEST_WHOLE_NUMBER, 0))


def decimals(texts: Texts, to: pa.Decimal128Type) -> pa.Array:
    """Cast texts to decimals of a type, rounded half up."""
    return cast_in_pieces(texts, partial(_quick_decimals, to=to), partial(_careful_decimals, to=to))


def _quick_decimals(texts: Texts, to: pa.Decimal128Type) -> pa.Array:
    require_no_letters(texts)
    return texts.cast(to)


def _careful_decimals(texts: Texts, to: pa.Decimal128Type) -> pa.Array:
    """The first digit that the type has no place for decides on rounding, which may make the number too large."""
    fields = fields_of(texts, _DECIMAL)
    whole = fields["whole"]
    has_digits = pc.match_substring_regex(texts, r"\d")
    fits = pc.and_(has_digits, pc.less_equal(pc.binary_length(whole), to.precision - to.scale))
    fraction = pc.utf8_slice_codeunits(fields["fraction"], 0, to.scale + 1)
    sign = pc.replace_substring(fields["sign"], "+", "")
    numbers = where(fits, pc.binary_join_element_wise(sign, "0", whole, ".", fraction, "0", ""))
    wide = pa.decimal256(to.precision + 3, to.scale + 2)
    rounded = pc.round(numbers.cast(wide), to.scale, "half_towards_infinity")
    limit = pa.scalar(Decimal(10) ** (to.precision - to.scale), wide)
    return where(pc.less(pc.abs(rounded), limit), rounded).cast(to)


def floats(texts: Texts, to: pa.DataType) -> pa.Array:
    """Cast texts to the nearest floating point numbers of a type."""
    return cast_in_pieces(texts, partial(_quick_floats, to=to), partial(_careful_floats, to=to))


def _quick_floats(texts: Texts, to: pa.DataType) -> pa.Array:
    """Arrow takes what C does of `nan`: with a sign, and with a payload in parentheses."""
    offsets, data = bytes_of(texts)
    if (data[offsets[0] : offsets[-1]] == _OPEN).any():
        raise Odd
    numbers = texts.cast(to)
    values = _numpy_of(numbers)
    if (np.signbit(values) & np.isnan(values) & _numpy_of(numbers.is_valid())).any():
        raise Odd
    return numbers


def _careful_floats(texts: Texts, to: pa.DataType) -> pa.Array:
    fields = fields_of(texts, _FLOAT)
    numbers = where(pc.not_equal(fields["number"], ""), fields["number"])
    finite = cast_in_pieces(numbers, lambda texts: texts.cast(to), partial(_beyond_range, to=to), smallest=1)
    is_negative = pc.starts_with(fields["infinity"], "-")
    infinite = where(pc.not_equal(fields["infinity"], ""), pc.if_else(is_negative, -np.inf, np.inf).cast(to))
    not_numbers = where(pc.not_equal(fields["nan"], ""), pa.array(np.full(len(texts), np.nan)).cast(to))
    return pc.coalesce(finite, infinite, not_numbers)


def _beyond_range(texts: Texts, to: pa.DataType) -> pa.Array:
    """Cast a text that Arrow refuses: to Spark it is infinite, or zero."""
    number = float(texts[0].as_py())
    return pa.array([math.copysign(math.inf if abs(number) > 1 else 0.0, number)], to)


def _numpy_of(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
    return values.to_numpy(zero_copy_only=False)
