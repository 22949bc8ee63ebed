"""Dates and timestamps in ISO form, in the whole range of Spark's types.

Not taken, though `try_cast` takes them, because no server prints them: a year or month alone, a time without seconds
or without a day, and zones by name.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rowtide.databases.lake_values.casting import Column, Odd, Texts, bytes_of, cast_in_pieces, fields_of, kernels

_Integers = npt.NDArray[np.int64]
_Booleans = npt.NDArray[np.bool_]

TIMESTAMP = pa.timestamp("us", tz="UTC")
TIMESTAMP_WITHOUT_ZONE = pa.timestamp("us")

_BLANK = r"[\x00-\x20\x7f]*"
_MONTH_AND_DAY = r"-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
_DATE = rf"{_BLANK}(?P<sign>[+-]?)(?P<year>\d{{4,7}}){_MONTH_AND_DAY}(?s:[ T].*)?{_BLANK}"
_ZONE = r" ?(?:Z|(?P<zone_sign>[+-])(?P<zone_hour>\d{1,2})(?::(?P<zone_minute>\d{1,2})(?::(?P<zone_second>\d{2}))?)?)"
_TIME = rf"(?P<hour>\d{{1,2}}):(?P<minute>\d{{1,2}}):(?P<second>\d{{1,2}})(?:\.(?P<fraction>\d*))?(?:{_ZONE})?"
_TIMESTAMP = rf"{_BLANK}(?P<sign>[+-]?)(?P<year>\d{{4,6}}){_MONTH_AND_DAY}(?:[ T](?:{_TIME})?)?{_BLANK}"

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
    """Cast texts to dates; what follows a day behind a space is ignored."""
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
    """Arrow takes offsets of a day, and times without seconds: only the form that UTC has is left to it."""
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
    # The first second of the range is in it in part: it overflows before the fraction is added, and back after.
    micros = np.where(fits, moment, 0) * _SECOND + fraction
    return pa.array(micros, mask=~fits | _find_nulls(fields["year"])).cast(to)


def _days(year: _Integers, month: _Integers, day: _Integers) -> tuple[_Integers, _Booleans]:
    """Return days since 1970 in the proleptic Gregorian calendar, and which are days that there are.

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
