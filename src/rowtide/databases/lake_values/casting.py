"""Texts as Arrow arrays of lake types: numbers, dates and timestamps, each column cast at once.

Arrow's casts fail for a whole array. Most columns have no text that Arrow refuses; in others such texts are few, and
their neighbours are still cast at full speed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from rowtide.databases.lake_types import MAX_DECIMAL_PRECISION

Column: TypeAlias = Any
"""An Arrow array whose type is known at run time only: pyarrow's stubs cannot say so."""
Texts: TypeAlias = Any
"""An Arrow array of strings."""
Cast = Callable[[Texts], Column]
kernels: Any = pyarrow.compute

_SMALL_PIECE = 512
_HIGHEST_DIGIT = ord("9")


class Odd(ValueError):
    """A quick cast may give wrong results for these texts."""


def cast_in_pieces(
    texts: Texts, quick: Cast, careful: Cast, *, never: Cast | None = None, smallest: int = _SMALL_PIECE
) -> Column:
    """Cast texts by `quick`, which raises `Odd` or Arrow's error; the smallest pieces that it refuses by `careful`.

    `careful` accepts every text that `quick` accepts, with the same result. `never` is a cheap test for texts that
    neither accepts, which are omitted if `quick` refuses the column.
    """
    try:
        return quick(texts)
    except (Odd, pa.ArrowInvalid):
        likely = texts if never is None else where(kernels.invert(never(texts)), texts)
        pieces = list(_cast_pieces(likely, quick, careful, smallest))
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _cast_pieces(texts: Texts, quick: Cast, careful: Cast, smallest: int) -> Iterator[Column]:
    try:
        yield quick(texts)
    except (Odd, pa.ArrowInvalid):
        if len(texts) <= smallest:
            yield careful(texts)
        else:
            half = len(texts) // 2
            yield from _cast_pieces(texts[:half], quick, careful, smallest)
            yield from _cast_pieces(texts[half:], quick, careful, smallest)


def bytes_of(texts: Texts) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return the offsets of strings or binary values, and the bytes that they point into; a null may have any
    length.
    """
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    return offsets, data


def require_no_letters(texts: Texts) -> None:
    """Raise `Odd` if a character sorts above the digits: Arrow accepts hexadecimal numbers, Spark does not."""
    offsets, data = bytes_of(texts)
    if (data[offsets[0] : offsets[-1]] > _HIGHEST_DIGIT).any():
        raise Odd


def fields_of(texts: Texts, pattern: str) -> dict[str, Texts]:
    """Return the named groups of a pattern that matches a whole text; null where it does not, empty where a group is
    omitted.
    """
    found = kernels.extract_regex(texts, f"^(?:{pattern})$")
    return {field.name: kernels.struct_field(found, field.name) for field in found.type}


def where(condition: Column, values: Column) -> Column:
    """Return the values that meet a condition; null in place of others."""
    return kernels.if_else(condition, values, pa.scalar(None, values.type))


# Numbers: integers, decimals, floating point numbers. Some forms are refused although `try_cast` accepts them, because
# no server prints them: hexadecimal floating point numbers, Java's type suffixes, decimals with exponents, digits of
# other scripts.

_NUMBER_BLANK = r"[\x00-\x20]*"
_BLANK_OR_DELETE = r"[\x00-\x20\x7f]*"
_LONGEST_WHOLE_NUMBER = 19
_WHOLE_NUMBER = rf"{_BLANK_OR_DELETE}(?P<sign>[+-]?)0*(?P<digits>\d+){_BLANK_OR_DELETE}"
_DECIMAL_TEXT = rf"{_NUMBER_BLANK}(?P<sign>[+-]?)0*(?P<whole>\d*)(?P<point>\.?)(?P<fraction>\d*){_NUMBER_BLANK}"
_FLOAT = (
    rf"{_NUMBER_BLANK}(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    rf"|(?P<infinity>[+-]?(?i:inf|infinity))|(?P<nan>[+-]?NaN|(?i:nan))){_NUMBER_BLANK}"
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
    """Arrow silently returns a wrong number if the digits do not fit before they are rescaled."""
    require_no_letters(texts)
    longest = kernels.max(kernels.binary_length(texts)).as_py() or 0
    if longest + to.scale > MAX_DECIMAL_PRECISION:
        raise Odd
    return texts.cast(to)


def _careful_decimals(texts: Texts, to: pa.Decimal128Type) -> Column:
    """The first digit beyond the type's scale decides on rounding, which may make the number too large."""
    fields = fields_of(texts, _DECIMAL_TEXT)
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
    """Arrow accepts C's forms of `nan`: with a sign, and with a payload in parentheses."""
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
    """Cast a text that Arrow refuses, and Spark reads as infinity or zero."""
    number = float(texts[0].as_py())
    return pa.array([math.copysign(math.inf if abs(number) > 1 else 0.0, number)], to)


