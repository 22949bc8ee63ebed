"""Names and patterns of tables: shell globs on schema and table, with quotes as in SQL. Pure."""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rowtide.cdc.errors.enabling import TablePatternInvalid

_TOKEN = re.compile(r'"((?:[^"]|"")+)"|\[[^\]."]+\]|[^".]|(\.)')
_BEFORE_COMMENT = re.compile(r'(?:"(?:[^"]|"")*"|[^"#])*')
_WILD = frozenset("*?[")
_ANY = {"*": r"[^\n]*", "?": r"[^\n]"}
_GLOB_PART = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TablePattern:
    """A pattern of tables; without a schema, of those that the search path finds.

    `schema` and `table` are globs that are compared with the catalogue's names, case included.
    """

    text: str
    schema: str | None
    table: str

    def matches(self, schema: str, table: str, *, is_visible: bool) -> bool:
        """Return whether it matches a table, which the search path finds or not."""
        is_there = is_visible if self.schema is None else fnmatch.fnmatchcase(schema, self.schema)
        return is_there and fnmatch.fnmatchcase(table, self.table)


def as_expression(patterns: Iterable[TablePattern]) -> str | None:
    """Return PostgreSQL's regular expression of the texts schema, line break, table that patterns match.

    None without patterns. Each pattern needs a schema. A name that has a line break matches none.
    """
    found = [rf"{_translate(pattern.schema or '')}\n{_translate(pattern.table)}" for pattern in patterns]
    return f"^(?:{'|'.join(found)})$" if found else None


def is_pattern(text: str) -> bool:
    """Return whether a text has a wildcard outside of quotes; otherwise it is a table's name."""
    return not _WILD.isdisjoint(re.sub(r'"(?:[^"]|"")*"', "", text))


def parse_pattern(text: str) -> TablePattern:
    """Return the pattern of a text: what is quoted is literal, what is not is folded to lower case as in SQL.

    Raises `TablePatternInvalid`.
    """
    parts = [""]
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() != end:
            break
        end = token.end()
        quoted, dot = token.groups()
        if dot:
            parts.append("")
        else:
            parts[-1] += glob.escape(quoted.replace('""', '"')) if quoted else _fold(token.group())
    if end != len(text):
        raise TablePatternInvalid(text, "a quote has no end")
    if not all(parts) or len(parts) > 2:
        raise TablePatternInvalid(text, "it is not of the form schema.table")
    return TablePattern(text, parts[0] if len(parts) == 2 else None, parts[-1])


def parse_lines(text: str) -> tuple[str, ...]:
    """Return the names and patterns of a file: one a line; `#` outside of quotes begins a comment."""
    return tuple(found for line in text.splitlines() if (found := _without_comment(line).strip()))


def _translate(pattern: str) -> str:
    return "".join(_translate_part(found.group()) for found in _GLOB_PART.finditer(pattern))


def _translate_part(part: str) -> str:
    if part in _ANY:
        return _ANY[part]
    if len(part) == 1:
        return _escape(part)
    is_negated = part[1] == "!"
    members = "".join(letter if letter == "-" else _escape(letter) for letter in part[1 + is_negated : -1])
    return rf"[^\n{members}]" if is_negated else f"[{members}]"


def _escape(letter: str) -> str:
    """A backslash before a letter or a digit has a meaning of its own; the server takes others literally."""
    return f"\\{letter}" if letter.isascii() and not letter.isalnum() else letter


def _without_comment(line: str) -> str:
    found = _BEFORE_COMMENT.match(line)
    before = found.group() if found else ""
    return before if line[len(before) :].startswith("#") else line


def _fold(text: str) -> str:
    """Fold as the server folds identifiers in UTF-8: letters beyond ASCII stay."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
