"""Dates and timestamps in row filters, as days and microseconds from one origin. Pure.

Python's own end at the year 9999, and have neither years before Christ nor infinity. Literals must have the form in
which the server prints values, which does not depend on DateStyle. Words like `today`, whose value changes, and times
whose zone depends on the session are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache

from rowtide.replication.filters.literals import Form, Key, Literal, LiteralUnfit, trim

_DAY = r"(?P<year>(?!0+-)[0-9]{4,7})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
_SECOND = r"(?::(?P<second>[0-5][0-9])(?:\.(?P<fraction>[0-9]{1,6}))?)?"
_TIME = rf"[ T](?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]){_SECOND}"
_ZONE = r"(?P<zone>Z|(?P<sign>[+-])(?P<zone_hour>0[0-9]|1[0-5])(?::(?P<zone_minute>[0-5][0-9]))?)"
_ERA = r"(?P<era> BC)?"
_DATE_FORM = re.compile(_DAY + _ERA)
_LOCAL_FORM = re.compile(f"{_DAY}(?:{_TIME})?{_ERA}")
_ZONED_FORM = re.compile(_DAY + _TIME + _ZONE + _ERA)

_US_PER_DAY = 86_400_000_000
_DAYS_PER_CYCLE = 146_097
"""The Gregorian calendar repeats after 400 years, including the day of the week."""

_ENDLESS = {"infinity": 10**20, "-infinity": -(10**20)}
_NOT_THIS_TYPE = "it is compared with texts in quotes only"

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


def _timestamp_literal(literal: Literal, form: re.Pattern[str]) -> Key:
    written = _written(literal)
    if written in _ENDLESS:
        return _ENDLESS[written]
    return _within(_microseconds(_match(form, written)), _FIRST_DAY * _US_PER_DAY, _TIMESTAMP_END_US)


def _written(literal: Literal) -> str:
    if literal.form is not Form.TEXT:
        raise LiteralUnfit(_NOT_THIS_TYPE)
    return trim(literal)


_SHOWN = {
    _DATE_FORM: "2024-01-31",
    _LOCAL_FORM: "2024-01-31 23:59:59.999999",
    _ZONED_FORM: "2024-01-31 23:59:59.999999+00",
}


def _match(form: re.Pattern[str], text: str) -> _Parts:
    found = form.fullmatch(text)
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
