"""The procedures that apply many calls of one article and operation at once, beside those for single calls. Pure.

They take an array for each parameter and do, call after call in their order, what the procedure for one does: each row
is changed by a statement of its own, and one that is missing raises 20598.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.records import Operation
from rowtide.databases.postgres.quoting import quote_body, quote_literal, quote_qualified
from rowtide.replication.articles import MAX_NAME_BYTES, Article
from rowtide.replication.postgres import procedures
from rowtide.replication.postgres.procedures import SCHEMA

_PREFIX_BYTES = len("sp_MSins_")
_PREFIXES = {
    Operation.INSERT: "sp_MSinsarray_",
    Operation.UPDATE: "sp_MSupdarray_",
    Operation.DELETE: "sp_MSdelarray_",
}
"""No name of a procedure for one call begins so, whatever its table is called."""
_OTHERWISE_DELIMITED = "box"
"""Its values have commas, so that a semicolon stands between them in an array."""


def creations(article: Article, operation: Operation) -> Sequence[str]:
    """Return the statements that make an operation's array procedure; none where none is generated for one call."""
    if not procedures.is_generated(article, operation):
        return []
    parameters = ", ".join(f"{name} {type_text}" for name, type_text, _ in _parameters(article, operation))
    name = quote_qualified(SCHEMA, name_of(article, operation))
    body = quote_body(source(article, operation))
    return [
        f"create or replace procedure {name}({parameters}) language plpgsql as {body}",
        f"comment on procedure {name} is {quote_literal(procedures.mark(article))}",
    ]


def name_of(article: Article, operation: Operation) -> str:
    """Return the name of an operation's array procedure, which follows from that of the one for a single call."""
    rest = article.generated_procedure(operation)[_PREFIX_BYTES:]
    name = _PREFIXES[operation] + rest
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    suffix = f"_{article.article_id.replace('-', '')[:8]}"
    return name.encode()[: MAX_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix


def source(article: Article, operation: Operation) -> str:
    """Return the body of an operation's array procedure, as the server keeps it."""
    parameters = _parameters(article, operation)
    expressions = {name: f"{name}[i]{cast}" for name, _, cast in parameters}
    first = parameters[0][0]
    lines = [
        "#variable_conflict use_variable",
        "begin",
        f"    for i in 1 .. cardinality({first}) loop",
        *procedures.applying(article, operation, expressions.__getitem__),
        "    end loop;",
        "end",
    ]
    return "\n" + "\n".join(lines) + "\n"


def call(article: Article, operation: Operation) -> str:
    """Return the statement that calls an operation's array procedure."""
    name = quote_qualified(SCHEMA, name_of(article, operation))
    parameters = enumerate(_parameters(article, operation), 1)
    return f"call {name}({', '.join(f'${number}::{type_text}' for number, (_, type_text, _) in parameters)})"


def _parameters(article: Article, operation: Operation) -> Sequence[tuple[str, str, str]]:
    """Return names and types of the arrays, and how a value of each is cast.

    Elements are of the published types, read as the single values are; texts where an array of the type would be
    another array of more dimensions, or written in another way.
    """
    value_types = {column.type_text: column.value_type_text for column in article.columns}
    return [
        (name, "text[]", f"::{type_text}")
        if type_text.endswith("[]") or value_types.get(type_text) == _OTHERWISE_DELIMITED
        else (name, f"{type_text}[]", "")
        for name, type_text in procedures.parameters_of(article, operation)
    ]
