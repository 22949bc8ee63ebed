"""Rows with more columns than a procedure has parameters, passed to generated procedures as arrays of text. Pure.

The new row and the old one are one parameter each; keys and bitmap are as usual. The procedure casts the texts to the
published types. A composite type per article would have to be created and dropped with it, along with its dependents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rowtide.core.operations import Operation
from rowtide.databases.postgres.values import value_of
from rowtide.replication.articles.articles import MAX_PARAMETERS, Article
from rowtide.replication.articles.call_formats import Part, parts_of
from rowtide.replication.targets.postgres.calls.array_literals import array_literal
from rowtide.replication.targets.postgres.calls.parameters import is_generated, parameters_of

if TYPE_CHECKING:
    from rowtide.replication.distribution.calls.encoding import Arguments

_ROWS = {Part.NEW: ("new_row", "c"), Part.CHANGED: ("new_row", "c"), Part.OLD: ("old_row", "old_c")}
"""The parameter for each part, and the names of its columns elsewhere."""
_READINGS = {"regclass": "pg_catalog.regclassin(pg_catalog.textout({}))"}
"""Types whose cast from text differs from their input function."""


def read_text(text: str, type_text: str) -> str:
    """Return the expression of a value that an expression has as text, by its type's input function."""
    return _READINGS[type_text].format(text) if type_text in _READINGS else value_of(text, type_text)


def is_wide(article: Article, operation: Operation) -> bool:
    """Return whether a generated procedure would need more parameters than PostgreSQL allows."""
    return is_generated(article, operation) and len(parameters_of(article, operation)) > MAX_PARAMETERS


def given(article: Article, operation: Operation) -> Sequence[tuple[str, str]]:
    """Return the names and types of a procedure's parameters, in order."""
    flat = parameters_of(article, operation)
    if not is_wide(article, operation):
        return flat
    others = {
        name: (name, type_text) for name, type_text in flat if name not in _expressions_of_rows(article, operation)
    }
    rows = [_ROWS[part][0] for part in _parts(article, operation) if part in _ROWS]
    return [*((row, "text[]") for row in rows), *others.values()]


def expressions(article: Article, operation: Operation) -> Mapping[str, str]:
    """Return the expression, in a procedure's body, of each value, by its name in `parameters_of`."""
    plain = {name: name for name, _ in parameters_of(article, operation)}
    return {**plain, **_expressions_of_rows(article, operation)} if is_wide(article, operation) else plain


def pack(article: Article, operation: Operation, arguments: Arguments) -> Arguments:
    """Return the arguments of a wide procedure's call, given those of all columns."""
    packed: Arguments = []
    first = 0
    for part in _parts(article, operation):
        size = _size(article, part)
        values = arguments[first : first + size]
        packed += [array_literal(values)] if part in _ROWS else values
        first += size
    return packed


def _expressions_of_rows(article: Article, operation: Operation) -> Mapping[str, str]:
    return {
        f"{prefix}{place}": read_text(f"{row}[{place}]", column.value_type_text)
        for row, prefix in (_ROWS[part] for part in _parts(article, operation) if part in _ROWS)
        for place, column in enumerate(article.columns, 1)
    }


def _parts(article: Article, operation: Operation) -> Sequence[Part]:
    return parts_of(operation, article.command(operation).call_format)


def _size(article: Article, part: Part) -> int:
    if part in _ROWS:
        return len(article.columns)
    return len(article.key_columns) if part is Part.OLD_KEY else 1
