"""A schema change of an article at a PostgreSQL subscriber, as statements. Pure.

Columns get no default there: their values come from the publisher. What may run code of the table's owner is run by the
table's `writer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import assert_never

from rowtide.databases.postgres.alterations import LOCK_TIMEOUT_S
from rowtide.databases.postgres.functions import close_all
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_body, quote_literal, quote_qualified
from rowtide.replication.articles.articles import Article, GeneratedColumn, PublishedColumn, encode_article
from rowtide.replication.articles.schema_changes import (
    ArticleTableRenamed,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    ExpressionDropped,
    Followed,
    GeneratedAltered,
    NullsChanged,
    SchemaChange,
)
from rowtide.replication.targets.postgres import progress
from rowtide.replication.targets.postgres.calls import array_procedures, procedures
from rowtide.replication.targets.postgres.calls.written_table import Writer, WrittenTable
from rowtide.replication.targets.postgres.schema.views import beside_views

_KINDS = (procedures, array_procedures)
OF_ROWS = ("55006", "23503")
"""SQLSTATEs by which the server refuses to alter a table for rows of the transaction that are still to be checked, or
fail the check. What else refuses it is there in every transaction.
"""


def within_batch(statements: Iterable[str]) -> Sequence[str]:
    """Return statements that alter tables as they are run in a batch, between its calls."""
    return (
        # Readers of the table would wait behind this session for as long as it waits.
        f"set local lock_timeout = '{LOCK_TIMEOUT_S}s'",
        *statements,
        "set local lock_timeout = 0",
    )


def among_calls(table: tuple[str, str], change: SchemaChange, writer: Writer) -> Sequence[str]:
    """Return the statement that makes a change in a table between a batch's calls, if it takes one."""
    altering = list(_alter(table, change, writer))
    column = change.column.name if isinstance(change, ColumnDropped | ColumnRetyped) else None
    return [_settled(table, altering, writer_for(change, writer), column)] if altering else []


def run_script(table: tuple[str, str], script: str, writer: Writer) -> str:
    """Return one statement that runs a script of several, about a table, between a batch's calls.

    The server refuses statements that end the transaction.
    """
    return _settled(table, [writer.inner(script)], writer)


def writer_for(change: SchemaChange, writer: Writer | None) -> Writer | None:
    """Return who makes a change: of a table's name and schema the session's role, since it runs no code.

    A table's owner need not have the right to create schemas. None stands for the session's role.
    """
    return None if isinstance(change, ArticleTableRenamed) else writer


def _settled(table: tuple[str, str], altering: Sequence[str], writer: Writer | None, column: str | None = None) -> str:
    """Return one statement that alters a table; if checks of its rows wait, which the server refuses, these are made.

    Checks of other tables' rows wait on: the publisher, too, may have altered the table before they could be made.
    What alters a key's column alters also the tables that it references and that reference it.
    """
    executed = " ".join(altering)
    constraints = _CHECKED.format(table=quote_literal(quote_qualified(*table)), column=quote_literal(column or ""))
    body = f"""
declare
    checked text := 'all';
begin
    {executed}
exception when object_in_use then
    select coalesce(pg_catalog.string_agg(distinct pg_catalog.format('%I.%I', nspname, conname), ', '), checked)
    into checked{constraints};
    execute pg_catalog.format('set constraints %s immediate', checked);
    execute pg_catalog.format('set constraints %s deferred', checked);
    {executed}
end"""
    altering_all = f"do {quote_body(body)}"
    return altering_all if writer is None else writer.outer(altering_all)


_CHECKED = """
    from pg_catalog.pg_constraint c join pg_catalog.pg_namespace n on n.oid = c.connamespace
    where c.condeferrable and c.oid in (
        with recursive altered as (
            select pg_catalog.to_regclass({table})::oid as oid
            union select i.inhrelid from pg_catalog.pg_inherits i join altered a on i.inhparent = a.oid
        ), beside as (
            select case when f.conrelid = a.oid then f.confrelid else f.conrelid end as oid
            from altered a join pg_catalog.pg_constraint f on f.contype = 'f' and a.oid in (f.conrelid, f.confrelid)
            join pg_catalog.pg_attribute k on k.attrelid = a.oid and k.attname = {column}
            where k.attnum = any(case when f.conrelid = a.oid then f.conkey else f.confkey end)
        )
        select t.tgconstraint from pg_catalog.pg_trigger t
        where t.tgrelid in (select oid from altered union select oid from beside))"""
"""The deferrable constraints that are checked for rows of a table, of what inherits from it, and of the tables beside
it by a key with a column."""


