"""Parses the literals of a row filter. Pure."""

from __future__ import annotations

from rowtide.databases.filters.cursor import Cursor
from rowtide.databases.filters.tokens import Token, TokenKind
from rowtide.replication.filters.literals import TYPE_WORDS, Form, Literal


def read_literal(words: Cursor) -> Literal:
    """Read a literal: a number with an optional sign, a text with an optional type before it, or a boolean.

    Raises `FilterUnreadable`.
    """
    token = words.take()
    match token.kind:
        case TokenKind.TEXT:
            return Literal(Form.TEXT, token.text)
        case TokenKind.NUMBER:
            return Literal(Form.NUMBER, token.text)
        case TokenKind.SIGN if words.token.kind is TokenKind.NUMBER:
            return Literal(Form.NUMBER, token.text + words.take().text)
        case TokenKind.NAME:
            return _read_named(words, token)
        case _:
            raise words.refusal(f"a column is compared with a literal, not with {token}", token)


def _read_named(words: Cursor, token: Token) -> Literal:
    if token.text in ("true", "false"):
        return Literal(Form.TRUTH, token.text)
    if token.is_word("null"):
        raise words.refusal("what is compared with null matches never: write is null", token)
    if words.token.kind is not TokenKind.TEXT:
        raise words.refusal(f"a column is compared with a literal, not with {token}", token)
    if token.text not in TYPE_WORDS:
        raise words.refusal(f"{token} is not one of {', '.join(TYPE_WORDS)}, which may precede a text", token)
    return Literal(Form.TEXT, words.take().text, token.text)
