"""The procedures that apply an article's changes at a PostgreSQL subscriber.

(SQL Server: sp_scriptpublicationcustomprocs.)

Their parameters are the documents' (003): c1 to cn, pkc1 to pkcm, bitmap. One whose row is not there raises 20598, with
the table and the key.
"""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.operations import Operation
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.replication.articles import Article
from rowtide.replication.call_formats import Part, parts_of
from rowtide.replication.targets.postgres.calls import wide_rows
from rowtide.replication.targets.postgres.calls.parameters import is_generated, parameters_of

OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
"""Those that procedures are made for."""
SCHEMA = "rowtide_subscriber"
"""Apart from the schema `rowtide` of a publisher: a database may be both, and cease to be either."""

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
"""What a procedure calls whose row is not there (SQL Server: sp_MSreplraiserror).

A delete that comes behind a cascade of the same batch has nothing left to do.
"""

TELL_CASCADED = "select set_config('rowtide.cascaded', $1, true)"
"""What the agent runs before a delete that cascades: $1 is an array of the tables that it reaches, for the batch."""

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
"""What a truncate calls: tables that refer to this one were truncated by the same statement, and come one by one.

PostgreSQL truncates no table of which rows still have to be checked: those that the batch changed before, under a
deferred constraint. They can be deleted.
"""


def creations(article: Article, operation: Operation) -> Sequence[str]:
    """Return the statements that make an operation's procedure and say whose it is; none where none is generated."""
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
    """Return the body of an operation's procedure, as the server keeps it."""
    lines = ["#variable_conflict use_variable", "begin", *_body(article, operation), "end"]
    return "\n" + "\n".join(lines) + "\n"


def name_of(article: Article, operation: Operation) -> str:
    """Return the name of an operation's generated procedure."""
    return article.generated_procedure(operation)


def mark(article: Article) -> str:
    """Return the comment of an article's procedures: another publisher may have a table of the same name."""
    return f"rowtide: article {article.article_id}"


def call(article: Article, operation: Operation) -> str:
    """Return the statement that calls an operation's procedure, generated or custom."""
    custom = article.command(operation).procedure
    name = custom or quote_qualified(SCHEMA, article.generated_procedure(operation))
    parameters = enumerate(wide_rows.given(article, operation), 1)
    return f"call {name}({', '.join(f'${number}::{type_text}' for number, (_, type_text) in parameters)})"


def raising(article: Article, operation: Operation, key: Sequence[str]) -> str:
    """Return the call that raises 20598; `key` are expressions for the key's values, of any types, null perhaps."""
    names = (f"{', ' if place else ''}{column.name} = " for place, column in enumerate(article.key_columns))
    pairs = (f"{quote_literal(name)}, {value}" for name, value in zip(names, key, strict=True))
    table = quote_literal(f"{article.schema}.{article.table}")
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
    """With a bitmap the key is set only where it changes: indexes and references to it are spared."""
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
    """Return the parameters that have the key before the change."""
    if Part.OLD in parts_of(operation, article.command(operation).call_format):
        return [f"old_c{article.columns.index(column) + 1}" for column in article.key_columns]
    return [f"pkc{place}" for place in range(1, len(article.key_columns) + 1)]


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)


def key_of(article: Article, operation: Operation, arguments: Sequence[bytes | None]) -> str:
    """Return the key that a call is about, for people; a truncate is about all rows."""
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
