"""Calls at a PostgreSQL subscriber besides generated procedures: statements, and many calls at once. Pure.

They are used for tables that other roles own, for articles with plain statements, and for procedures that users wrote
or edited, which look names up in the role's own search_path. A function executes them, with the rights of the table's
owner if that is another role. Each takes the texts of all values as one array. Operators are qualified, since the path
may be a user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rowtide.core.operations import Operation
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distribution.calls.arguments import columns_of
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.calls.procedures import (
    is_generated,
    parameters_of,
    read_text,
)
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable

if TYPE_CHECKING:
    from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.targets.postgres.calls.array_procedures import changing


def is_executed(article: Article, operation: Operation, table: WrittenTable, *, is_edited: bool) -> bool:
    """Return whether an operation's calls are statements that a function executes."""
    return table.is_others or is_edited or operation is Operation.TRUNCATE or not is_generated(article, operation)


def is_checked(article: Article, operation: Operation, *, is_edited: bool) -> bool:
    """Return whether the function's caller raises 20598 if no row is changed: a user's procedure does so itself."""
    return operation in (Operation.UPDATE, Operation.DELETE) and not _calls(article, operation, is_edited=is_edited)


def statement(
    article: Article, operation: Operation, arguments: Arguments, table: WrittenTable, *, is_edited: bool
) -> str:
    """Return the statement of one call, with values `($1)[1]`, `($1)[2]` and so on in the arguments' order."""
    if operation is Operation.TRUNCATE:
        return procedures.truncating(quote_qualified(article.schema, article.table))
    if _calls(article, operation, is_edited=is_edited):
        return call(article, operation)
    parameters = enumerate(parameters_of(article, operation), 1)
    given = {name: read_text(f"($1)[{place}]", type_text) for place, (name, type_text) in parameters}
    match operation:
        case Operation.INSERT:
            return procedures.inserting(article, given)
        case Operation.UPDATE:
            return procedures.updating(article, given, table, with_key=_sets_key(article, arguments))
        case _:
            return procedures.deleting(article, given, table)


def array_statement(article: Article, operation: Operation, table: WrittenTable) -> str:
    """Return the statement of many calls; value `($1)[n]` is an array of the nth argument of all."""
    parameters = parameters_of(article, operation)
    places = _unnested([name for name, _ in parameters])
    values = {name: read_text(f"g.{name}", type_text) for name, type_text in parameters}
    return changing(article, operation, values, places, table)


def copying(article: Article, rows: str) -> tuple[str, str]:
    """Return the statement that inserts many rows, and the expression of its values over a table of their texts.

    The table has the columns `c1` and so on.
    """
    places = range(1, len(article.columns) + 1)
    given = _unnested([f"c{place}" for place in places])
    columns = enumerate(article.columns, 1)
    values = {f"c{place}": read_text(f"g.c{place}", column.type_text) for place, column in columns}
    inserting = changing(article, Operation.INSERT, values, given, WrittenTable())
    texts = ", ".join(f"array_agg(c{place})::text" for place in places)
    return inserting, f"(select array[{texts}] from {rows})"


def call(article: Article, operation: Operation) -> str:
    """Return the statement that calls a user's procedure, with its values as those of `statement`."""
    generated = quote_qualified(procedures.SCHEMA, article.generated_procedure(operation))
    parameters = enumerate(procedures.given_wide(article, operation), 1)
    values = ", ".join(read_text(f"($1)[{place}]", type_text) for place, (_, type_text) in parameters)
    return f"call {article.command(operation).procedure or generated}({values})"


def resolving(article: Article, operation: Operation) -> str:
    """Return a call of a user's procedure with values of the published types, by which the server finds it."""
    values = (f"${index}::{type_text}" for index, (_, type_text) in enumerate(parameters_of(article, operation), 1))
    return f"call {article.command(operation).procedure}({', '.join(values)})"


def arguments_of(article: Article, operation: Operation, arguments: Arguments, *, is_edited: bool) -> Arguments:
    """Return the values that a statement takes: those of all columns, or of an edited procedure for wide rows."""
    is_packed = _calls(article, operation, is_edited=is_edited) and procedures.is_wide(article, operation)
    return procedures.pack_wide(article, operation, arguments) if is_packed else arguments


def _unnested(names: Sequence[str]) -> str:
    """Return the relation of a statement's values, each of which is an array."""
    arrays = (f"pg_catalog.unnest(($1)[{index}]::pg_catalog.text[])" for index in range(1, len(names) + 1))
    return f"rows from ({', '.join(arrays)}) g ({', '.join(names)})"


def _calls(article: Article, operation: Operation, *, is_edited: bool) -> bool:
    if operation is Operation.TRUNCATE:
        return False
    command = article.command(operation)
    return command.call_format is not CallFormat.SQL and (command.procedure is not None or is_edited)


def _sets_key(article: Article, arguments: Sequence[bytes | None]) -> bool:
    """Return whether an update changes the key, by its bitmap."""
    bits = procedures.key_bits(article)
    if not bits:
        return True
    bitmap = arguments[-1]
    assert bitmap is not None
    return not set(bits).isdisjoint(columns_of(bitmap))
