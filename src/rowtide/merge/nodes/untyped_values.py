"""Values that SQLite files alone have: of columns without a declared type, and of another class than a type's.

They travel as SQLite's literals, those in columns with a type behind a character 0, which no text of PostgreSQL's
begins with. Without that the text `x` in a `blob` column became an empty blob at every other file; of 42 declared types
and 57 values 363 pairs came back altered. Literals for every value would have to be read by resolvers and servers
everywhere, and programs have such rows (Core Data, Django's `bool` and `decimal`), so that they cannot be refused.

A PostgreSQL node has their plain texts, from which the literal cannot be derived. What it has in the place of an
untyped column, of the type text, is marked when it is read, and a file keeps its own value where the text is its
value's. A blob in a `text` column becomes a text at the device once the hub changes the row.

How a device's SQL sees the values of each PostgreSQL type: one table, which the documentation and the tests use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from rowtide.core.values import frozen
from rowtide.databases.sqlite.texts import ANY, OF_ANOTHER_CLASS, literal_of, to_plain_text, value_of_literal
from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.versions.changes import Row

_UNKNOWN_CLASS = "~"
SERVER_TYPE = "text"


def server_type(column: ArticleColumn) -> str:
    """Return the type that a PostgreSQL node gives a column."""
    return SERVER_TYPE if column.type_text == ANY else column.type_text


@lru_cache(maxsize=1024)
def untyped_indexes(article: Article) -> tuple[int, ...]:
    """Return the positions of an article's columns without a declared type."""
    return tuple(place for place, column in enumerate(article.columns) if column.type_text == ANY)


def as_stored_by_server(article: Article, row: Row) -> Row:
    """Return a row as a PostgreSQL node stores it."""
    plain = _with(article, row, _plain) if untyped_indexes(article) else row
    return _without_classes(article, plain) if _has_other_classes(row) else plain


def rows_as_stored_by_server(article: Article, rows: Sequence[Row]) -> Sequence[Row]:
    """Return rows as a PostgreSQL node stores them."""
    if untyped_indexes(article) or any(map(_has_other_classes, rows)):
        return [as_stored_by_server(article, row) for row in rows]
    return rows


def as_read_from_server(article: Article, row: Row) -> Row:
    """Return a row as it travels from a PostgreSQL node."""
    return _with(article, row, lambda text: None if text is None else _UNKNOWN_CLASS + text)


def is_of_unknown_class(article: Article, row: Row) -> bool:
    """Whether a row comes from a PostgreSQL node."""
    return any((row[place] or "").startswith(_UNKNOWN_CLASS) for place in untyped_indexes(article))


def with_classes_of(article: Article, row: Row, stored: Row | None) -> Row:
    """Return a row with the classes that the stored row has where the texts are the same, else as texts."""
    known = (None,) * len(row) if stored is None else stored
    places = untyped_indexes(article)
    pairs = enumerate(zip(row, known, strict=True))
    return tuple(_choose(text, present) if place in places else text for place, (text, present) in pairs)


def are_same(article: Article, one: Sequence[str | None], other: Sequence[str | None]) -> bool:
    """Whether two rows have the same values, as far as both nodes know their classes."""
    if one == other:
        return True
    one, other = _without_classes(article, tuple(one)), _without_classes(article, tuple(other))
    places = untyped_indexes(article)
    if one == other or not places:
        return one == other
    return all(
        mine == theirs or (place in places and _is_unclear(mine, theirs) and _plain(mine) == _plain(theirs))
        for place, (mine, theirs) in enumerate(zip(one, other, strict=True))
    )


def _with(article: Article, row: Row, convert: Callable[[str | None], str | None]) -> Row:
    places = untyped_indexes(article)
    return tuple(convert(text) if place in places else text for place, text in enumerate(row))


def _has_other_classes(row: Row) -> bool:
    # All texts together are looked at faster than each.
    return OF_ANOTHER_CLASS in "".join(filter(None, row)) and any(
        text is not None and text[:1] == OF_ANOTHER_CLASS for text in row
    )


def _without_classes(article: Article, row: Row) -> Row:
    """Return a row with the texts that a PostgreSQL node has of values of another class than their type's."""
    pairs = zip(article.columns, row, strict=True)
    return tuple(
        to_plain_text(value_of_literal(text[1:]), column.type_text)
        if text is not None and text[:1] == OF_ANOTHER_CLASS
        else text
        for column, text in pairs
    )


def _choose(text: str | None, present: str | None) -> str | None:
    if text is None or not text.startswith(_UNKNOWN_CLASS):
        return text
    return present if _plain(present) == _plain(text) else literal_of(text.removeprefix(_UNKNOWN_CLASS))


def _is_unclear(one: str | None, other: str | None) -> bool:
    return any((text or "").startswith(_UNKNOWN_CLASS) for text in (one, other))


