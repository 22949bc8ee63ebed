"""Values of columns as resolvers compare and combine them, from their texts. Pure.

Values travel as PostgreSQL writes them. A SQLite file may have others than the column's type says: numbers sort before
times, and times before all other texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

from rowtide.databases.sqlite.texts import OF_ANOTHER_CLASS
from rowtide.merge.articles import ArticleColumn

Order = tuple[int, Decimal, str]
"""The sort key of a value; values with the same key are equal."""

_INTEGERS = ("smallint", "integer", "bigint")
_FLOATS = ("real", "double precision")
_NUMBER, _NOT_A_NUMBER, _TIME, _TEXT = range(4)
_ENDLESS = {"infinity": Decimal("Infinity"), "-infinity": Decimal("-Infinity")}
_MODIFIER = re.compile(r"\(([\d, -]+)\)")
_ZONE = r"(?P<zone>Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?)?"
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d(?:\.\d+)?))?"
_MOMENT = re.compile(rf"(?P<year>\d{{4,}})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T]{_CLOCK} ?{_ZONE})?(?P<era> BC)?")
_TIME_OF_DAY = re.compile(rf"{_CLOCK} ?{_ZONE}")
_AMOUNT = r"(?:(?P<{0}>[+-]?\d+(?:\.\d+)?){1})?"
_INTERVAL = re.compile(
    "P"
    + "".join(_AMOUNT.format(name, letter) for name, letter in zip(("y", "mon", "w", "d"), "YMWD", strict=True))
    + "(?:T"
    + "".join(_AMOUNT.format(name, letter) for name, letter in zip(("h", "min", "s"), "HMS", strict=True))
    + ")?"
)
_SECONDS = {"y": 31104000, "mon": 2592000, "w": 604800, "d": 86400, "h": 3600, "min": 60, "s": 1}
"""As PostgreSQL compares intervals: a month is 30 days, a year is twelve of them."""
_DIGITS = 400
"""Of a sum: more than a double precision number has in decimal form."""


def base_type(type_text: str) -> str:
    """Return a type without its length or precision."""
    return _MODIFIER.sub("", type_text)


def is_number(column: ArticleColumn) -> bool:
    """Whether a column's values are numbers."""
    return base_type(column.type_text) in (*_INTEGERS, *_FLOATS, "numeric")


def order(column: ArticleColumn, text: str) -> Order:
    """Return the sort key of a value, in its column's type where that has an order of its own, else as a text.

    Times with a zone are compared by the moment; those without one count as UTC, as in PostgreSQL with that time zone.
    """
    read = _READERS.get(base_type(column.type_text), _plain_order)
    return read(text)


def average(column: ArticleColumn, one: str, other: str) -> str | None:
    """Return the mean of two numbers, rounded to what the column's type holds; None if there is none."""
    numbers = _number(one), _number(other)
    if numbers[0] is None or numbers[1] is None or not all(each is not None and each.is_finite() for each in numbers):
        return None
    with localcontext(prec=_DIGITS):
        mean = (numbers[0] + numbers[1]) / 2
        if base_type(column.type_text) in _FLOATS:
            return repr(float(mean))
        scale = 0 if base_type(column.type_text) in _INTEGERS else _scale(column.type_text)
        if scale is not None:
            mean = mean.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return format(mean, "f")


def merge_texts(column: ArticleColumn, publisher: str, subscriber: str, delimiter: str) -> str | None:
    """Return the common beginning, what the publisher has beyond it, the delimiter, and what the subscriber has.

    Without the delimiter if one of them has nothing more; None if the type is too short for the result, or one is no
    text but a file's value of another class.
    """
    if OF_ANOTHER_CLASS in (publisher[:1], subscriber[:1]):
        return None
    shared = 0
    for mine, theirs in zip(publisher, subscriber, strict=False):
        if mine != theirs:
            break
        shared += 1
    rests = [rest for rest in (publisher[shared:], subscriber[shared:]) if rest]
    merged = publisher[:shared] + delimiter.join(rests)
    length = _MODIFIER.search(column.type_text)
    return merged if length is None or len(merged) <= int(length[1]) else None


def is_text(column: ArticleColumn) -> bool:
    """Whether a column's values are texts."""
    return base_type(column.type_text) in ("text", "character varying", "character")


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _scale(type_text: str) -> int | None:
    modifier = _MODIFIER.search(type_text)
    if modifier is None:
        return None
    _, _, scale = modifier[1].partition(",")
    return int(scale or 0)


def _moment(text: str) -> Decimal | None:
    """Return the seconds since the year 1; None for a text that is no date or time."""
    if text.lower() in _ENDLESS:
        return _ENDLESS[text.lower()]
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    year = int(found["year"])
    days = _days(1 - year if found["era"] else year, int(found["month"]), int(found["day"]))
    return days * Decimal(86400) + _of_day(found)


def _days(year: int, month: int, day: int) -> int:
    """Return the number of a day of the Gregorian calendar, which goes on before the year 1."""
    # With years that begin in March the leap day comes last.
    year -= month <= 2
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year


def _of_day(found: re.Match[str]) -> Decimal:
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


def _time_of_day(text: str) -> Decimal | None:
    found = _TIME_OF_DAY.fullmatch(text)
    return None if found is None else _of_day(found)


def _interval(text: str) -> Decimal | None:
    if text.lower() in _ENDLESS:
        return _ENDLESS[text.lower()]
    found = _INTERVAL.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return sum((Decimal(found[name] or 0) * seconds for name, seconds in _SECONDS.items()), Decimal(0))


def _plain_order(text: str) -> Order:
    """Return the order of a value of a type without one: of a number, a time, or a text."""
    number = _number(text)
    if number is not None:
        # NaN is above all numbers, as in PostgreSQL.
        return (_NOT_A_NUMBER, Decimal(0), "") if number.is_nan() else (_NUMBER, number, "")
    return _order_by(_moment)(text)


def _order_by(read: Callable[[str], Decimal | None]) -> Callable[[str], Order]:
    def found(text: str) -> Order:
        value = read(text)
        if value is not None:
            return (_TIME, value, "")
        number = _number(text)
        return (_TEXT, Decimal(0), text) if number is None or number.is_nan() else (_NUMBER, number, "")

    return found


_READERS: dict[str, Callable[[str], Order]] = {
    "date": _order_by(_moment),
    "timestamp without time zone": _order_by(_moment),
    "timestamp with time zone": _order_by(_moment),
    "time without time zone": _order_by(_time_of_day),
    "time with time zone": _order_by(_time_of_day),
    "interval": _order_by(_interval),
}
