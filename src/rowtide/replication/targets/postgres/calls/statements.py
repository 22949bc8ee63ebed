"""Calls at a PostgreSQL subscriber that are no calls of generated procedures: statements that a function executes.

They are for tables of other roles, which the function has the rights of, for articles with plain statements, and for
procedures that users wrote or edited: these find by the role's own path what they name. Each takes the texts of all
values as one array. Pure.

Custom procedures, checked when a subscription is added, not when the first change arrives.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.postgres.search_path import USERS_PATH
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distribution.calls.encoding import columns_of
from rowtide.replication.errors.subscribers import ProcedureEndsTransaction, ProcedureUnfit
from rowtide.replication.targets.postgres.calls import array_procedures, procedures
from rowtide.replication.targets.postgres.calls.procedures import is_generated, parameters_of, read_text
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable

if TYPE_CHECKING:
    from rowtide.replication.distribution.calls.encoding import Arguments


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
    return array_procedures.changing(article, operation, values, places, table)


def copying(article: Article, rows: str) -> tuple[str, str]:
    """Return the statement that inserts many rows, and the expression of its values over a table of their texts.

    The table has the columns `c1` and so on.
    """
    places = range(1, len(article.columns) + 1)
    given = _unnested([f"c{place}" for place in places])
    columns = enumerate(article.columns, 1)
    values = {f"c{place}": read_text(f"g.c{place}", column.type_text) for place, column in columns}
    inserting = array_procedures.changing(article, Operation.INSERT, values, given, WrittenTable())
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
    values = (f"${place}::{type_text}" for place, (_, type_text) in enumerate(parameters_of(article, operation), 1))
    return f"call {article.command(operation).procedure}({', '.join(values)})"


def arguments_of(article: Article, operation: Operation, arguments: Arguments, *, is_edited: bool) -> Arguments:
    """Return the values that a statement takes: those of all columns, or of an edited procedure for wide rows."""
    is_packed = _calls(article, operation, is_edited=is_edited) and procedures.is_wide(article, operation)
    return procedures.pack_wide(article, operation, arguments) if is_packed else arguments


def _unnested(names: Sequence[str]) -> str:
    """Return the relation of a statement's values, each of which is an array."""
    arrays = (f"pg_catalog.unnest(($1)[{place}]::pg_catalog.text[])" for place in range(1, len(names) + 1))
    return f"rows from ({', '.join(arrays)}) g ({', '.join(names)})"


def _calls(article: Article, operation: Operation, *, is_edited: bool) -> bool:
    if operation is Operation.TRUNCATE:
        return False
    command = article.command(operation)
    return command.call_format is not CallFormat.SQL and (command.procedure is not None or is_edited)


def _sets_key(article: Article, arguments: Sequence[bytes | None]) -> bool:
    """Return whether an update changes the key, as far as its bitmap says."""
    bits = procedures.key_bits(article)
    if not bits:
        return True
    bitmap = arguments[-1]
    assert bitmap is not None
    return not set(bits).isdisjoint(columns_of(bitmap))


_NOT_CODE = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"", re.DOTALL)
_ENDS_TRANSACTION = re.compile(r"(?:^|;|\bbegin|\bthen|\belse|\bloop)\s*(commit|rollback)\b", re.IGNORECASE)


def require_custom(connection: psycopg.Connection, article: Article) -> None:
    """Raise `ProcedureUnfit` or `ProcedureEndsTransaction` for a custom procedure that cannot be called.

    The server itself resolves a call with the published types.
    """
    for operation in (Operation.INSERT, Operation.UPDATE, Operation.DELETE):
        procedure = article.command(operation).procedure
        if procedure is not None:
            wanted = ", ".join(" ".join(parameter) for parameter in parameters_of(article, operation))
            refusal = _refusal(connection, resolving(article, operation))
            if refusal is not None:
                raise ProcedureUnfit(procedure, operation.name.lower(), wanted, refusal)
            _require_no_end(connection, procedure)


def _refusal(connection: psycopg.Connection, call: str) -> str | None:
    with translated(), connection.transaction() as finding:
        connection.execute(USERS_PATH)
        result = connection.pgconn.prepare(b"", call.encode())
        # The path is as before then.
        raise psycopg.Rollback(finding)
    if result.status == pq.ExecStatus.COMMAND_OK:
        return None
    return (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")


def _require_no_end(connection: psycopg.Connection, procedure: str) -> None:
    """Raise `ProcedureEndsTransaction`: a procedure runs within its batch's transaction."""
    with translated():
        rows = connection.execute(_SOURCES, (procedure,)).fetchall()
    for (source,) in rows:
        found = _ENDS_TRANSACTION.search(_NOT_CODE.sub(" ", source))
        if found is not None:
            raise ProcedureEndsTransaction(procedure, found[1].lower())


# Of all procedures of the name: which one a call finds, the server alone knows.
_SOURCES = """
select p.prosrc from pg_proc p, parse_ident(%s) name where p.proname = name[cardinality(name)]
"""
