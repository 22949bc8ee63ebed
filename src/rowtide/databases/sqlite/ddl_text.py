"""Reads and rewrites the text of `create table` and `create index`: SQLite stores there what its catalogue lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rowtide.core.values import frozen
from rowtide.databases.sqlite.keys import quote, unquote

TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | --[^\n]* | /\*.*?\*/ )
  | (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" | `(?:[^`]|``)*` | \[[^\]]*\] )
  | (?P<word> \w+ )
  | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ORDERS = ("asc", "desc")


@frozen
class IndexText:
    """The terms of an index, without collation and order, and the condition of a partial one."""

    terms: tuple[str, ...]
    where: str | None


def parse_index(sql: str) -> IndexText:
    """Parse the statement that created an index, which SQLite has accepted before."""
    tokens = [found for found in TOKEN.finditer(sql) if found.lastgroup != "blank"]
    words = [token.group().lower() for token in tokens]
    opening = words.index("(", words.index("on"))
    closing = find_closing(words, opening)
    is_partial = words[closing + 1 : closing + 2] == ["where"]
    terms = split_terms(tokens[opening + 1 : closing])
    return IndexText(
        tuple(text_between(_without_order(term)) for term in terms),
        text_between(tokens[closing + 2 :]) if is_partial else None,
    )


def find_closing(words: Sequence[str], opening: int) -> int:
    """Return the position of the parenthesis that closes the one at `opening`."""
    depth = 0
    for index in range(opening, len(words)):
        depth += _deeper(words[index])
        if depth == 0:
            return index
    raise ValueError(words)


def split_terms(tokens: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    """Divide at commas outside parentheses."""
    parts: list[list[re.Match[str]]] = [[]]
    depth = 0
    for token in tokens:
        depth += _deeper(token.group())
        if token.group() == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _deeper(word: str) -> int:
    return {"(": 1, ")": -1}.get(word, 0)


def _without_order(term: list[re.Match[str]]) -> list[re.Match[str]]:
    words = [token.group().lower() for token in term]
    if words[-1] in _ORDERS:
        return _without_order(term[:-1])
    return term[:-2] if words[-2:-1] == ["collate"] else term


def text_between(tokens: Sequence[re.Match[str]]) -> str:
    """Return the text from the first token to the last."""
    return tokens[0].string[tokens[0].start() : tokens[-1].end()]


_COLUMN_CONSTRAINTS = (
    "constraint",
    "primary",
    "not",
    "null",
    "unique",
    "check",
    "default",
    "collate",
    "references",
    "generated",
    "as",
)
_CONSTRAINTS = ("constraint", "primary", "unique", "check", "foreign")


@frozen
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


@frozen
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
    tokens = _tokens(sql)
    words = [token.group().lower() for token in tokens]
    opening = words.index("(")
    closing = find_closing(words, opening)
    items = tuple(map(_item, split_terms(tokens[opening + 1 : closing])))
    options = text_between(tokens[closing + 1 :]) if tokens[closing + 1 :] else ""
    return TableText(items, f" {options}" if options else "")


def retyped(item: TableItem, declaration: str) -> TableItem:
    """Return a column with another declared type; its constraints and its default stay."""
    name, *others = _tokens(item.text)
    words = [token.group().lower() for token in others]
    end = next((index for index, word in enumerate(words) if word in _COLUMN_CONSTRAINTS), len(words))
    rest = f" {text_between(others[end:])}" if others[end:] else ""
    return item_of(f"{name.group()} {declaration}{rest}")


def nullable(item: TableItem) -> TableItem:
    """Return a column that takes nulls."""
    tokens = _tokens(item.text)
    words = [token.group().lower() for token in tokens]
    depth = 0
    for index, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and index > 0 and words[index : index + 2] == ["not", "null"]:
            begin = index - 2 if words[index - 2] == "constraint" else index
            end = index + 5 if words[index + 2 : index + 4] == ["on", "conflict"] else index + 2
            parts = [text_between(part) for part in (tokens[:begin], tokens[end:]) if part]
            return nullable(item_of(" ".join(parts)))
    return item


def item_of(text: str) -> TableItem:
    """Return a column or constraint from its text."""
    return _item(_tokens(text))


def _tokens(text: str) -> list[re.Match[str]]:
    return [found for found in TOKEN.finditer(text) if found.lastgroup != "blank"]


def _item(tokens: Sequence[re.Match[str]]) -> TableItem:
    words = [unquote(token.group()) for token in tokens]
    first = tokens[0]
    is_constraint = first.lastgroup == "word" and words[0].lower() in _CONSTRAINTS
    named = words[1] if is_constraint and words[0].lower() == "constraint" else None
    return TableItem(
        text_between(tokens), None if is_constraint else words[0], named, frozenset(word.lower() for word in words)
    )
