"""Tables, rows and row filters over every type that filters compare, with values at its edges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import zip_longest

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from rowtide.databases.postgres.quoting import quote, quote_literal
from rowtide.replication.filters import FilterColumn

TYPES: Mapping[str, str] = {
    "small": "smallint",
    "whole": "integer",
    "big": "bigint",
    "exact": "numeric",
    "price": "numeric(8,2)",
    "rounded": "numeric(3,-2)",
    "flag": "boolean",
    "id": "uuid",
    "date": "date",
    "local_time": "timestamp without time zone",
    "second": "timestamp(0) without time zone",
    "moment": "timestamp with time zone",
    'Größe "M"': "text",
    "short": "character varying(5)",
    "code": "character(4)",
    "single": "character(1)",
    "ratio": "double precision",
}
"""The columns of a table, in order, and their types."""

COLUMNS = tuple(
    FilterColumn(place, name, type_text, has_deterministic_collation=True)
    for place, (name, type_text) in enumerate(TYPES.items())
)

_CALENDAR = ("infinity", "-infinity", "0044-03-15 BC", "0001-12-31 BC", "0001-01-01", "2024-02-29", "1582-10-10")
_TIMES = ("2024-01-01 10:00:00.123456", "2024-01-01 10:00:00", "0001-02-29 23:59:59.5 BC", "12024-01-01 00:00:00")
_MOMENTS = ("2024-01-01 10:00:00+00", "2024-01-01 12:00:00+02", "2024-01-01 04:30:00.000001-05:30")
_NUMBERS = ("NaN", "0", "0.00", "-0.0", "1", "1.0", "1.5", "-1.50")
_TINY, _HUGE = "0." + "0" * 300 + "1", "9" * 400
_TEXTS = ("", " ", "DE", "DE ", " DE", "de", "é", "e\u0301", "it's", "\\", "%s", "漢🙂", "\u00a0", "DE\t", "NaN")
_UUIDS = (
    "00000000-0000-0000-0000-000000000000",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "ffffffff-ffff-1234-8000-ffffffffffff",
)


def _ends(bits: int) -> tuple[str, ...]:
    end = 1 << bits - 1
    return "0", "1", "-1", "5", str(end - 1), str(-end)


EDGES: Mapping[str, tuple[str, ...]] = {
    "smallint": _ends(16),
    "integer": _ends(32),
    "bigint": _ends(64),
    "numeric": (*_NUMBERS, "Infinity", "-Infinity", _TINY, _HUGE, f"-{_HUGE}", "1." + "0" * 50),
    "numeric(8,2)": (*_NUMBERS, "999999.99", "-999999.99"),
    "numeric(3,-2)": ("NaN", "0", "100", "99900", "-200"),
    "boolean": ("true", "false"),
    "uuid": _UUIDS,
    "date": (*_CALENDAR, "4714-11-24 BC", "5874897-12-31"),
    "timestamp without time zone": (*_CALENDAR, *_TIMES, "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"),
    "timestamp(0) without time zone": (*_CALENDAR, *_TIMES),
    "timestamp with time zone": (
        *("infinity", "-infinity", *_MOMENTS),
        *("0044-03-15 00:00:00+00 BC", "4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"),
    ),
    "text": _TEXTS,
    "character varying(5)": _TEXTS,
    "character(4)": _TEXTS,
    "character(1)": ("", " ", "D", "é", "'", "\\"),
    "double precision": ("NaN", "-0", "0.1"),
}
"""Values of each type that are easily got wrong, as text that a cast takes."""

NUMBERS = ("smallint", "integer", "bigint", "numeric", "numeric(8,2)", "numeric(3,-2)")
_BARE = ("0.00", "-1.5", "1.50", "999999.99", "40000", "3000000000")

ODD_LITERALS = (
    *("0", "-0", "+5", "- 5", "5.", ".5", "-.5", "1.50", "1e5", "0x1F", "1_000", "32768", "9" * 25, "-" + "9" * 25),
    *("2147483648", "-2147483648", "-9223372036854775808", "9223372036854775808", "true", "FALSE", "''", "' '"),
    *("' 5 '", "'+5'", "'5.'", "'.5'", "'0x1F'", "'1_000'", "'1e5'", "'05'", "'99999'", "'\t5\n'", "'1.5'", "'- 5'"),
    *("'inf'", "'-INF'", "'+Infinity'", "'nan'", "' NaN '", "'+nan'", "'-0'", "'-infinity'", "'Infinity'", "'.'"),
    *("'t'", "'f'", "'yes'", "'NO'", "' on '", "'off'", "'o'", "'1'", "'0'", "'tr'", "'TRUE'", "bool 't'"),
    *("boolean 'n'", "'today'", "'epoch'", "'2024-2-29'", "'2023-02-29'", "'02/03/2024'", "'2024-02-29 '"),
    *("'2024-02-29  BC'", "'24-02-29'", "'0000-01-01'", "'4714-11-23 BC'", "'5874898-01-01'", "'20240229'"),
    *("DATE '2024-02-29'", "date'infinity'", "'12024-01-01'", "'0001-02-29 BC'", "'0001-02-29'", "' infinity '"),
    *("'2024-01-01T10:00:00'", "'2024-01-01 10:00'", "'2024-01-01 24:00:00'", "'2024-01-01 10:00:60'", "'10:00'"),
    *("'2024-01-01 10:00:00.1234567'", "'2024-01-01 10:00:00.5'", "timestamp '2024-01-01 10:00:00'", "'294277-01-01'"),
    *("'2024-01-01T10:00:00Z'", "'2024-01-01 10:00+00'", "'2024-01-01 12:00:00+0200'", "'2024-01-01 12:00:00+02'"),
    *("timestamptz '2024-01-01 12:00:00+02:00'", "'2024-01-01 10:00:00 UTC'", "'2024-01-01 10:00:00+15:59'"),
    *("'4714-11-23 23:00:00-01 BC'", "'4714-11-24 00:30:00+01 BC'", "'294276-12-31 23:30:00-01'"),
    *("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'", f"uuid '{_UUIDS[0]}'"),
    *("'a0eebc999c0b4ef8bb6d6bb9bd380a11'", "' a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    *("'DE   '", "'DE\u00a0'", "'DEUTSCHLAND'", "'É'", "'\\\\'", "'\\'' or true or '''", "'$$'"),
)
"""Literals that are read in some way of their own for some type, and are wrong for most."""

Texts = st.SearchStrategy[str]
Row = tuple[str | None, ...]


def _stamp(time: datetime) -> str:
    return time.isoformat(" ")


_LETTERS = st.text(st.sampled_from("DEde é'\\%\t漢"), max_size=4)
_STAMPS = st.datetimes().map(_stamp)

_RANDOM: Mapping[str, Texts] = {
    "smallint": st.integers(-(2**15), 2**15 - 1).map(str),
    "integer": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, places=3).map("{:f}".format),
    "uuid": st.uuids().map(str),
    "date": st.dates().map(date.isoformat),
    "timestamp without time zone": _STAMPS,
    "timestamp(0) without time zone": _STAMPS,
    "timestamp with time zone": _STAMPS.map("{}+00".format),
    "text": _LETTERS,
    "character varying(5)": _LETTERS,
    "character(4)": _LETTERS,
}


def samples(type_text: str) -> Texts:
    """Make values of a type, as text that a cast takes."""
    edges = st.sampled_from(EDGES[type_text])
    return edges | _RANDOM[type_text] if type_text in _RANDOM else edges


def edge_rows() -> list[Row]:
    """Return rows with every edge of every column, and nulls where there are no more."""
    return [*zip_longest(*(EDGES[type_text] for type_text in TYPES.values())), (None,) * len(TYPES)]


def rows() -> st.SearchStrategy[list[Row]]:
    """Make rows of the table, as texts that casts take."""
    row = st.tuples(*(samples(type_text) | st.none() for type_text in TYPES.values()))
    return st.lists(row, min_size=1, max_size=12)


def filters(is_taken: Callable[[str], bool]) -> Texts:
    """Make filters of comparisons that are taken."""
    predicates = st.sampled_from(COLUMNS).flatmap(_predicates_on).filter(is_taken)
    return st.recursive(predicates, _joined, max_leaves=6)


def _joined(parts: Texts) -> Texts:
    words = st.sampled_from([" and ", " or ", "\nAND ", " oR not "])
    joined = st.tuples(parts, words, parts).map("".join)
    return joined | joined.map("({})".format) | parts.map("not ({})".format) | parts.map("NOT {}".format)


def _predicates_on(column: FilterColumn) -> Texts:
    quoted = quote(column.name)
    name = st.sampled_from([quoted, column.name.upper()] if column.name.isidentifier() else [quoted])
    literal = _literals(column.type_text)
    several = st.lists(literal, min_size=1, max_size=4)
    tests = (
        st.tuples(st.sampled_from(["=", "<>", "!= ", "<", "<=", ">", " >= "]), literal).map("".join),
        several.map(lambda found: f" in ({', '.join(found)})"),
        several.map(lambda found: f" NOT in({','.join(found)})"),
        st.tuples(literal, literal).map(lambda ends: f" between {ends[0]} and {ends[1]}"),
        st.tuples(literal, literal).map(lambda ends: f" not between {ends[0]}\tAND {ends[1]}"),
        st.sampled_from([" is null", " IS NOT NULL"]),
    )
    return st.tuples(name, st.one_of(tests)).map("".join)


def _literals(type_text: str) -> Texts:
    """Make literals that mostly fit a type: its values in quotes, or bare where they are numbers."""
    quoted = samples(type_text).map(quote_literal)
    is_number = type_text in NUMBERS
    usual = quoted | samples(type_text).filter(_is_plain) | st.sampled_from(_BARE) if is_number else quoted
    return st.one_of(usual, usual, st.sampled_from(ODD_LITERALS))


def _is_plain(text: str) -> bool:
    return not text.lstrip("-")[0].isalpha()


def column_values(*values: str | None) -> npt.NDArray[np.object_]:
    """Return values of a column as the log has them."""
    return np.array([None if value is None else value.encode() for value in values], dtype=object)


def transpose(printed: Sequence[Sequence[bytes | None]]) -> dict[int, npt.NDArray[np.object_]]:
    """Return rows as the server printed them by columns, each at its place."""
    return {place: np.array(values, dtype=object) for place, values in enumerate(zip(*printed, strict=True))}
