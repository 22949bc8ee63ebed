"""Unique values that rows of a PostgreSQL subscriber had and have no longer, with which last commit time compares, too.

A row that arrives late gives way to a later one that had its value meanwhile, wherever that is by now. Triggers record
the values, so that it does not matter which session changes a row; a value that a row still has is found in the row.
They are kept as deleted keys are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import DEFINER
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.databases.postgres.values import is_of_server, text_of, value_of
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.conflicts.former_values import (
    COPYING,
    END_IF_ALTERED,
    PINNED,
    differing,
    released_function,
    restriction,
)
from rowtide.replication.targets.postgres.conflicts.statements import (
    VERSION_OF,
    UniqueIndex,
    given,
    index_condition,
    read_uniques,
    require_evaluable,
    value_texts,
)

RELEASED_VALUES = f'{SCHEMA}."MSreleased_values"'
RELEASED_OBJECTS = (
    f"""
create table if not exists {RELEASED_VALUES} (
    table_name text, columns text, value text[], committed_us bigint, origin bigint,
    refreshed bigint not null default 0,
    primary key (table_name, columns, value))
""",
)
"""The statement that creates the table of released values. Their version is that of the row that had one last, in
microseconds since 1970 and by replication origin; null: that of the transaction that wrote this.
"""

_TRIGGER = "rowtide_released"


def make_trigger(connection: psycopg.Connection[tuple[Any, ...]], article: Article) -> None:
    """Create a table's trigger for the unique indexes that it has, if it does not have it. Raises `IndexOfOther`.

    Of a table without unique indexes an earlier trigger is dropped: it names columns that may be gone.
    """
    uniques = read_uniques(connection, article)
    require_evaluable(article, uniques)
    body, table, name = (
        released_body(article, uniques),
        quote_qualified(article.schema, article.table),
        _released_function(article),
    )
    with translated():
        if not uniques:
            if connection.execute(_HAS_ANY_TRIGGER, (table, _TRIGGER)).fetchone() is not None:
                connection.execute(sql.SQL(f"drop trigger {_TRIGGER} on {table}"))
            return
        if connection.execute(_HAS_TRIGGER, (table, _TRIGGER, name, body)).fetchone() is not None:
            return
    with connection.transaction(), translated():
        connection.execute(
            sql.SQL(
                f"create or replace function {name}() returns trigger language plpgsql "
                f"{DEFINER} {PINNED} as {quote_literal(body)}"
            )
        )
        connection.execute(sql.SQL(restriction(table, f"{name}()")))
        connection.execute(
            sql.SQL(
                f"create or replace trigger {_TRIGGER} after update or delete on {table} "
                f"for each row execute function {name}()"
            )
        )
        connection.execute(sql.SQL(f"alter table {table} enable always trigger {_TRIGGER}"))


def find_released(article: Article, uniques: Sequence[UniqueIndex]) -> str:
    """Return the statement that returns the versions that had a new row's unique values; see `VERSION_OF`."""
    require_evaluable(article, uniques)
    table = quote_literal(article.qualified_name)
    found = " or ".join(
        f"r.columns = {quote_literal(index.name)} and r.value = {value_texts(article, index)}"
        + ("" if index.condition is None else f" and {index_condition(article, index)}")
        for index in uniques
    )
    return f"select {_VERSION} from {RELEASED_VALUES} r where r.table_name = {table} and ({found})"


def record_released(article: Article, index: UniqueIndex) -> str:
    """Return the statement that records that a row had a value, which the table never has, in this transaction.

    The transaction's commit time, in microseconds since 1970, follows the row's values.
    """
    require_evaluable(article, [index])
    values = value_texts(article, index)
    name, columns = quote_literal(article.qualified_name), quote_literal(index.name)
    is_value = f"num_nulls(variadic {values}) = 0" if index.nulls_distinct else "true"
    is_kept = is_value if index.condition is None else f"{is_value} and {index_condition(article, index)}"
    return (
        f"insert into {RELEASED_VALUES} as r (table_name, columns, value) select {name}, {columns}, {values} "
        f"where {is_kept} "
        "on conflict (table_name, columns, value) do update "
        "set refreshed = r.refreshed + 1, committed_us = null, origin = null "
        f"where coalesce(({_VERSION})[1], 0) <= {given(len(article.columns) + 1)}::bigint"
    )


