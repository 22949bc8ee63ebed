"""Checks that another kind of database evaluates differently: it would refuse rows that the publisher has. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rowtide.databases.types.registry import find_type
from rowtide.databases.types.value_type import TypeKind

_LITERAL = re.compile(r"'(?:[^']|'')*'")
_ORDERS = r"(?:<(?!>)=?|(?<!<)>=?|\bbetween\b)"
_COMPARES = r"(?:=|<>|\bin\b|<=?|>=?|\bbetween\b)"
_CALCULATES = re.compile(r"[-+*/%]")
_LENGTH = re.compile(r"\b(?:length|char_length|character_length)\s*\(", re.IGNORECASE)
_LIKE = re.compile(r"\blike\b", re.IGNORECASE)
_MODIFIER = re.compile(r"\([^)]*\)")


def differs_in_files(check: str, types: Mapping[str, str]) -> str | None:
    """Return why SQLite may refuse a row that satisfies a PostgreSQL table's check; None if it does not.

    `check` is without casts, `types` are the types of the table's columns, PostgreSQL's names.
    """
    bare = _LITERAL.sub("''", check)
    for name, type_text in types.items():
        if not _mentions(bare, name):
            continue
        value_type, base = find_type(type_text).value_type, _MODIFIER.sub("", type_text)
        if _is_operand(bare, name, _COMPARES) and not value_type.device.is_compared:
            return f"SQLite compares {base} as text"
        if _is_operand(bare, name, _ORDERS) and value_type.device.sorts_by_bytes:
            return f"SQLite orders {base} by bytes"
        if value_type.kind is TypeKind.NUMERIC and _CALCULATES.search(bare):
            return "SQLite calculates with floating point numbers"
        if value_type.kind is TypeKind.PADDED_TEXT and _LENGTH.search(bare):
            return "SQLite counts the padding of character"
    return None


def differs_on_servers(check: str) -> str | None:
    """Return why PostgreSQL may refuse a row that satisfies a SQLite table's check; None if it does not."""
    return "PostgreSQL's LIKE is case-sensitive" if _LIKE.search(_LITERAL.sub("''", check)) else None


def _mentions(check: str, name: str) -> bool:
    return re.search(_word(name), check, re.IGNORECASE) is not None


def _is_operand(check: str, name: str, operators: str) -> bool:
    """Whether a column itself, not what a function makes of it, stands beside an operator."""
    word = _word(name)
    after, before = rf"{word}\)*\s*(?:not\s+)?{operators}", rf"{operators}\s*\(*{word}(?!\s*\()"
    return any(re.search(pattern, _without_calls(check), re.IGNORECASE) for pattern in (after, before))


_CALL = re.compile(r"\b(?!in\b|and\b|or\b|not\b|between\b|check\b)[a-z_]\w*\s*\([^()]*\)", re.IGNORECASE)


def _without_calls(check: str) -> str:
    """Return a check with a word in place of each function call."""
    before = ""
    while before != check:
        before, check = check, _CALL.sub("\0", check)
    return check


def _word(name: str) -> str:
    return rf"(?<!\w)\"?{re.escape(name)}\"?(?!\w)"
