"""Names and string literals in SQLite's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Quote a string literal."""
    return "'" + value.replace("'", "''") + "'"


def unquote(word: str) -> str:
    """Return the identifier that a word of SQLite's SQL is, quoted in any of its ways or not."""
    closing = {'"': '"', "`": "`", "[": "]", "'": "'"}.get(word[:1])
    return word if closing is None else word[1:-1].replace(closing * 2, closing)
