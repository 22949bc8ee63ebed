"""Names and string literals in SQLite's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Quote a string literal."""
    return "'" + value.replace("'", "''") + "'"
