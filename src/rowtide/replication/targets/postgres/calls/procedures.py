"""Procedures that apply an article's changes at a PostgreSQL subscriber.

(SQL Server: sp_scriptpublicationcustomprocs.) Their parameters are SQL Server's (documents 003): c1 to cn, pkc1 to
pkcm, bitmap. A procedure that does not find its row raises 20598, with the table and the key.

Rows with more columns than a procedure can have parameters are passed as arrays of text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rowtide.core.operations import Operation
from rowtide.databases.postgres.functions import OWN_PATH
from rowtide.databases.postgres.owner_functions import SETTINGS, functions_path
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_body, quote_literal, quote_qualified
from rowtide.databases.postgres.values import value_of
from rowtide.replication.articles.articles import MAX_PARAMETERS, Article
from rowtide.replication.articles.call_formats import ArgumentGroup, CallFormat, parts_of
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable

if TYPE_CHECKING:
    from rowtide.replication.distribution.calls.arguments import Arguments


def is_generated(article: Article, operation: Operation) -> bool:
    """Return whether an operation calls a procedure that rowtide generates."""
    command = article.command(operation)
    return command.call_format not in (CallFormat.SQL, CallFormat.NONE) and command.procedure is None


def parameters_of(article: Article, operation: Operation) -> Sequence[tuple[str, str]]:
    """Return a procedure's parameter names and types, in order; see `is_wide` if there are too many."""
    parameters: list[tuple[str, str]] = []
    for part in parts_of(operation, article.command(operation).call_format):
        match part:
            case ArgumentGroup.NEW:
                parameters += [(f"c{index}", column.type_text) for index, column in enumerate(article.columns, 1)]
            case ArgumentGroup.CHANGED:
                # A domain may refuse the null that stands where nothing changed.
                columns = enumerate(article.columns, 1)
                parameters += [(f"c{place}", column.value_type_text) for place, column in columns]
            case ArgumentGroup.OLD:
                parameters += [(f"old_c{index}", column.type_text) for index, column in enumerate(article.columns, 1)]
            case ArgumentGroup.OLD_KEY:
                keys = enumerate(article.key_columns, 1)
                parameters += [(f"pkc{place}", column.type_text) for place, column in keys]
            case ArgumentGroup.BITMAP:
                parameters.append(("bitmap", "bytea"))
    return parameters


# No value of PostgreSQL has a zero byte: the separator of values and the sign for NULL begin with one.
_BETWEEN = b"\0,"
_NULL = b"\0n"
_NULL_IN_QUOTES = b'"\0n"'


def array_literal(values: Sequence[bytes | None]) -> bytes:
    """Return a one-dimensional array of at least one value; None is NULL."""
    joined = _BETWEEN.join([_NULL if value is None else value for value in values])
    escaped = joined.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
    quoted = b'{"' + escaped.replace(_BETWEEN, b'","') + b'"}'
    return quoted.replace(_NULL_IN_QUOTES, b"NULL")


_ROWS = {
    ArgumentGroup.NEW: ("new_row", "c"),
    ArgumentGroup.CHANGED: ("new_row", "c"),
    ArgumentGroup.OLD: ("old_row", "old_c"),
}
"""The parameter for each part, and the names of its columns elsewhere."""
_READINGS = {"regclass": "pg_catalog.regclassin(pg_catalog.textout({}))"}
"""Types whose cast from text differs from their input function."""


def read_text(text: str, type_text: str) -> str:
    """Return the expression of a value that an expression has as text, by its type's input function."""
    return _READINGS[type_text].format(text) if type_text in _READINGS else value_of(text, type_text)


def is_wide(article: Article, operation: Operation) -> bool:
    """Return whether a generated procedure would need more parameters than PostgreSQL allows."""
    return is_generated(article, operation) and len(parameters_of(article, operation)) > MAX_PARAMETERS