def alter(table: tuple[str, str], change: SchemaChange, writer: Writer) -> Iterator[str]:
    """Yield the statements that make a change in a table, given by schema and name."""
    made_by = writer_for(change, writer)
    for code in _alter(table, change, writer):
        statement = f"do {quote_body(f'begin {code} end')}"
        yield statement if made_by is None else made_by.outer(statement)


def _alter(table: tuple[str, str], change: SchemaChange, writer: Writer) -> Iterator[str]:
    """Yield the PL/pgSQL that makes a change in a table."""
    altering = f"alter table {quote_qualified(*table)}"
    match change:
        case ArticleTableRenamed():
            yield from map(_executed, rename(table, change))
        case ColumnAdded(column, value, collation):
            yield _add(table, column, value, collation, writer)
        case ColumnDropped(column):
            yield _executed(f"{altering} drop column if exists {quote(column.name)}")
        case ColumnRenamed(column, name):
            yield _executed(f"{altering} rename column {quote(column.name)} to {quote(name)}")
        case ColumnRetyped(column, collation):
            name = quote(column.name)
            retyping = f"alter column {name} type {_type(column, collation)} using {name}::{column.type_text}"
            yield beside_views(table, column.name, writer.inner(f"{altering} {retyping}"))
        case NullsChanged(column):
            verb = "drop" if column.is_nullable else "set"
            yield _executed(f"{altering} alter column {quote(column.name)} {verb} not null")
        case GeneratedAltered(before, after):
            yield _regenerate(table, before, after, writer)
        case ExpressionDropped(name):
            yield _where_generated(table, name, f"{altering} alter column {quote(name)} drop expression")
        case _:
            assert_never(change)


def rename(table: tuple[str, str], change: ArticleTableRenamed) -> Iterator[str]:
    """Yield the statements that give a table another name."""
    if change.schema != table[0]:
        yield f"create schema if not exists {quote(change.schema)}"
        yield f"alter table {quote_qualified(*table)} set schema {quote(change.schema)}"
    if change.table != table[1]:
        yield f"alter table {quote_qualified(change.schema, table[1])} rename to {quote(change.table)}"


def _executed(statement: str) -> str:
    """Return the PL/pgSQL that executes a statement which runs no code of users."""
    return f"execute {quote_literal(statement)};"


def _block(body: str) -> str:
    return f"{body.strip()};"


def _add(
    table: tuple[str, str], column: PublishedColumn, value: str | None, collation: str | None, writer: Writer
) -> str:
    """Return the code that adds a column, or gives rows their first values where the subscriber has it already.

    One of another type that does not take all values is refused.
    """
    name, altering = quote(column.name), f"alter table {quote_qualified(*table)}"
    first = "null" if value is None else f"{quote_literal(value)}::{column.type_text}"
    default = _default(column, value)
    added = f"{altering} add column {_definition(column, collation)}{default}"
    values = {
        "table": quote_literal(quote_qualified(*table)),
        "name": quote_literal(column.name),
        "type": quote_literal(column.type_text),
        "add": writer.inner(f"{added}; {altering} alter column {name} drop default" if default else added),
        # As text: not every type has an operator for it. By its output, which no cast of the type's owner can be.
        "fill": writer.inner(
            f"update {quote_qualified(*table)} set {name} = {first} where not {same_text_condition(name, first)}"
        ),
    }
    return _block(_ADD.format(**values))


def same_text_condition(one: str, other: str) -> str:
    """Return the condition that two values have the same text, or are both null; by their output functions alone."""
    texts = f"pg_catalog.format('%s', {one}) {EQUALS} pg_catalog.format('%s', {other})"
    return f"({texts} and (({one}) is null) {EQUALS} (({other}) is null))"


def _regenerate(
    table: tuple[str, str], before: GeneratedColumn | None, after: GeneratedColumn | None, writer: Writer
) -> str:
    """Return the code that renames and redefines a generated column, adds it, or drops it.

    A column of that name that is the subscriber's own stays as it is.
    """
    altering = f"alter table {quote_qualified(*table)}"
    if after is None:
        assert before is not None
        return _where_generated(table, before.name, f"{altering} drop column {quote(before.name)}")
    name, earlier = quote(after.name), after.name if before is None else before.name
    clause = f"({after.expression})"
    definition = f"{name} {after.type_text} generated always as {clause} stored"
    values = {
        "table": quote_literal(quote_qualified(*table)),
        "earlier": quote_literal(earlier),
        "name": quote_literal(after.name),
        "expression": quote_literal(after.expression),
        "type": quote_literal(after.type_text),
        "add": writer.inner(f"{altering} add column {definition}"),
        "rename": writer.inner(f"{altering} rename column {quote(earlier)} to {name}"),
        "retype": writer.inner(f"{altering} alter column {name} type {after.type_text}"),
        "set": writer.inner(f"{altering} alter column {name} set expression as {clause}"),
        "replace": writer.inner(f"{altering} drop column {name}, add column {definition}"),
    }
    return _block(_REGENERATE.format(**values))