def _plain(text: str | None) -> str | None:
    if text is None or text.startswith(_UNKNOWN_CLASS):
        return None if text is None else text.removeprefix(_UNKNOWN_CLASS)
    value = value_of_literal(text)
    return repr(value) if isinstance(value, float) else to_plain_text(value, "text")


_MODIFIER = re.compile(r"\([^)]*\)")


@frozen
class ValueType:
    """PostgreSQL types with the same representation in a SQLite file.

    `names` are without lengths; empty for all types that are not listed. `declaration` is the declared type of a
    device's column; None for the type itself, with its precision.
    """

    title: str
    names: tuple[str, ...]
    declaration: str | None
    representation: str
    is_ordered: bool = True
    is_compared: bool = True
    limit: str = ""


VALUE_TYPES = (
    ValueType(
        "smallint, integer, bigint, oid",
        ("smallint", "integer", "bigint", "oid"),
        "integer",
        "INTEGER",
    ),
    ValueType(
        "real, double precision",
        ("real", "double precision"),
        "real",
        "REAL; `NaN` is a text, which sorts after all numbers, as in PostgreSQL",
        limit="a `real` is the number that it prints as: the device finds it with `= 0.1`, PostgreSQL does not",
    ),
    ValueType(
        "numeric",
        ("numeric",),
        None,
        "INTEGER or REAL; digits that the number lacks (`1.10`) are kept beside it, in `MSmerge_exact`",
        limit="the device's SQL sees the nearest floating point number: numbers that differ only after the 15th digit "
        "may be equal there, and those beyond 1e308 are infinite",
    ),
    ValueType("boolean", ("boolean",), "boolean", "INTEGER, 0 or 1"),
    ValueType(
        "text, character varying, name",
        ("text", "character varying", "name"),
        "text",
        "TEXT",
        limit="sorted by bytes, as with collation C; a nondeterministic collation compares by bytes too",
    ),
    ValueType(
        "character",
        ("character",),
        "text collate rtrim",
        "TEXT, with its padding",
        limit="sorted by bytes, as with collation C",
    ),
    ValueType("bytea", ("bytea",), "blob", "BLOB"),
    ValueType("uuid", ("uuid",), "text", "TEXT, in lower case"),
    ValueType("bit, bit varying", ("bit", "bit varying"), "text", "TEXT of 0 and 1"),
    ValueType("macaddr, macaddr8", ("macaddr", "macaddr8"), "text", "TEXT, `08:00:2b:01:02:03`"),
    ValueType(
        "date, timestamp",
        ("date", "timestamp without time zone", "timestamp with time zone"),
        "text",
        "TEXT: `2026-11-23`, `2026-11-23 19:44:00.5`, and with time zone `2026-11-23 19:44:00.5+00`, always in UTC",
        limit="years before 1 and after 9999 sort as texts; SQLite's date functions do not read `+00`: give them "
        "`substr(seen, 1, 19)`",
    ),
    ValueType("time", ("time without time zone",), "text", "TEXT, `19:44:00.5`"),
    ValueType(
        "time with time zone, interval",
        ("time with time zone", "interval"),
        "text",
        "TEXT: `12:00:00+05:45`, `P1Y2M-3DT4H5M6.789S`",
        is_ordered=False,
        is_compared=False,
        limit="compared as texts: `P30D` is not `P1M`",
    ),
    ValueType(
        "json, jsonb",
        ("json", "jsonb"),
        "text",
        "TEXT, as the server prints it; SQLite's JSON functions read it",
        is_ordered=False,
        is_compared=False,
        limit="compared as texts: in `jsonb`, 1 and 1.0 are equal at the server alone",
    ),
    ValueType(
        "no type (a SQLite hub's)",
        ("any",),
        "",
        "each value in its own class; a PostgreSQL subscriber has `text`",
        limit="a value that the PostgreSQL subscriber changes becomes TEXT",
    ),
    ValueType(
        "arrays, ranges, enums, money, inet, every other type",
        (),
        "text",
        "TEXT, as the server prints it: `{1,2}`, `[1,5)`, `$1.10`",
        is_ordered=False,
        is_compared=False,
        limit="compared as texts: labels of an enum sort by name, the elements of arrays as digits",
    ),
)

_OTHER = VALUE_TYPES[-1]
_BY_NAME: Mapping[str, ValueType] = {name: each for each in VALUE_TYPES for name in each.names}


def value_type(type_text: str) -> ValueType:
    """Return the row of the table for a type."""
    return _BY_NAME.get(_MODIFIER.sub("", type_text), _OTHER)


def declaration_of(type_text: str) -> str:
    """Return how a SQLite file declares a column of a PostgreSQL type."""
    declaration = value_type(type_text).declaration
    return type_text if declaration is None else declaration