def given_wide(article: Article, operation: Operation) -> Sequence[tuple[str, str]]:
    """Return the names and types of a procedure's parameters, in order.

    Rows are arrays of text, not of a row type: the subscriber's table may have other columns than those published, and
    a type of the article's own would have to be created, altered and dropped with it. A row of 1,600 columns takes the
    server some milliseconds.
    """
    flat = parameters_of(article, operation)
    if not is_wide(article, operation):
        return flat
    others = {
        name: (name, type_text) for name, type_text in flat if name not in _expressions_of_rows(article, operation)
    }
    rows = [_ROWS[part][0] for part in _parts(article, operation) if part in _ROWS]
    return [*((row, "text[]") for row in rows), *others.values()]


def wide_expressions(article: Article, operation: Operation) -> Mapping[str, str]:
    """Return the expression, in a procedure's body, of each value, by its name in `parameters_of`."""
    plain = {name: name for name, _ in parameters_of(article, operation)}
    return {**plain, **_expressions_of_rows(article, operation)} if is_wide(article, operation) else plain


def pack_wide(article: Article, operation: Operation, arguments: Arguments) -> Arguments:
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
        f"{prefix}{index}": read_text(f"{row}[{index}]", column.value_type_text)
        for row, prefix in (_ROWS[part] for part in _parts(article, operation) if part in _ROWS)
        for index, column in enumerate(article.columns, 1)
    }


def _parts(article: Article, operation: Operation) -> Sequence[ArgumentGroup]:
    return parts_of(operation, article.command(operation).call_format)


def _size(article: Article, part: ArgumentGroup) -> int:
    if part in _ROWS:
        return len(article.columns)
    return len(article.key_columns) if part is ArgumentGroup.OLD_KEY else 1


OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
"""The operations for which procedures are generated."""
SCHEMA = "rowtide_subscriber"
"""Not the publisher's schema `rowtide`: a database may be both publisher and subscriber, and stop being either.

Disabling a publisher drops `rowtide`, and enabling one refuses to find it. This one goes with the last subscription.
"""

OWN_SETTINGS = "set search_path = pg_catalog, pg_temp set standard_conforming_strings = on"
"""The settings of functions that run none of users' code, also those that are called where users' code has run."""

RAISE_ERROR = f"""
create or replace function {SCHEMA}."sp_MSreplraiserror"(command text, table_name text, key text) returns void
language plpgsql {OWN_SETTINGS} as $body$
begin
    if command = 'DELETE' and table_name = any(nullif(current_setting('rowtide.cascaded', true), '')::text[]) then
        return;
    end if;
    raise exception using errcode = '20598', table = table_name, detail = key, message = format(
        'The row was not found at the Subscriber when applying the replicated %s command for table %s with key %s.',
        command, table_name, key);
end
$body$
"""
"""The procedure called if a row is not found (SQL Server: sp_MSreplraiserror).

It raises nothing for a delete whose row a cascade of the same batch has deleted.
"""

REPORT_CASCADED = "select set_config('rowtide.cascaded', $1, true)"
"""Statement run before a delete that cascades; $1 is an array of the tables that the cascade reaches."""

REQUIRE_ROWS = f"""
create or replace function {SCHEMA}."sp_MSrequirerows"(
    changed bigint, wanted bigint, command text, table_name text, key text) returns void
language plpgsql {OWN_SETTINGS} as $body$
begin
    if changed is distinct from wanted then
        perform {SCHEMA}."sp_MSreplraiserror"(command, table_name, key);
    end if;
end
$body$
"""
"""The function that raises 20598 for a statement that was executed by `owner_functions`."""

REQUIRED = f'select {SCHEMA}."sp_MSrequirerows"({{}}($1, $2), $3, $4, $5, $6)'
"""The statement that executes another by a function: its text, its values as an array, and how many rows it changes."""


