"""Names and texts in SQLite's SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    """Quote an identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(value: str) -> str:
    """Quote a text."""
    return "'" + value.replace("'", "''") + "'"