def _without_plus(texts: Texts) -> Texts:
    """Return texts in the form that Arrow accepts, without a leading plus."""
    return kernels.utf8_ltrim(texts, "+")


# Dates and timestamps in ISO form, in the whole range of Spark's types. Some forms are refused although `try_cast`
# accepts them, because no server prints them: only a year or month, a time without seconds or without a day, and named
# zones.

_Integers = npt.NDArray[np.int64]
_Booleans = npt.NDArray[np.bool_]

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_WITHOUT_ZONE = pa.timestamp("us")

_TIME_BLANK = r"[\x00-\x20\x7f]*"
_MONTH_AND_DAY = r"-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_DATE = rf"{_TIME_BLANK}(?P<sign>[+-]?)(?P<year>\d{{4,7}}){_MONTH_AND_DAY}(?s:[ T].*)?{_TIME_BLANK}"
_ZONE = r" ?(?:Z|(?P<zone_sign>[+-])(?P<zone_hour>\d{1,2})(?::(?P<zone_minute>\d{1,2})(?::(?P<zone_second>\d{2}))?)?)"
_TIME = rf"(?P<hour>\d{{1,2}}):(?P<minute>\d{{1,2}}):(?P<second>\d{{1,2}})(?:\.(?P<fraction>\d*))?(?:{_ZONE})?"
_TIMESTAMP = rf"{_TIME_BLANK}(?P<sign>[+-]?)(?P<year>\d{{4,6}}){_MONTH_AND_DAY}(?:[ T](?:{_TIME})?)?{_TIME_BLANK}"

_DAYS_BEFORE_MONTH_FROM_MARCH = np.array([0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337])
_DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_DAYS_BEFORE_1970 = 719_468
"""From the first of March of the year 0."""
_DAY = 86_400
_SECOND = 1_000_000
_LARGEST_OFFSET = 18 * 3600
_LARGEST = np.iinfo(np.int64)
_DAYS = np.iinfo(np.int32)

_WITH_SECONDS = len("2024-02-29 12:34:56")
_INFINITIES = pa.array(["infinity", "-infinity"])
_UTC = np.frombuffer(b"+00", np.uint8)


def dates(texts: Texts) -> Column:
    """Cast texts to dates; anything after a day and a space is ignored."""
    return cast_in_pieces(texts, lambda texts: texts.cast(pa.date32()), _careful_dates, never=_find_infinite)


def timestamps(texts: Texts) -> Column:
    """Cast texts to moments; without an offset they are in UTC."""
    return cast_in_pieces(texts, _quick_timestamps, partial(_careful_timestamps, to=TIMESTAMP), never=_find_infinite)


def timestamps_without_zone(texts: Texts) -> Column:
    """Cast texts to timestamps without zone; an offset is ignored."""
    careful = partial(_careful_timestamps, to=TIMESTAMP_WITHOUT_ZONE)
    return cast_in_pieces(texts, _quick_timestamps_without_zone, careful, never=_find_infinite)


def _find_infinite(texts: Texts) -> Column:
    return kernels.is_in(texts, _INFINITIES)


def _quick_timestamps(texts: Texts) -> Column:
    """Arrow accepts offsets of a day, and times without seconds, so it only gets texts in the form of UTC."""
    _require_length(texts, _WITH_SECONDS + len(_UTC))
    offsets, data = bytes_of(texts)
    ends = offsets[1:] if texts.null_count == 0 else offsets[1:][texts.is_valid().to_numpy(zero_copy_only=False)]
    if any((data[ends - len(_UTC) + place] != character).any() for place, character in enumerate(_UTC)):
        raise Odd
    return texts.cast(TIMESTAMP)


def _quick_timestamps_without_zone(texts: Texts) -> Column:
    _require_length(texts, _WITH_SECONDS)
    return texts.cast(TIMESTAMP_WITHOUT_ZONE)


def _require_length(texts: Texts, shortest: int) -> None:
    length = kernels.min(kernels.binary_length(texts)).as_py()
    if length is not None and length < shortest:
        raise Odd