def released_body(article: Article, uniques: Sequence[UniqueIndex]) -> str:
    """Return the trigger function's body, which records the unique values that programs release."""
    recording = "\n".join(_recording(article, index) for index in uniques)
    return f"""
declare
    had record;
    gone text[];
begin
    if current_setting('{COPYING}', true) = 'on' then
        return null;
    end if;
    select (extract(epoch from o.timestamp) * 1000000)::bigint as committed_us, o.roident::bigint as origin
    into had from pg_xact_commit_timestamp_origin(old.xmin) o;
    {recording}
    return null;
end
"""


def _recording(article: Article, index: UniqueIndex) -> str:
    table = quote_literal(article.qualified_name)
    before, after = ([_of(row, article, index, value) for value in index.values] for row in ("old", "new"))
    columns = {quote(column.name): column for column in article.columns}
    differs = " or ".join(
        differing(columns[value]) if value in columns else f"{one} is distinct from {other}"
        for value, one, other in zip(index.values, before, after, strict=True)
    )
    texts = (
        text_of(one, columns[value].value_type_text) if value in columns else f"{one}::text"
        for value, one in zip(index.values, before, strict=True)
    )
    values = f"array[{', '.join(texts)}]"
    is_value = f"num_nulls({', '.join(before)}) = 0" if index.nulls_distinct else "true"
    if index.condition is not None:
        is_value += f" and {_of('old', article, index, index.condition)}"
        differs += f" or {_of('new', article, index, index.condition)} is not true"
    return f"""
    gone := null;
    begin
        if {is_value} and (tg_op = 'DELETE' or {differs}) then
            gone := {values};
        end if;
    {END_IF_ALTERED}
    if gone is not null then
        insert into {RELEASED_VALUES} as r (table_name, columns, value, committed_us, origin)
        values (
            {table}, {quote_literal(index.name)}, gone, had.committed_us, had.origin)
        on conflict (table_name, columns, value) do update
        set refreshed = r.refreshed + 1, committed_us = excluded.committed_us, origin = excluded.origin
        where excluded.committed_us is null or ({_VERSION})[1] <= excluded.committed_us;
    end if;"""


def _of(row: str, article: Article, index: UniqueIndex, expression: str) -> str:
    """Return what SQL over columns is for one of a trigger's rows.

    An expression is read again, by its names: it gets values of the types that it was checked with, whatever the
    table's owner makes of the columns' types, or of the casts from them.
    """
    columns = {quote(column.name): column for column in article.columns}
    if expression in columns:
        return f"{row}.{expression}"
    used = (
        f"{_typed(f'{row}.{quote(one.name)}', columns[quote(one.name)])}"
        f"{f' collate {one.collation}' if one.collation else ''} as {quote(one.name)}"
        for one in index.used
    )
    return f"(select {expression} from (select {', '.join(used)}) given)"


def _typed(value: str, column: PublishedColumn) -> str:
    if not is_of_server(column.value_type_text):
        return value
    return value_of(f"({text_of(value, column.value_type_text)})", column.value_type_text)


def _released_function(article: Article) -> str:
    return quote_qualified(SCHEMA, released_function(article.qualified_name))


_VERSION = (
    f"case when r.committed_us is null then {VERSION_OF.format('r.xmin')} else array[r.committed_us, r.origin] end"
)
FORGET_RELEASED = f"""
delete from {RELEASED_VALUES} r where to_timestamp(({_VERSION})[1] / 1000000.0) < (
    select min(confirmed_at) from {SCHEMA}."MSorigins" where confirmed_at is not null) - interval '1 minute'
"""
"""Forgets the values that no change can be older than."""
_HAS_ANY_TRIGGER = "select from pg_trigger where tgrelid = to_regclass(%s) and tgname = %s and not tgisinternal"
_HAS_TRIGGER = """
select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
where t.tgrelid = to_regclass(%s) and t.tgname = %s and t.tgfoid = to_regproc(%s) and p.prosrc = %s
    and t.tgenabled = 'A'
"""
