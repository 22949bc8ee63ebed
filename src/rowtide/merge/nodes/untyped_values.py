"""Values that SQLite files alone have: of columns without a declared type, and of another class than a type's.

They travel as SQLite's literals, those in columns with a type behind a character 0, which no text of PostgreSQL's
begins with. Without that the text `x` in a `blob` column became an empty blob at every other file; of 42 declared types
and 57 values 363 pairs came back altered. Literals for every value would have to be read by resolvers and servers
everywhere, and programs have such rows (Core Data, Django's `bool` and `decimal`), so that they cannot be refused.

A PostgreSQL node has their plain texts, from which the literal cannot be derived. What it has in the place of an
untyped column, of the type text, is marked when it is read, and a file keeps its own value where the text is its
value's. A blob in a `text` column becomes a text at the device once the hub changes the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from rowtide.databases.sqlite.values import OF_ANOTHER_CLASS, literal_of, to_plain_text, value_of_literal
from rowtide.databases.types.registry import find_type
from rowtide.databases.types.strings import ANY
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
    return tuple(index for index, column in enumerate(article.columns) if column.type_text == ANY)


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
    """Whether two rows have the same values, where both nodes know their classes."""
    if one == other:
        return True
    one, other = _without_classes(article, tuple(one)), _without_classes(article, tuple(other))
    places = untyped_indexes(article)
    if one == other or not places:
        return one == other
    return all(
        mine == theirs or (index in places and _is_unclear(mine, theirs) and _plain(mine) == _plain(theirs))
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True))
    )


def _with(article: Article, row: Row, convert: Callable[[str | None], str | None]) -> Row:
    places = untyped_indexes(article)
    return tuple(convert(text) if index in places else text for index, text in enumerate(row))


def _has_other_classes(row: Row) -> bool:
    # Checking all texts together is faster than checking each.
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


def declaration_of(type_text: str) -> str:
    """Return how a SQLite file declares a column of a PostgreSQL type."""
    declaration = find_type(type_text).value_type.device.declaration
    return type_text if declaration is None else declaration
