"""Calls at a PostgreSQL subscriber besides generated procedures: statements, and many calls at once. Pure.

They are for tables of other roles, which the function has the rights of, for articles with plain statements, and for
procedures that users wrote or edited: these find by the role's own path what they name. Each takes the texts of all
values as one array. Pure.

Custom procedures, checked when a subscription is added, not when the first change arrives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import psycopg
from psycopg import pq

from rowtide.core.operations import Operation
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import USERS_PATH
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_qualified
from rowtide.replication.articles.articles import MAX_NAME_BYTES, Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distribution.calls.arguments import columns_of
from rowtide.replication.errors.subscribing import ProcedureEndsTransaction, ProcedureUnfit
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.calls.procedures import (
    SCHEMA,
    is_generated,
    is_generated as is_generated_single,
    is_wide,
    parameters_of,
    read_text,
)
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable

if TYPE_CHECKING:
    from rowtide.replication.distribution.calls.arguments import Arguments


# Procedures that apply many calls of one article and operation at once. Pure. They take one array per parameter, and
# change all rows with one statement. The result is that of single calls as long as each is about a different row and
# none changes its key, which `distribution.calls.runs` ensures. Otherwise the number of rows differs from that of the
# calls, or a constraint is violated; the batch is then rolled back and delivered call by call.

_PREFIX_BYTES = len("sp_MSins_")
_PREFIXES = {
    Operation.INSERT: "sp_MSinsarray_",
    Operation.UPDATE: "sp_MSupdarray_",
    Operation.DELETE: "sp_MSdelarray_",
}
"""No procedure for single calls has a name with one of these prefixes, whatever its table's name."""
_OTHERWISE_DELIMITED = "box"
"""Types whose values contain commas, so that array elements are separated by semicolons."""


def creations(article: Article, operation: Operation, table: WrittenTable) -> Sequence[str]:
    """Return the statements that create an operation's array procedure; empty if it has none."""
    if not is_array_generated(article, operation) or table.is_others:
        return []
    parameters = ", ".join(f"{name} {type_text}" for name, type_text, _ in _parameters(article, operation))
    name = quote_qualified(SCHEMA, name_of(article, operation))
    return procedures.creating(article, name, parameters, source(article, operation, table))


def is_array_generated(article: Article, operation: Operation) -> bool:
    """Return whether an operation has one: its single calls are generated, and an update sets more than the key.

    Wide tables have none: their rows are arrays already.
    """
    has_work = operation is not Operation.UPDATE or len(article.columns) > len(article.key_columns)
    return is_generated_single(article, operation) and has_work and not is_wide(article, operation)


def name_of(article: Article, operation: Operation) -> str:
    """Return the name of an operation's array procedure, derived from that for single calls."""
    rest = article.generated_procedure(operation)[_PREFIX_BYTES:]
    name = _PREFIXES[operation] + rest
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    suffix = f"_{article.article_id.replace('-', '')[:8]}"
    return name.encode()[: MAX_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix


def source(article: Article, operation: Operation, table: WrittenTable) -> str:
    """Return the body of an operation's array procedure, as the server stores it."""
    parameters = _parameters(article, operation)
    values = {name: f"{name}[g.i]{cast}" for name, _, cast in parameters}
    # An array of the places, since a server takes an array for short, a series for long: it looks rows up by the key.
    count = f"pg_catalog.cardinality({parameters[0][0]})"
    places = f"pg_catalog.unnest(array(select pg_catalog.generate_series(1, {count}))) g (i)"
    raising = procedures.raising(article, operation, ["null"] * len(article.key_columns))
    lines = [
        "#variable_conflict use_variable",
        "declare",
        "    changed bigint;",
        "begin",
        f"    {changing(article, operation, values, places, table)};",
        "    get diagnostics changed = row_count;",
        f"    if changed operator(pg_catalog.<>) {count} then",
        f"        perform {raising};",
        "    end if;",
        "end",
    ]
    return "\n" + "\n".join(lines) + "\n"


def array_call(article: Article, operation: Operation) -> str:
    """Return the statement that calls an operation's array procedure."""
    name = quote_qualified(SCHEMA, name_of(article, operation))
    parameters = enumerate(_parameters(article, operation), 1)
    return f"call {name}({', '.join(f'${number}::{type_text}' for number, (_, type_text, _) in parameters)})"


def _parameters(article: Article, operation: Operation) -> Sequence[tuple[str, str, str]]:
    """Return names and types of the arrays, and the cast of each one's elements.

    Elements have the published types, as in single calls; or text if an array of the type would have more dimensions or
    another syntax.
    """
    value_types = {column.type_text: column.value_type_text for column in article.columns}
    return [
        (name, "text[]", f"::{type_text}")
        if type_text.endswith("[]") or value_types.get(type_text, type_text) == _OTHERWISE_DELIMITED
        else (name, f"{type_text}[]", "")
        for name, type_text in parameters_of(article, operation)
    ]


def changing(
    article: Article, operation: Operation, values: Mapping[str, str], places: str, table: WrittenTable
) -> str:
    """Return the statement that changes several rows; `values` are expressions over what `places`, a relation, has."""
    return _STATEMENTS[operation](article, values, places, table)


def _insert(article: Article, values: Mapping[str, str], places: str, _written: WrittenTable) -> str:
    names = ", ".join(quote(column.name) for column in article.columns)
    given = ", ".join(values[f"c{index}"] for index in range(1, len(article.columns) + 1))
    return f"insert into {_table(article)} ({names}) overriding system value select {given} from {places}"


def _update(article: Article, values: Mapping[str, str], places: str, table: WrittenTable) -> str:
    changes = []
    for index, column in enumerate(article.columns):
        if column.key_ordinal is None:
            name, value = quote(column.name), values[f"c{index + 1}"]
            if "bitmap" in values:
                bit = f"pg_catalog.get_bit({values['bitmap']}, {index})"
                value = f"case when {bit} {EQUALS} 1 then {value} else t.{name} end"
            changes.append(f"{name} = {value}")
    has_key = _key_condition(article, Operation.UPDATE, values, table)
    return f"update {_table(article)} t set {', '.join(changes)} from {places} where {has_key}"


def _delete(article: Article, values: Mapping[str, str], places: str, table: WrittenTable) -> str:
    has_key = _key_condition(article, Operation.DELETE, values, table)
    return f"delete from {_table(article)} t using {places} where {has_key}"


def _key_condition(article: Article, operation: Operation, values: Mapping[str, str], table: WrittenTable) -> str:
    pairs = zip(article.key_columns, procedures.old_key(article, operation), strict=True)
    return " and ".join(table.equals(column, f"t.{quote(column.name)}", values[name]) for column, name in pairs)


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)


_STATEMENTS: Mapping[Operation, Callable[[Article, Mapping[str, str], str, WrittenTable], str]] = {
    Operation.INSERT: _insert,
    Operation.UPDATE: _update,
    Operation.DELETE: _delete,
}


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
