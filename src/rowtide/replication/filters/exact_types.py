"""Types whose values compare by their text in the log exactly as the server compares them. Pure.

Dates and timestamps in row filters, as days and microseconds from one origin. Integers and numerics in row filters:
logged values and literals, as numbers. Texts, booleans and UUIDs in row filters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache, partial

from rowtide.core.values import frozen
from rowtide.databases.postgres.types.widening import describe_type
from rowtide.replication.filters.conditions import Form, Key, Literal, LiteralUnfit, trim

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


MAX_DIGITS = 1000
"""The server's own limits are higher, and differ before and after the decimal point."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")

# The server's numerics have 131072 digits before the point at most.
_INFINITY = Decimal("1e200000")
_NOT_A_NUMBER = Decimal("1e200001")
"""Equal to itself and greater than all other values, including infinity, as in PostgreSQL but not in Python."""

_PRINTED = {b"NaN": _NOT_A_NUMBER, b"Infinity": _INFINITY, b"-Infinity": -_INFINITY}
_WRITTEN = {
    "nan": _NOT_A_NUMBER,
    **dict.fromkeys(("infinity", "+infinity", "inf", "+inf"), _INFINITY),
    **dict.fromkeys(("-infinity", "-inf"), -_INFINITY),
}


def numeric_value(value: bytes) -> Key:
    """Read a numeric as the server prints it."""
    special = _PRINTED.get(value)
    return Decimal(value.decode()) if special is None else special


def numeric_literal(literal: Literal) -> Key:
    """Read a literal compared with a numeric; the column's precision does not matter. Raises `LiteralUnfit`."""
    if literal.form is Form.NUMBER:
        return _read(literal.text)
    _require_text(literal)
    written = trim(literal)
    special = _WRITTEN.get(written.lower())
    if special is not None:
        return special
    if _NUMBER.fullmatch(written) is None:
        raise LiteralUnfit("the text is not a number in plain digits")
    return _read(written)


def integer_literal(literal: Literal, *, bits: int) -> Key:
    """Read a literal compared with an integer of the given bits. Raises `LiteralUnfit`."""
    if literal.form is Form.NUMBER:
        return _read(literal.text)
    _require_text(literal)
    written = trim(literal)
    if _INTEGER.fullmatch(written) is None:
        raise LiteralUnfit("the text is not an integer in plain digits")
    number = _read(written)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise LiteralUnfit("the text is a number out of the type's range")
    return number


def _require_text(literal: Literal) -> None:
    if literal.form is not Form.TEXT:
        raise LiteralUnfit("it is compared with numbers only")


def _read(text: str) -> Decimal:
    if sum(char.isdigit() for char in text) > MAX_DIGITS:
        raise LiteralUnfit(f"the number has more than {MAX_DIGITS} digits")
    return Decimal(text)


_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}


def text_value(value: bytes) -> Key:
    """Return the value itself."""
    return value


def text_literal(literal: Literal) -> Key:
    """Read a literal compared with a text. Raises `LiteralUnfit`."""
    if literal.form is not Form.TEXT:
        raise LiteralUnfit("it is compared with texts in quotes only")
    return literal.text.encode()


def padded_value(value: bytes) -> Key:
    """Read a `character(n)`: the server pads it with blanks, and ignores these in comparisons."""
    return value.rstrip(b" ")


def padded_literal(literal: Literal) -> Key:
    """Read a literal compared with a `character(n)`. Raises `LiteralUnfit`."""
    key = text_literal(literal)
    assert isinstance(key, bytes)
    return padded_value(key)


def boolean_value(value: bytes) -> Key:
    """Read a boolean as the server prints it."""
    return value == b"t"


def boolean_literal(literal: Literal) -> Key:
    """Read a literal compared with a boolean. Raises `LiteralUnfit`."""
    truth = None if literal.form is Form.NUMBER else _TRUTHS.get(trim(literal).lower())
    if truth is None:
        raise LiteralUnfit("it is compared with true and false only")
    return truth


def uuid_literal(literal: Literal) -> Key:
    """Read a literal compared with a UUID, for which the server allows no surrounding blanks. Raises `LiteralUnfit`."""
    written = literal.text.lower()
    if literal.form is not Form.TEXT or _UUID.fullmatch(written) is None:
        raise LiteralUnfit("it is compared with texts of the form 8-4-4-4-12 hexadecimal digits only")
    return written.encode()


@frozen(kw_only=True)
class ExactType:
    """How values and literals of a type become keys; `is_ordered` says whether keys also sort as values do.

    `read_literal` raises `LiteralUnfit`.
    """

    read_value: Callable[[bytes], Key]
    read_literal: Callable[[Literal], Key]
    is_ordered: bool = True


def _integer(bits: int) -> ExactType:
    return ExactType(read_value=int, read_literal=partial(integer_literal, bits=bits))


_TEXT = ExactType(read_value=text_value, read_literal=text_literal, is_ordered=False)
_PADDED = ExactType(read_value=padded_value, read_literal=padded_literal, is_ordered=False)

_EXACT: Mapping[str, ExactType] = {
    "smallint": _integer(16),
    "integer": _integer(32),
    "bigint": _integer(64),
    "numeric": ExactType(read_value=numeric_value, read_literal=numeric_literal),
    "boolean": ExactType(read_value=boolean_value, read_literal=boolean_literal),
    # The server sorts by the bytes, which the digits that it prints do too.
    "uuid": ExactType(read_value=text_value, read_literal=uuid_literal),
    "date": ExactType(read_value=date_value, read_literal=date_literal),
    "timestamp without time zone": ExactType(read_value=local_value, read_literal=local_literal),
    "timestamp with time zone": ExactType(read_value=zoned_value, read_literal=zoned_literal),
    "text": _TEXT,
    "character varying": _TEXT,
    "character": _PADDED,
    "bpchar": _PADDED,
}
_TEXTS = (_TEXT, _PADDED)

_BINARY_FLOAT = "a literal is rounded to it before they are compared"
_INEXACT: Mapping[str, str] = {
    "real": _BINARY_FLOAT,
    "double precision": _BINARY_FLOAT,
    "money": "how a literal is read depends on the session",
    "interval": "different intervals are equal, one month and 30 days",
    "time without time zone": "filters by times of day are not supported",
    "time with time zone": "filters by times of day are not supported",
    "bytea": "filters by binary values are not supported",
    "json": "documents are not compared",
    "jsonb": "documents are not compared by their text",
}
"""Built-in types that can be tested for null, but not compared."""

NOT_BUILT_IN = "only PostgreSQL's numbers, booleans, UUIDs, dates, timestamps and texts compare exactly"
NOT_ORDERED = "the order of texts is their collation's: they are compared by =, <>, in and is null only"
NOT_DETERMINISTIC = "its collation makes different texts equal"


@frozen
class Inexact:
    """A type that cannot be compared, and why; `may_be_null` says whether it can be tested for null."""

    reason: str
    may_be_null: bool


def find_type(type_text: str, *, is_deterministic: bool) -> ExactType | Inexact:
    """Return how a type's values compare; `is_deterministic` is about the column's collation."""
    name = describe_type(type_text).data_type
    found = _EXACT.get(name)
    if found in _TEXTS and not is_deterministic:
        return Inexact(NOT_DETERMINISTIC, may_be_null=True)
    if found is not None:
        return found
    # A composite value is null when its fields are: the text of those of users does not say.
    return Inexact(_INEXACT.get(name, NOT_BUILT_IN), may_be_null=name in _INEXACT)