def truncating(table: str) -> str:
    """Return the statement that empties a table, given by its quoted name.

    Tables that reference this one are truncated by calls of their own. PostgreSQL does not truncate a table with
    pending deferred constraint checks, on rows that the batch changed before. It deletes the rows then.
    """
    body = f"""
declare
    truncated pg_catalog.oid := {quote_literal(table)}::pg_catalog.regclass::pg_catalog.oid;
begin
    if exists (select from pg_catalog.pg_constraint c
               where c.confrelid operator(pg_catalog.=) truncated and c.conrelid operator(pg_catalog.<>) truncated
                   and c.contype operator(pg_catalog.=) 'f'::pg_catalog."char") then
        delete from {table};
    else
        begin
            truncate {table};
        exception when object_in_use then
            delete from {table};
        end;
    end if;
end"""
    return f"do {quote_body(body)}"


def creations(article: Article, operation: Operation, table: WrittenTable) -> Sequence[str]:
    """Return the statements that create an operation's procedure and mark its owner; empty if none is generated.

    None is for a table of another role, which the owner's functions write.
    """
    if not is_generated(article, operation) or table.is_others:
        return []
    parameters = ", ".join(f"{name} {type_text}" for name, type_text in given_wide(article, operation))
    name = quote_qualified(SCHEMA, article.generated_procedure(operation))
    return creating(article, name, parameters, source(article, operation, table))


def creating(article: Article, name: str, parameters: str, body: str) -> Sequence[str]:
    """Return the statements, for one transaction, that create a procedure in which users' code runs.

    It runs under the path of the role that creates it.
    """
    return [
        *functions_path(),
        f"create or replace procedure {name}({parameters}) language plpgsql {SETTINGS} as {quote_body(body)}",
        OWN_PATH,
        f"comment on procedure {name} is {quote_literal(mark(article))}",
    ]


def source(article: Article, operation: Operation, table: WrittenTable) -> str:
    """Return the body of an operation's procedure, as the server stores it."""
    # A column of the table may have the name of a parameter: a bare name is the parameter, columns are qualified.
    lines = ["#variable_conflict use_variable", "begin", *_body(article, operation, table), "end"]
    return "\n" + "\n".join(lines) + "\n"


def name_of(article: Article, operation: Operation) -> str:
    """Return the name of an operation's generated procedure."""
    return article.generated_procedure(operation)


def mark(article: Article) -> str:
    """Return the comment that marks an article's procedures: another publisher may have a table of the same name."""
    return f"rowtide: article {article.article_id}"


def call(article: Article, operation: Operation) -> str:
    """Return the statement that calls an operation's generated procedure."""
    name = quote_qualified(SCHEMA, article.generated_procedure(operation))
    parameters = enumerate(given_wide(article, operation), 1)
    return f"call {name}({', '.join(f'${number}::{type_text}' for number, (_, type_text) in parameters)})"


def raising(article: Article, operation: Operation, key: Sequence[str]) -> str:
    """Return the call that raises 20598; `key` are expressions for the key's values, of any type, possibly null."""
    names = (f"{', ' if index else ''}{column.name} = " for index, column in enumerate(article.key_columns))
    pairs = (f"{quote_literal(name)}, {value}" for name, value in zip(names, key, strict=True))
    table = quote_literal(article.qualified_name)
    given = f"{quote_literal(operation.name)}, {table}, pg_catalog.concat({', '.join(pairs)})"
    return f'{SCHEMA}."sp_MSreplraiserror"({given})'


def _body(article: Article, operation: Operation, table: WrittenTable) -> Sequence[str]:
    given = wide_expressions(article, operation)
    match operation:
        case Operation.INSERT:
            return [f"    {inserting(article, given)};"]
        case Operation.UPDATE:
            return [*_updating(article, given, table), *_requiring_row(article, operation)]
        case _:
            return [f"    {deleting(article, given, table)};", *_requiring_row(article, operation)]


def inserting(article: Article, given: Mapping[str, str]) -> str:
    """Return the statement that inserts a row; `given` are the expressions of values, as `parameters_of` names them."""
    names = ", ".join(quote(column.name) for column in article.columns)
    values = ", ".join(given[f"c{index}"] for index in range(1, len(article.columns) + 1))
    # Overriding: identity columns that are `generated always` take the publisher's numbers, too.
    return f"insert into {_table(article)} ({names}) overriding system value values ({values})"