def _where_generated(table: tuple[str, str], name: str, altering: str) -> str:
    condition = _IS_GENERATED.format(table=quote_literal(quote_qualified(*table)), name=quote_literal(name))
    return f"if {condition} then {_executed(altering)} end if;"


_ADD = """
declare
    present record;
begin
    select a.atttypid, a.atttypmod, a.attgenerated <> '' as is_generated,
        pg_catalog.format_type(a.atttypid, a.atttypmod) as type_text
    into present
    from pg_catalog.pg_attribute a
    where a.attrelid = pg_catalog.to_regclass({table})::oid and a.attname = {name} and not a.attisdropped;
    if not found then
        {add}
    elsif present.is_generated or present.type_text <> {type} and (present.atttypmod <> -1
        or present.atttypid <> pg_catalog.to_regtype({type})::oid and not exists (
            select from pg_catalog.pg_cast
            where castsource = pg_catalog.to_regtype({type})::oid and casttarget = present.atttypid
                and castcontext = 'i'))
    then
        raise exception 'the subscriber has its own column % of type %', {name}, present.type_text;
    else
        {fill}
    end if;
end"""
_IS_GENERATED = """exists (
        select from pg_catalog.pg_attribute
        where attrelid = pg_catalog.to_regclass({table})::oid and attname = {name} and attgenerated <> '')"""

_REGENERATE = """
declare
    present record;
begin
    if {earlier} <> {name} and exists (
        select from pg_catalog.pg_attribute
        where attrelid = pg_catalog.to_regclass({table})::oid and attname = {earlier} and attgenerated <> '')
    then
        {rename}
    end if;
    select a.attgenerated <> '' as is_generated, pg_catalog.format_type(a.atttypid, a.atttypmod) as type_text,
        pg_catalog.pg_get_expr(d.adbin, d.adrelid) as expression
    into present
    from pg_catalog.pg_attribute a
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = pg_catalog.to_regclass({table})::oid and a.attname = {name} and not a.attisdropped;
    if not found then
        {add}
    elsif present.is_generated then
        if present.type_text <> {type} then
            {retype}
        end if;
        if present.expression <> {expression} then
            if pg_catalog.current_setting('server_version_num')::int >= 170000 then
                {set}
            else
                {replace}
            end if;
        end if;
    end if;
end"""
"""Before PostgreSQL 17 an expression cannot be set."""


def table_after(table: tuple[str, str], change: SchemaChange) -> tuple[str, str]:
    """Return a table's schema and name after a change."""
    return (change.schema, change.table) if isinstance(change, ArticleTableRenamed) else table


def renew(followed: Followed, guid: str, table: WrittenTable) -> Iterator[str]:
    """Yield the statements that renew an article's procedures after its changes, and record it for a subscription."""
    article = followed.article
    if followed.renews_calls:
        yield from renew_procedures(article, table)
    yield record(article, guid)


def record(article: Article, guid: str) -> str:
    """Return the statement that records an article, as a subscription has it."""
    values = (guid, article.article_id, encode_article(article))
    return progress.RECORD_ARTICLE.format(*map(quote_literal, values))


def renew_procedures(article: Article, table: WrittenTable) -> Iterator[str]:
    """Yield the statements that replace an article's generated procedures, whose parameters are its columns."""
    for operation, kind in product(procedures.OPERATIONS, _KINDS):
        yield f"drop procedure if exists {quote_qualified(procedures.SCHEMA, kind.name_of(article, operation))}"
        yield from kind.creations(article, operation, table)
    yield close_all(procedures.SCHEMA)


def _definition(column: PublishedColumn, collation: str | None) -> str:
    return f"{quote(column.name)} {_type(column, collation)}{'' if column.is_nullable else ' not null'}"


def _type(column: PublishedColumn, collation: str | None) -> str:
    return column.type_text if collation is None else f"{column.type_text} collate {collation}"


def _default(column: PublishedColumn, value: str | None) -> str:
    if value is None:
        # A domain may have a default of its own, which rows would get.
        return "" if column.type_text == column.value_type_text else " default null"
    return f" default {quote_literal(value)}::{column.type_text}"
