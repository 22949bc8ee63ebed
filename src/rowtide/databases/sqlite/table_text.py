"""Reads and rewrites the text of `create table`, in which SQLite stores a table's columns and constraints. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rowtide.databases.sqlite.index_text import TOKEN, find_closing, split_terms, text_between
from rowtide.databases.sqlite.quoting import quote, unquote

_CONSTRAINTS = ("constraint", "primary", "unique", "check", "foreign")


@dataclass(frozen=True, slots=True)
class TableItem:
    """A column or a constraint of a table: its words, and its text.

    `column` is the column's name, None for a constraint; `constraint` that of a named constraint.
    """

    text: str
    column: str | None
    constraint: str | None
    names: frozenset[str]

    def mentions(self, column: str) -> bool:
        """Whether a word of it is a column's name; a word alike counts too."""
        return column.lower() in self.names

    @property
    def is_primary_key(self) -> bool:
        """Whether it is a constraint that is the primary key."""
        return self.column is None and "primary" in self.names


@dataclass(frozen=True, slots=True)
class TableText:
    """A table's columns and constraints in their order, and the options that follow them."""

    items: tuple[TableItem, ...]
    options: str

    def create(self, name: str) -> str:
        """Return the statement that creates the table under a name; columns come before constraints."""
        ordered = sorted(self.items, key=lambda item: item.column is None)
        lines = ",\n    ".join(item.text for item in ordered)
        return f"create table {quote(name)} (\n    {lines}\n){self.options}"


def parse_table(sql: str) -> TableText:
    """Parse the statement that created a table, which SQLite has accepted before."""
    tokens = [found for found in TOKEN.finditer(sql) if found.lastgroup != "blank"]
    words = [token.group().lower() for token in tokens]
    opening = words.index("(")
    closing = find_closing(words, opening)
    items = tuple(map(_item, split_terms(tokens[opening + 1 : closing])))
    options = text_between(tokens[closing + 1 :]) if tokens[closing + 1 :] else ""
    return TableText(items, f" {options}" if options else "")


def item_of(text: str) -> TableItem:
    """Return a column or constraint from its text."""
    return _item([found for found in TOKEN.finditer(text) if found.lastgroup != "blank"])


def _item(tokens: Sequence[re.Match[str]]) -> TableItem:
    words = [unquote(token.group()) for token in tokens]
    first = tokens[0]
    is_constraint = first.lastgroup == "word" and words[0].lower() in _CONSTRAINTS
    named = words[1] if is_constraint and words[0].lower() == "constraint" else None
    return TableItem(
        text_between(tokens), None if is_constraint else words[0], named, frozenset(word.lower() for word in words)
    )
