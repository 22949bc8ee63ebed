"""SQLite's SQL as text: names, literals, keys, and the `create table` and `create index` that its catalogue stores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING

from rowtide.core.values import frozen
from rowtide.databases.types.value_type import SqliteValue

if TYPE_CHECKING:
    import sqlite3

# SQLite's SQL as text: names, literals, and keys of any columns as one text. A value is written as by `quote()`; a
# text as `t` and its bytes in hexadecimal, since `quote()` ends a text at its first zero byte. No value's form
# contains a comma, the separator.

_INTEGER = re.compile(r"-?\d+")
_SEPARATOR = ","
# Well below SQLite's limit of a thousand levels, which the expression around it counts towards too.
_LONGEST_CHAIN = 400
_FOLDED = str.maketrans(ascii_uppercase, ascii_lowercase)


def fold(name: str) -> str:
    """Return a name as SQLite compares names: without the case of ASCII letters, and of no others."""
    return name.translate(_FOLDED)


def concatenated(parts: Sequence[str], between: str = "||") -> str:
    """Return the concatenation of SQL expressions; many are nested in halves.

    A chain is as deep as it is long, and SQLite refuses an expression of a thousand levels.
    """
    if len(parts) <= _LONGEST_CHAIN:
        return f" {between} ".join(parts)
    middle = len(parts) // 2
    return f"({concatenated(parts[:middle], between)}) {between} ({concatenated(parts[middle:], between)})"


def packing_expression(values: Sequence[str]) -> str:
    """Return the SQL expression that packs the values of SQL expressions."""
    packed = [f"case typeof({value}) when 'text' then 't' || hex({value}) else quote({value}) end" for value in values]
    return concatenated(packed, f"|| '{_SEPARATOR}' ||")


def pack(connection: sqlite3.Connection, values: Sequence[SqliteValue], types: Sequence[str]) -> str:
    """Pack values as a trigger of this database does for columns of these types.

    For example, the text `7` becomes a number in an integer column: the values are stored in a temporary table and read
    back.
    """
    columns = ", ".join(f"k{place} {type_text}" for place, type_text in enumerate(types))
    packed = packing_expression([f"k{place}" for place in range(len(types))])
    connection.execute(f"create temp table rowtide_key ({columns})")
    try:
        connection.execute(f"insert into rowtide_key values ({', '.join('?' * len(types))})", tuple(values))
        return str(connection.execute(f"select {packed} from rowtide_key").fetchone()[0])
    finally:
        connection.execute("drop table rowtide_key")


def text_encoding(connection: sqlite3.Connection) -> str:
    """Return the database's text encoding: UTF-8, UTF-16le or UTF-16be."""
    return str(connection.execute("pragma encoding").fetchone()[0])


def unpack(packed: str, encoding: str) -> tuple[SqliteValue, ...]:
    """Return the values of a packed key from a database with texts in this encoding.

    Bytes that are not a text's are surrogates in it. Raises `ValueError` for what is no packed key.
    """
    return tuple(_unpack_value(value, encoding) for value in packed.split(_SEPARATOR))


def _unpack_value(value: str, encoding: str) -> SqliteValue:
    if value == "NULL":
        return None
    if value.startswith("t"):
        return bytes.fromhex(value[1:]).decode(encoding, "surrogateescape")
    if value.startswith("X'"):
        return bytes.fromhex(value[2:-1])
    return int(value) if _INTEGER.fullmatch(value) else float(value)


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


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, folded: each name that it has is among them."""
    return frozenset(fold(unquote(token.group())) for token in _tokens(text))


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
        return fold(column) in self.names

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
    return TableItem(text_between(tokens), None if is_constraint else words[0], named, frozenset(map(fold, words)))
