"""Parses the text of `create index`, the only place where SQLite stores an index's expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
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
    for place in range(opening, len(words)):
        depth += _deeper(words[place])
        if depth == 0:
            return place
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