def _careful_dates(texts: Texts) -> Column:
    fields = fields_of(texts, _DATE)
    year = _signed(fields["sign"]) * _integers(fields["year"], 1)
    days, is_day = _days(year, _integers(fields["month"], 1), _integers(fields["day"], 1))
    fits = is_day & (days >= _DAYS.min) & (days <= _DAYS.max)
    return pa.array(np.where(fits, days, 0).astype(np.int32), mask=~fits | _find_nulls(fields["year"])).cast(
        pa.date32()
    )


def _careful_timestamps(texts: Texts, to: pa.DataType) -> Column:
    fields = fields_of(texts, _TIMESTAMP)
    year = _signed(fields["sign"]) * _integers(fields["year"], 1)
    days, is_day = _days(year, _integers(fields["month"], 1), _integers(fields["day"], 1))
    seconds, is_time = _seconds(fields, "", 24)
    offset, is_offset = _seconds(fields, "zone_", 19)
    is_zone = is_offset & (offset <= _LARGEST_OFFSET)
    moment = days * _DAY + seconds
    if to == TIMESTAMP:
        moment = moment - _signed(fields["zone_sign"]) * offset
    fraction = _integers(kernels.utf8_slice_codeunits(kernels.utf8_rpad(fields["fraction"], 6, "0"), 0, 6), 0)
    fits = is_day & is_time & is_zone & _find_in_range(moment, fraction)
    # Only a part of the first second is in the range: it overflows before the fraction is added, and back afterwards.
    micros = np.where(fits, moment, 0) * _SECOND + fraction
    return pa.array(micros, mask=~fits | _find_nulls(fields["year"])).cast(to)


def _days(year: _Integers, month: _Integers, day: _Integers) -> tuple[_Integers, _Booleans]:
    """Return days since 1970 in the proleptic Gregorian calendar, and which of them are valid.

    Years begin in March, so that a leap day is the last day of its year.
    """
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    is_month = (month >= 1) & (month <= 12)
    in_month = _DAYS_IN_MONTH[np.where(is_month, month, 0)] + (is_leap & (month == 2))
    march_year = year - (month <= 2)
    before_month = _DAYS_BEFORE_MONTH_FROM_MARCH[(month - 3) % 12]
    before_year = 365 * march_year + march_year // 4 - march_year // 100 + march_year // 400
    return before_year + before_month + day - 1 - _DAYS_BEFORE_1970, is_month & (day >= 1) & (day <= in_month)


def _seconds(fields: dict[str, Texts], prefix: str, hours: int) -> tuple[_Integers, _Booleans]:
    """Return the seconds of a time of day or an offset, and which are valid."""
    hour, minute, second = (_integers(fields[prefix + unit], 0) for unit in ("hour", "minute", "second"))
    return 3600 * hour + 60 * minute + second, (hour < hours) & (minute < 60) & (second < 60)


def _find_in_range(seconds: _Integers, micros: _Integers) -> _Booleans:
    first, first_micros = divmod(_LARGEST.min, _SECOND)
    last, last_micros = divmod(_LARGEST.max, _SECOND)
    is_first = (seconds == first) & (micros >= first_micros)
    is_last = (seconds == last) & (micros <= last_micros)
    is_in_range: _Booleans = is_first | is_last | ((seconds > first) & (seconds < last))
    return is_in_range


def _integers(digits: Texts, default: int) -> _Integers:
    numbers = kernels.if_else(kernels.equal(digits, ""), str(default), digits).cast(pa.int64())
    found: _Integers = numbers.fill_null(default).to_numpy()
    return found


def _signed(signs: Texts) -> _Integers:
    is_negative = kernels.equal(signs, "-").fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return np.where(is_negative, np.int64(-1), np.int64(1))


def _find_nulls(texts: Texts) -> _Booleans:
    is_null: _Booleans = texts.is_null().to_numpy(zero_copy_only=False)
    return is_null


_BY_NAME: dict[str, pa.DataType] = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "map<int,string>": pa.map_(pa.int32(), pa.string()),
}
_DECIMAL_NAME = re.compile(r"decimal\((\d+),(\d+)\)")


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type for a type's name in Spark SQL, as `LakeType` has it."""
    decimal = _DECIMAL_NAME.fullmatch(name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _BY_NAME[name]


def arrow_schema(columns: list[tuple[str, str]]) -> pa.Schema:
    """Return the schema of columns, given as names and types in Spark SQL."""
    fields: list[pa.Field[Any]] = [pa.field(name, arrow_type(type_name)) for name, type_name in columns]
    return pa.schema(fields)
