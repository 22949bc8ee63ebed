"""Names that users give, and lists of column names in SQL Server's syntax (@captured_column_list). Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from rowtide.core.errors import Invalid, NameUnfit

_MAX_CHARACTERS = 128
"""The limit of SQL Server's sysname."""


def require_name(kind: str, name: str) -> None:
    """Require that an object's name can be typed and listed. Raises `NameUnfit`."""
    require_text(kind, name)
    problem = _problem_of(name)
    if problem is not None:
        raise NameUnfit(kind, repr(name), problem)


def require_text(kind: str, name: str) -> None:
    """Require that a name is a string, since programs may pass any value. Raises `NameUnfit`."""
    if not isinstance(name, str):
        raise NameUnfit(kind, repr(name), f"it is no text but of the type {type(name).__name__}")


def _problem_of(name: str) -> str | None:
    if not name.strip():
        return "it is empty"
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        return "it has control characters"
    if len(name) > _MAX_CHARACTERS:
        return f"it has more than {_MAX_CHARACTERS} characters"
    return None


_NAME = re.compile(
    r"""
    \s* (?: "(?P<double> (?: [^"] | "" )+ )"
         | \[(?P<bracket> (?: [^\]] | \]\] )+ )\]
         | (?P<bare> [^\s",\[\]] [^",\[\]]*? ) )
    \s* (?= , | \Z )
    """,
    re.VERBOSE,
)


class ColumnListMalformed(Invalid, number=22965):
    """A column list is not well formed (SQL Server: 22965)."""

    fact = "the column list {text} is malformed from character {place} on"
    hint = 'Separate names by commas; put a name that has a comma, a quote or a bracket in "" or [], that sign doubled.'
    text: str
    place: int


def parse_column_list(text: str) -> tuple[str, ...]:
    """Parse names separated by commas; "" or [] quote names with commas, quotes, brackets or surrounding blanks.

    Within quotes the closing character is doubled. Names are case-sensitive. Raises `ColumnListMalformed`.
    """
    names, place = [], 0
    while True:
        match = _NAME.match(text, place)
        if match is None:
            raise ColumnListMalformed(text, place + 1)
        names.append(_unquoted(match))
        if match.end() == len(text):
            return tuple(names)
        place = match.end() + 1


def format_column_list(names: Iterable[str]) -> str:
    """Return names in brackets, separated by commas, as `parse_column_list` accepts them."""
    return ", ".join(f"[{name.replace(']', ']]')}]" for name in names)


def write_column_list(names: Iterable[str]) -> str:
    """Return names separated by commas, in brackets only where needed."""
    return ",".join(name if _is_bare(name) else format_column_list([name]) for name in names)


def _is_bare(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match["bare"] == name


def _unquoted(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return match["double"].replace('""', '"')
    if match["bracket"] is not None:
        return match["bracket"].replace("]]", "]")
    return match["bare"]
