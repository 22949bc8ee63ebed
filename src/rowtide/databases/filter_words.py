"""The words of a row filter, divided as PostgreSQL's lexer does, and a position among them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum

from rowtide.core.values import frozen


class FilterUnreadable(Exception):
    """A filter cannot be parsed at a character, counted from 1; features convert this to errors of their own."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(position, reason)
        self.position = position
        self.reason = reason


class TokenKind(Enum):
    """The kind of a word; each but the end is the name of a group of the pattern."""

    NAME = "name"
    QUOTED_NAME = "quoted_name"
    NUMBER = "number"
    TEXT = "text"
    COMPARATOR = "comparator"
    SIGN = "sign"
    OPERATOR = "operator"
    MARK = "mark"
    END = "end"


@frozen
class Token:
    """A word with its position, from 1; `text` is without quotes, a bare name's folded to lower case."""

    kind: TokenKind
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind is TokenKind.END else self.text

    def is_word(self, word: str) -> bool:
        return self.kind is TokenKind.NAME and self.text == word

    def is_mark(self, mark: str) -> bool:
        return self.kind is TokenKind.MARK and self.text == mark


_LETTER = r"A-Za-z_\x80-\U0010ffff"
_TOKEN = rf"""
      (?P<blanks>[ \t\n\v\f\r]+)
    | (?P<comment>--|/\*)
    | (?P<name>[{_LETTER}][{_LETTER}0-9$]*)
    | "(?P<quoted_name>(?:[^"]|"")+)"
    | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?![{_LETTER}0-9.$])
    | '(?P<text>(?:[^']|'')*)'
    | (?P<comparator>!=(?![-+])|<>|<=|>=|<|>|=)(?![<>=~!@\#%^&|`?*/])
    | (?P<sign>[-+])(?![-+<>=~!@\#%^&|`?*/])
    | (?P<operator>\|\||[*/%])(?![-+<>=~!@\#%^&|`?*/])
    | (?P<mark>[(),.])
"""
"""Compiled at the first filter, because that takes as long as importing a large module."""

_REASONS = {
    "'": "a text does not end",
    '"': "a name in quotes does not end, or is empty",
    ":": "casts by :: and parameters are not part of row filters",
    "$": "parameters are not part of row filters",
    ";": "a row filter is one condition",
}


def tokenize(filter_text: str) -> Iterator[Token]:
    """Return the words of a filter, with the end. Raises `FilterUnreadable`."""
    _require_storable(filter_text)
    position, pattern = 0, re.compile(_TOKEN, re.VERBOSE)
    while position < len(filter_text):
        found = pattern.match(filter_text, position)
        if found is None or found["comment"] is not None:
            raise FilterUnreadable(position + 1, _explain(filter_text[position:]))
        if found["blanks"] is None:
            yield _token(found)
        position = found.end()
    yield Token(TokenKind.END, "", position + 1)


def _token(found: re.Match[str]) -> Token:
    assert found.lastgroup is not None
    kind, text, position = TokenKind(found.lastgroup), found[found.lastgroup], found.start() + 1
    match kind:
        case TokenKind.NAME:
            text = re.sub("[A-Z]+", lambda letters: letters[0].lower(), text)
            if text != text.lower():
                raise FilterUnreadable(position, f"servers differ in how they read {text}: quote it")
        case TokenKind.QUOTED_NAME:
            text = text.replace('""', '"')
        case TokenKind.TEXT:
            text = text.replace("''", "'")
        case _:
            pass
    return Token(kind, text, position)


def _require_storable(filter_text: str) -> None:
    """Refuse NUL, which PostgreSQL cannot store, and surrogates, which UTF-8 cannot encode."""
    bad = re.search("[\0\ud800-\udfff]", filter_text)
    if bad is not None:
        raise FilterUnreadable(bad.start() + 1, "the character is none that PostgreSQL stores")


def _explain(rest: str) -> str:
    if rest.startswith(("--", "/*")):
        return "comments are not part of row filters"
    if rest[0].isdigit():
        return "the number is not in plain digits, or runs into the next word"
    found = re.match(r"[-+*/<>=~!@#%^&|`?]+", rest)
    if found is not None:
        return f"{found[0]} is no comparison of row filters"
    return _REASONS.get(rest[0], f"{rest[0]} is not part of row filters")


class WordCursor:
    """Takes a filter's words one after the other, never past the end. Raises `FilterUnreadable`."""

    def __init__(self, filter_text: str) -> None:
        self._tokens = list(tokenize(filter_text))
        self._at = 0

    @property
    def tokens(self) -> Sequence[Token]:
        """All words and the end."""
        return self._tokens

    @property
    def token(self) -> Token:
        """The next word, not yet taken."""
        return self._tokens[self._at]

    @property
    def previous(self) -> Token | None:
        """The word taken last; None before the first."""
        return self._tokens[self._at - 1] if self._at else None

    def take(self) -> Token:
        """Take the next word, whatever it is."""
        token = self.token
        if token.kind is not TokenKind.END:
            self._at += 1
        return token

    def accept_word(self, word: str) -> bool:
        """Take a bare word if it is next."""
        found = self.token.is_word(word)
        self._at += found
        return found

    def accept_mark(self, mark: str) -> bool:
        """Take a parenthesis or comma if it is next."""
        found = self.token.is_mark(mark)
        self._at += found
        return found

    def expect_mark(self, mark: str) -> None:
        """Take a parenthesis or comma, which must be next."""
        if not self.accept_mark(mark):
            raise self.refusal(f"{mark} is expected, not {self.token}")

    def refusal(self, reason: str, token: Token | None = None) -> FilterUnreadable:
        """Return the error that refuses the filter at a word; by default the next one."""
        return FilterUnreadable((token or self.token).position, reason)


_WORDS = """
all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like
limit localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary
references returning right select session_user similar some symmetric system_user table tablesample then to
trailing true union unique user using variadic verbose when where window with
"""

RESERVED_WORDS = frozenset(_WORDS.split())
