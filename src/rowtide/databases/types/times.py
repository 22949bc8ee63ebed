"""Dates, timestamps, times of day and intervals. Pure.

Row filters compare days and microseconds from one origin, of texts as the server prints them. Resolvers compare
seconds, of texts that any program may have written into a SQLite file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache

from rowtide.databases.lake_types import LakeType, tried
from rowtide.databases.types.value_type import (
    NEVER_NUMBERS,
    DeviceColumn,
    ExactType,
    Key,
    Literal,
    LiteralUnfit,
    TypeKind,
    TypeModifier,
    ValueType,
    always,
    require_text,
    trim,
)

_DAY = r"(?P<year>(?!0+-)[0-9]{4,7})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_SECOND = r"(?::(?P<second>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,6}))?)?"
_TIME = rf"[ T](?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]){_SECOND}"
_ZONE = r"(?P<zone>Z|(?P<sign>[+-])(?P<zone_hour>0[0-9]|1[0-5])(?::(?P<zone_minute>[0-5][0-9]))?)"
_ERA = r"(?P<era> BC)?"
# Compiled when they are first used: most commands compare no times.
_DATE_FORM = _DAY + _ERA
_LOCAL_FORM = f"{_DAY}(?:{_TIME})?{_ERA}"
_ZONED_FORM = _DAY + _TIME + _ZONE + _ERA
_SHOWN = {
    _DATE_FORM: "2024-01-31",
    _LOCAL_FORM: "2024-01-31 23:59:59.999999",
    _ZONED_FORM: "2024-01-31 23:59:59.999999+00",
}

_US_PER_DAY = 86_400_000_000
_DAYS_PER_CYCLE = 146_097
"""The Gregorian calendar repeats after 400 years, including the day of the week."""

_ENDLESS = {"infinity": 10**20, "-infinity": -(10**20)}

_Parts = Mapping[str, str | None]


def _count_days(year: int, month: int, day: int) -> int:
    """Count days in the proleptic Gregorian calendar, as the server does. Raises `ValueError`."""
    cycle, rest = divmod(year, 400)
    return date(2000 + rest, month, day).toordinal() + cycle * _DAYS_PER_CYCLE


_FIRST_DAY = _count_days(1 - 4714, 11, 24)
_DATE_END = _count_days(5_874_898, 1, 1)
_TIMESTAMP_END_US = _count_days(294_277, 1, 1) * _US_PER_DAY


@lru_cache(maxsize=4096)  # the days of a table repeat themselves
def date_value(value: bytes) -> Key:
    """Read a date as the server prints it."""
    text = value.decode()
    return _ENDLESS[text] if text in _ENDLESS else _days(_match(_DATE_FORM, text))


def local_value(value: bytes) -> Key:
    """Read a timestamp without time zone as the server prints it."""
    text = value.decode()
    return _ENDLESS[text] if text in _ENDLESS else _microseconds(_match(_LOCAL_FORM, text))


def zoned_value(value: bytes) -> Key:
    """Read a timestamp with time zone as the server prints it."""
    text = value.decode()
    return _ENDLESS[text] if text in _ENDLESS else _microseconds(_match(_ZONED_FORM, text))


def date_literal(literal: Literal) -> Key:
    """Read a literal compared with a date. Raises `LiteralUnfit`."""
    written = _written(literal)
    if written in _ENDLESS:
        return _ENDLESS[written]
    return _within(_days(_match(_DATE_FORM, written)), _FIRST_DAY, _DATE_END)


def local_literal(literal: Literal) -> Key:
    """Read a literal compared with a timestamp without time zone. Raises `LiteralUnfit`."""
    return _timestamp_literal(literal, _LOCAL_FORM)


def zoned_literal(literal: Literal) -> Key:
    """Read a literal compared with a timestamp with time zone; it must name its zone. Raises `LiteralUnfit`."""
    return _timestamp_literal(literal, _ZONED_FORM)


def _timestamp_literal(literal: Literal, form: str) -> Key:
    written = _written(literal)
    if written in _ENDLESS:
        return _ENDLESS[written]
    return _within(_microseconds(_match(form, written)), _FIRST_DAY * _US_PER_DAY, _TIMESTAMP_END_US)


def _written(literal: Literal) -> str:
    require_text(literal, "it is compared with texts in quotes only")
    return trim(literal)


def _match(form: str, text: str) -> _Parts:
    found = re.fullmatch(form, text)
    if found is None:
        raise LiteralUnfit(f"the text is not written as '{_SHOWN[form]}' is, with BC perhaps, nor infinity, -infinity")
    return found.groupdict()


def _days(parts: _Parts) -> int:
    year = _number(parts["year"])
    try:
        return _count_days(1 - year if parts["era"] else year, _number(parts["month"]), _number(parts["day"]))
    except ValueError:
        raise LiteralUnfit("the calendar has no such day") from None


def _microseconds(parts: _Parts) -> int:
    minutes = _number(parts["hour"]) * 60 + _number(parts["minute"])
    if parts.get("sign"):
        offset = _number(parts["zone_hour"]) * 60 + _number(parts["zone_minute"])
        minutes += offset if parts["sign"] == "-" else -offset
    fraction = int((parts["fraction"] or "").ljust(6, "0"))
    return _days(parts) * _US_PER_DAY + (minutes * 60 + _number(parts["second"])) * 1_000_000 + fraction


def _number(digits: str | None) -> int:
    return int(digits or 0)


def _within(key: int, start: int, end: int) -> int:
    if not start <= key < end:
        raise LiteralUnfit("the text is out of the type's range")
    return key


_ANY_ZONE = r"(?P<zone>Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d+)?))?"
_MOMENT = rf"(?P<year>\d{{4,}})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T]{_CLOCK} ?{_ANY_ZONE})?(?P<era> BC)?"
_TIME_OF_DAY = rf"{_CLOCK} ?{_ANY_ZONE}"
_AMOUNT = r"(?:(?P<{0}>[+-]?\d+(?:\.\d+)?){1})?"
_INTERVAL = (
    "P"
    + "".join(_AMOUNT.format(name, letter) for name, letter in zip(("y", "mon", "w", "d"), "YMWD", strict=True))
    + "(?:T"
    + "".join(_AMOUNT.format(name, letter) for name, letter in zip(("h", "min", "s"), "HMS", strict=True))
    + ")?"
)
_SECONDS = {"y": 31104000, "mon": 2592000, "w": 604800, "d": 86400, "h": 3600, "min": 60, "s": 1}
"""As PostgreSQL compares intervals: a month is 30 days, a year is twelve of them."""
_INFINITE = {"infinity": Decimal("Infinity"), "-infinity": Decimal("-Infinity")}


def moment(text: str) -> Decimal | None:
    """Return the seconds since the year 1; None for a text that is no date or time.

    A time without a zone counts as UTC, as in PostgreSQL with that time zone.
    """
    if text.lower() in _INFINITE:
        return _INFINITE[text.lower()]
    found = re.fullmatch(_MOMENT, text)
    if found is None:
        return None
    year = int(found["year"])
    days = _days_since_march(1 - year if found["era"] else year, int(found["month"]), int(found["day"]))
    return days * Decimal(86400) + _second_of_day(found)


def _days_since_march(year: int, month: int, day: int) -> int:
    """Return the number of a day of the Gregorian calendar, counted backwards before the year 1."""
    # With years that begin in March the leap day comes last.
    year -= month <= 2
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year


def _second_of_day(found: re.Match[str]) -> Decimal:
    """Return the seconds of a day at UTC."""
    if found["hour"] is None:
        return Decimal(0)
    seconds = int(found["hour"]) * 3600 + int(found["minute"]) * 60 + Decimal(found["second"] or 0)
    zone = found["zone"]
    if zone is None or zone == "Z":
        return seconds
    digits = zone[1:].replace(":", "").ljust(6, "0")
    offset = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return seconds + offset if zone[0] == "-" else seconds - offset


def time_of_day(text: str) -> Decimal | None:
    """Return the second of the day at UTC; None for a text that is no time."""
    found = re.fullmatch(_TIME_OF_DAY, text)
    return None if found is None else _second_of_day(found)


def interval(text: str) -> Decimal | None:
    """Return the seconds of an interval in ISO 8601 form; None for another text."""
    if text.lower() in _INFINITE:
        return _INFINITE[text.lower()]
    found = re.fullmatch(_INTERVAL, text)
    if found is None or not any(found.groups()):
        return None
    return sum((Decimal(found[name] or 0) * seconds for name, seconds in _SECONDS.items()), Decimal(0))


_DEVICE_DAY = DeviceColumn(
    "date, timestamp",
    "text",
    "TEXT: `2026-11-23`, `2026-11-23 19:44:00.5`, and with time zone `2026-11-23 19:44:00.5+00`, always in UTC",
    limit="years before 1 and after 9999 sort as texts; SQLite's date functions do not read `+00`: give them "
    "`substr(seen, 1, 19)`",
)
_DEVICE_SPAN = DeviceColumn(
    "time with time zone, interval",
    "text",
    "TEXT: `12:00:00+05:45`, `P1Y2M-3DT4H5M6.789S`",
    is_ordered=False,
    is_compared=False,
    limit="compared as texts: `P30D` is not `P1M`",
)
_NO_TIMES_OF_DAY = "filters by times of day are not supported"

TYPES = (
    ValueType(
        name="date",
        kind=TypeKind.DATE,
        oid=1082,
        array_oid=1182,
        wider=("timestamp without time zone",),
        lake=always(LakeType("date", "if(endswith({text}, ' BC'), null, try_cast({text} as date))")),
        stored=NEVER_NUMBERS,
        device=_DEVICE_DAY,
        now="date('now')",
        literal_words=("date",),
        compared=ExactType(read_value=date_value, read_literal=date_literal),
        order=moment,
    ),
    ValueType(
        name="timestamp without time zone",
        kind=TypeKind.TIMESTAMP,
        oid=1114,
        array_oid=1115,
        modifier=TypeModifier.PRECISION,
        lake=always(tried("timestamp_ntz")),
        stored=NEVER_NUMBERS,
        device=_DEVICE_DAY,
        now="strftime('%Y-%m-%d %H:%M:%f', 'now')",
        literal_words=("timestamp",),
        compared=ExactType(read_value=local_value, read_literal=local_literal),
        order=moment,
    ),
    ValueType(
        name="timestamp with time zone",
        kind=TypeKind.ZONED_TIMESTAMP,
        oid=1184,
        array_oid=1185,
        modifier=TypeModifier.PRECISION,
        lake=always(tried("timestamp")),
        stored=NEVER_NUMBERS,
        device=_DEVICE_DAY,
        now="strftime('%Y-%m-%d %H:%M:%f+00', 'now')",
        literal_words=("timestamptz",),
        compared=ExactType(read_value=zoned_value, read_literal=zoned_literal),
        order=moment,
    ),
    ValueType(
        name="time without time zone",
        oid=1083,
        modifier=TypeModifier.PRECISION,
        stored=NEVER_NUMBERS,
        device=DeviceColumn("time", "text", "TEXT, `19:44:00.5`"),
        now="strftime('%H:%M:%f', 'now')",
        compared=_NO_TIMES_OF_DAY,
        order=time_of_day,
    ),
    ValueType(
        name="time with time zone",
        oid=1266,
        modifier=TypeModifier.PRECISION,
        stored=NEVER_NUMBERS,
        device=_DEVICE_SPAN,
        compared=_NO_TIMES_OF_DAY,
        order=time_of_day,
    ),
    ValueType(
        name="interval",
        oid=1186,
        modifier=TypeModifier.FIELDS,
        stored=NEVER_NUMBERS,
        device=_DEVICE_SPAN,
        compared="different intervals are equal, one month and 30 days",
        order=interval,
    ),
)
