"""Procedures that apply an article's changes at a PostgreSQL subscriber.

(SQL Server: sp_scriptpublicationcustomprocs.) Their parameters are SQL Server's (documents 003): c1 to cn, pkc1 to
pkcm, bitmap. A procedure that does not find its row raises 20598, with the table and the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.operations import Operation
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import Part, parts_of
from rowtide.replication.targets.postgres.calls import wide_rows
from rowtide.replication.targets.postgres.calls.parameters import is_generated, parameters_of

OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
"""The operations for which procedures are generated."""
SCHEMA = "rowtide_subscriber"
"""Not the publisher's schema `rowtide`: a database may be both publisher and subscriber, and stop being either."""

RAISE_ERROR = f"""
create or replace function {SCHEMA}."sp_MSreplraiserror"(command text, table_name text, key text) returns void
language plpgsql as $body$
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

TELL_CASCADED = "select set_config('rowtide.cascaded', $1, true)"
"""Statement run before a delete that cascades; $1 is an array of the tables that the cascade reaches."""

TRUNCATE = f"""
create or replace function {SCHEMA}."sp_MStruncate"(truncated regclass) returns void
language plpgsql as $body$
begin
    if exists (select from pg_constraint c
               where c.confrelid = truncated and c.conrelid <> truncated and c.contype = 'f') then
        execute format('delete from %s', truncated);
    else
        begin
            execute format('truncate %s', truncated);
        exception when object_in_use then
            execute format('delete from %s', truncated);
        end;
    end if;
end
$body$
"""
"""The procedure called for a truncate. Tables that reference this one are truncated by calls of their own.

PostgreSQL does not truncate a table with pending deferred constraint checks, on rows that the batch changed before. It
deletes the rows then.
"""


def creations(article: Article, operation: Operation) -> Sequence[str]:
    """Return the statements that create an operation's procedure and mark its owner; empty if none is generated."""
    if not is_generated(article, operation):
        return []
    parameters = ", ".join(f"{name} {type_text}" for name, type_text in wide_rows.given(article, operation))
    name = quote_qualified(SCHEMA, article.generated_procedure(operation))
    body = quote_body(source(article, operation))
    return [
        f"create or replace procedure {name}({parameters}) language plpgsql as {body}",
        f"comment on procedure {name} is {quote_literal(mark(article))}",
    ]


def source(article: Article, operation: Operation) -> str:
    """Return the body of an operation's procedure, as the server stores it."""
    lines = ["#variable_conflict use_variable", "begin", *_body(article, operation), "end"]
    return "\n" + "\n".join(lines) + "\n"


def name_of(article: Article, operation: Operation) -> str:
    """Return the name of an operation's generated procedure."""
    return article.generated_procedure(operation)


def mark(article: Article) -> str:
    """Return the comment that marks an article's procedures: another publisher may have a table of the same name."""
    return f"rowtide: article {article.article_id}"


def call(article: Article, operation: Operation) -> str:
    """Return the statement that calls an operation's procedure, generated or custom."""
    custom = article.command(operation).procedure
    name = custom or quote_qualified(SCHEMA, article.generated_procedure(operation))
    parameters = enumerate(wide_rows.given(article, operation), 1)
    return f"call {name}({', '.join(f'${number}::{type_text}' for number, (_, type_text) in parameters)})"


def raising(article: Article, operation: Operation, key: Sequence[str]) -> str:
    """Return the call that raises 20598; `key` are expressions for the key's values, of any type, possibly null."""
    names = (f"{', ' if place else ''}{column.name} = " for place, column in enumerate(article.key_columns))
    pairs = (f"{quote_literal(name)}, {value}" for name, value in zip(names, key, strict=True))
    table = quote_literal(article.qualified_name)
    return f'{SCHEMA}."sp_MSreplraiserror"({quote_literal(operation.name)}, {table}, concat({", ".join(pairs)}))'


def _body(article: Article, operation: Operation) -> Sequence[str]:
    match operation:
        case Operation.INSERT:
            return _inserting(article)
        case Operation.UPDATE:
            return [*_updating(article), *_requiring_row(article, operation)]
        case _:
            deleting = f"    delete from {_table(article)} t where {_has_key(article, operation)};"
            return [deleting, *_requiring_row(article, operation)]


def _inserting(article: Article) -> Sequence[str]:
    names = ", ".join(quote(column.name) for column in article.columns)
    given = wide_rows.expressions(article, Operation.INSERT)
    values = ", ".join(given[f"c{place}"] for place in range(1, len(article.columns) + 1))
    return [f"    insert into {_table(article)} ({names}) overriding system value values ({values});"]


def _updating(article: Article) -> Sequence[str]:
    """Return the update's assignments.

    With a bitmap the key is set only if it changes, which spares indexes and references.
    """
    if Part.BITMAP not in parts_of(Operation.UPDATE, article.update.call_format):
        return [_update(article, with_key=True)]
    others = [column for column in article.columns if column.key_ordinal is None]
    if not others:
        return [_update(article, with_key=True)]
    changes = (
        f"get_bit(bitmap, {place}) = 1"
        for place, column in enumerate(article.columns)
        if column.key_ordinal is not None
    )
    return [
        f"    if {' or '.join(changes)} then",
        f"    {_update(article, with_key=True)}",
        "    else",
        f"    {_update(article, with_key=False)}",
        "    end if;",
    ]


def _update(article: Article, *, with_key: bool) -> str:
    has_bitmap = Part.BITMAP in parts_of(Operation.UPDATE, article.update.call_format)
    given = wide_rows.expressions(article, Operation.UPDATE)
    values = (
        f"{quote(column.name)} = "
        + (
            f"case when get_bit(bitmap, {place}) = 1 then {given[f'c{place + 1}']} else t.{quote(column.name)} end"
            if has_bitmap
            else given[f"c{place + 1}"]
        )
        for place, column in enumerate(article.columns)
        if with_key or column.key_ordinal is None
    )
    return f"    update {_table(article)} t set {', '.join(values)} where {_has_key(article, Operation.UPDATE)};"


def _requiring_row(article: Article, operation: Operation) -> Sequence[str]:
    return [
        "    if not found then",
        f"        perform {raising(article, operation, _old_key_values(article, operation))};",
        "    end if;",
    ]


def _has_key(article: Article, operation: Operation) -> str:
    return " and ".join(
        f"t.{quote(column.name)} = {parameter}"
        for column, parameter in zip(article.key_columns, _old_key_values(article, operation), strict=True)
    )


def _old_key_values(article: Article, operation: Operation) -> Sequence[str]:
    given = wide_rows.expressions(article, operation)
    return [given[name] for name in old_key(article, operation)]


def old_key(article: Article, operation: Operation) -> Sequence[str]:
    """Return the parameters with the key before the change."""
    if Part.OLD in parts_of(operation, article.command(operation).call_format):
        return [f"old_c{article.columns.index(column) + 1}" for column in article.key_columns]
    return [f"pkc{place}" for place in range(1, len(article.key_columns) + 1)]


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
