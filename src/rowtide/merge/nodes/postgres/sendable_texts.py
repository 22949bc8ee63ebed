"""Texts that a PostgreSQL server takes as values: UTF-8, without the character 0; and arrays of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from rowtide.merge.articles import Article
from rowtide.merge.nodes.untyped_values import as_stored_by_server
from rowtide.merge.versions.changes import Write

_ZERO = "a text has a character 0"


def are_sendable(article: Article, writes: Sequence[Write]) -> bool:
    """Whether a server accepts all texts of rows; checking them together is faster than checking each."""
    rows = [one.row for one in writes if one.row is not None]
    for index in range(len(article.columns)):
        texts = "".join([row[index] or "" for row in rows])
        if "\0" in texts or not (texts.isascii() or _is_encodable(texts)):
            return False
    return True


def _is_encodable(texts: str) -> bool:
    try:
        texts.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_sendable(article: Article, one: Write) -> None:
    """Raise `ValueError` if a row has a text that no server accepts: with a character 0, or not UTF-8."""
    for value in () if one.row is None else as_stored_by_server(article, one.row):
        if value is not None and not value.isascii():
            value.encode()
        if value is not None and "\0" in value:
            raise ValueError(_ZERO)


def array_of(values: Iterable[str | None]) -> str:
    """Return texts as an array's text. Raises `ValueError` for a text with a character 0, which no server takes."""
    listed = list(values)
    array = None if None in listed else _array_of_plain(cast("list[str]", listed))
    if array is None:
        array = f"{{{','.join(['null' if value is None else _quoted(value) for value in listed])}}}"
    if "\0" in array:
        raise ValueError(_ZERO)
    if not array.isascii():
        array.encode()
    return array


def _array_of_plain(values: Sequence[str]) -> str | None:
    """Return texts as an array's text if none of them needs escapes; numbers without quotes, which are many bytes."""
    joined = "".join(values)
    if joined.isdecimal() and joined.isascii() and "" not in values:
        return f"{{{','.join(values)}}}"
    return None if "\\" in joined or '"' in joined or not values else f"""{{"{'","'.join(values)}"}}"""


def _quoted(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'
