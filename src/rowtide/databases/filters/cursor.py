"""A position among a filter's words: the next word, and what is expected there. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.databases.filters.tokens import FilterUnreadable, Token, TokenKind, tokenize


class Cursor:
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
        return FilterUnreadable((token or self.token).place, reason)
