"""Numbers: whole numbers, decimals, floating point numbers.

Not taken, though `try_cast` takes them, because no server prints them: hexadecimal floating point numbers, Java's type
suffixes, decimals with exponents, digits of other scripts.
"""

from __future__ import annotations

import math
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rowtide.databases.lake_types import MAX_DECIMAL_PRECISION
from rowtide.databases.lake_values.casting import (
    Column,
    Odd,
    Texts,
    bytes_of,
    cast_in_pieces,
    fields_of,
    kernels,
    require_no_letters,
    where,
)

_BLANK = r"[\x00-\x20]*"
_BLANK_OR_DELETE = r"[\x00-\x20\x7f]*"
_LONGEST_WHOLE_NUMBER = 19
_WHOLE_NUMBER = rf"{_BLANK_OR_DELETE}(?P<sign>[+-]?)0*(?P<digits>\d+){_BLANK_OR_DELETE}"
_DECIMAL = rf"{_BLANK}(?P<sign>[+-]?)0*(?P<whole>\d*)(?P<point>\.?)(?P<fraction>\d*){_BLANK}"
_FLOAT = (
    rf"{_BLANK}(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    rf"|(?P<infinity>[+-]?(?i:inf|infinity))|(?P<nan>[+-]?NaN|(?i:nan))){_BLANK}"
)
_NO_DECIMALS = pa.array(["NaN", "Infinity", "-Infinity"])
_OPEN = ord("(")


def whole_numbers(texts: Texts, to: pa.DataType) -> Column:
    """Cast texts to integers of a type."""
    return cast_in_pieces(texts, partial(_quick_whole_numbers, to=to), partial(_careful_whole_numbers, to=to))


def _quick_whole_numbers(texts: Texts, to: pa.DataType) -> Column:
    require_no_letters(texts)
    return texts.cast(to)


def _careful_whole_numbers(texts: Texts, to: pa.DataType) -> Column:
    fields = fields_of(texts, _WHOLE_NUMBER)
    is_short = kernels.less_equal(kernels.binary_length(fields["digits"]), _LONGEST_WHOLE_NUMBER)
    digits = where(is_short, kernels.binary_join_element_wise(_without_plus(fields["sign"]), fields["digits"], ""))
    numbers = digits.cast(pa.decimal128(_LONGEST_WHOLE_NUMBER, 0))
    bound = 1 << to.bit_width - 1
    fits = kernels.and_(
        kernels.greater_equal(numbers, _decimal(-bound)), kernels.less_equal(numbers, _decimal(bound - 1))
    )
    return where(fits, numbers).cast(to)


def _decimal(number: int) -> Any:
    return pa.scalar(Decimal(number), pa.decimal128(_LONGEST_WHOLE_NUMBER, 0))


def decimals(texts: Texts, to: pa.Decimal128Type) -> Column:
    """Cast texts to decimals of a type, rounded half up."""
    return cast_in_pieces(
        texts, partial(_quick_decimals, to=to), partial(_careful_decimals, to=to), never=_find_no_decimals
    )


def _find_no_decimals(texts: Texts) -> Column:
    return kernels.is_in(texts, _NO_DECIMALS)


def _quick_decimals(texts: Texts, to: pa.Decimal128Type) -> Column:
    """Arrow makes a wrong number, without an error, of digits that have no room before they are rescaled."""
    require_no_letters(texts)
    longest = kernels.max(kernels.binary_length(texts)).as_py() or 0
    if longest + to.scale > MAX_DECIMAL_PRECISION:
        raise Odd
    return texts.cast(to)


def _careful_decimals(texts: Texts, to: pa.Decimal128Type) -> Column:
    """The first digit that the type has no place for decides on rounding, which may make the number too large."""
    fields = fields_of(texts, _DECIMAL)
    whole = fields["whole"]
    has_digits = kernels.match_substring_regex(texts, r"\d")
    fits = kernels.and_(has_digits, kernels.less_equal(kernels.binary_length(whole), to.precision - to.scale))
    fraction = kernels.utf8_slice_codeunits(fields["fraction"], 0, to.scale + 1)
    numbers = where(
        fits, kernels.binary_join_element_wise(_without_plus(fields["sign"]), "0", whole, ".", fraction, "0", "")
    )
    wide = pa.decimal256(to.precision + 3, to.scale + 2)
    rounded = kernels.round(numbers.cast(wide), to.scale, "half_towards_infinity")
    limit = pa.scalar(Decimal(10) ** (to.precision - to.scale), wide)
    return where(kernels.less(kernels.abs(rounded), limit), rounded).cast(to)


def floats(texts: Texts, to: pa.DataType) -> Column:
    """Cast texts to the nearest floating point numbers of a type."""
    return cast_in_pieces(texts, partial(_quick_floats, to=to), partial(_careful_floats, to=to))


def _quick_floats(texts: Texts, to: pa.DataType) -> Column:
    """Arrow takes what C does of `nan`: with a sign, and with a payload in parentheses."""
    offsets, data = bytes_of(texts)
    if (data[offsets[0] : offsets[-1]] == _OPEN).any():
        raise Odd
    numbers: Column = texts.cast(to)
    values = numbers.drop_null().to_numpy()
    if (np.signbit(values) & np.isnan(values)).any():
        raise Odd
    return numbers


def _careful_floats(texts: Texts, to: pa.DataType) -> Column:
    fields = fields_of(texts, _FLOAT)
    numbers = where(kernels.not_equal(fields["number"], ""), _without_plus(fields["number"]))
    finite = cast_in_pieces(numbers, lambda texts: texts.cast(to), partial(_beyond_range, to=to), smallest=1)
    is_negative = kernels.starts_with(fields["infinity"], "-")
    infinite = where(kernels.not_equal(fields["infinity"], ""), kernels.if_else(is_negative, -np.inf, np.inf).cast(to))
    not_numbers = where(kernels.not_equal(fields["nan"], ""), pa.array(np.full(len(texts), np.nan)).cast(to))
    return kernels.coalesce(finite, infinite, not_numbers)


def _beyond_range(texts: Texts, to: pa.DataType) -> Column:
    """Cast a text that Arrow refuses: to Spark it is infinite, or zero."""
    number = float(texts[0].as_py())
    return pa.array([math.copysign(math.inf if abs(number) > 1 else 0.0, number)], to)


def _without_plus(texts: Texts) -> Texts:
    """Return texts as Arrow takes them, without a sign that changes nothing."""
    return kernels.utf8_ltrim(texts, "+")