def deleting(article: Article, given: Mapping[str, str], table: WrittenTable) -> str:
    """Return the statement that deletes a row; `given` as for `inserting`."""
    return f"delete from {_table(article)} t where {_key_condition(article, Operation.DELETE, given, table)}"


def _updating(article: Article, given: Mapping[str, str], table: WrittenTable) -> Sequence[str]:
    """Return the update's assignments.

    With a bitmap the key is set only if it changes, which spares indexes and references.
    """
    places = key_bits(article)
    if not places:
        return [f"    {updating(article, given, table, with_key=True)};"]
    changes = (f"pg_catalog.get_bit(bitmap, {place}) {EQUALS} 1" for place in places)
    return [
        f"    if {' or '.join(changes)} then",
        f"        {updating(article, given, table, with_key=True)};",
        "    else",
        f"        {updating(article, given, table, with_key=False)};",
        "    end if;",
    ]


def key_bits(article: Article) -> Sequence[int]:
    """Return the bits of an update's bitmap that are the key's, if it decides whether the key is set; else none."""
    has_bitmap = ArgumentGroup.BITMAP in parts_of(Operation.UPDATE, article.update.call_format)
    if not has_bitmap or all(column.key_ordinal is not None for column in article.columns):
        return []
    return [index for index, column in enumerate(article.columns) if column.key_ordinal is not None]


def updating(article: Article, given: Mapping[str, str], table: WrittenTable, *, with_key: bool) -> str:
    """Return the statement that updates a row; `given` as for `inserting`."""
    values = (
        f"{quote(column.name)} = "
        + (
            f"case when pg_catalog.get_bit({given['bitmap']}, {index}) {EQUALS} 1 then {given[f'c{index + 1}']} "
            f"else t.{quote(column.name)} end"
            if "bitmap" in given
            else given[f"c{index + 1}"]
        )
        for index, column in enumerate(article.columns)
        if with_key or column.key_ordinal is None
    )
    has_key = _key_condition(article, Operation.UPDATE, given, table)
    return f"update {_table(article)} t set {', '.join(values)} where {has_key}"


def _requiring_row(article: Article, operation: Operation) -> Sequence[str]:
    return [
        "    if not found then",
        f"        perform {raising(article, operation, _old_key_values(article, operation))};",
        "    end if;",
    ]


def _key_condition(article: Article, operation: Operation, given: Mapping[str, str], table: WrittenTable) -> str:
    pairs = zip(article.key_columns, old_key(article, operation), strict=True)
    return " and ".join(table.equals(column, f"t.{quote(column.name)}", given[name]) for column, name in pairs)


def _old_key_values(article: Article, operation: Operation) -> Sequence[str]:
    given = wide_expressions(article, operation)
    return [given[name] for name in old_key(article, operation)]


def old_key(article: Article, operation: Operation) -> Sequence[str]:
    """Return the parameters with the key before the change."""
    if ArgumentGroup.OLD in parts_of(operation, article.command(operation).call_format):
        return [f"old_c{article.columns.index(column) + 1}" for column in article.key_columns]
    return [f"pkc{index}" for index in range(1, len(article.key_columns) + 1)]


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)


def key_of(article: Article, operation: Operation, arguments: Sequence[bytes | None]) -> str:
    """Return a call's key in readable form; a truncate is about all rows."""
    if operation is Operation.TRUNCATE:
        return "any"
    names = [name for name, _ in parameters_of(article, operation)]
    wanted = (
        [f"c{article.columns.index(column) + 1}" for column in article.key_columns]
        if operation is Operation.INSERT
        else old_key(article, operation)
    )
    values = (arguments[names.index(name)] if arguments else None for name in wanted)
    return ", ".join(
        f"{column.name} = {'NULL' if value is None else value.decode(errors='replace')}"
        for column, value in zip(article.key_columns, values, strict=True)
    )
