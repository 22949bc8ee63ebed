"""Keys that rows of a PostgreSQL subscriber had and have no longer, for changes that arrive late."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import DEFINER, close_function
from rowtide.databases.postgres.quoting import quote, quote_body, quote_literal, quote_qualified
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS
from rowtide.databases.postgres.values import is_of_server, text_of
from rowtide.replication.articles.articles import Article, PublishedColumn
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.conflicts.statements import (
    VERSION_OF,
    given,
    key_texts,
)

DELETED_KEYS = f'{SCHEMA}."MSdeleted_keys"'
DELETED_OBJECTS = (
    f"""
create table if not exists {DELETED_KEYS} (
    table_name text, key text[], refreshed bigint not null default 0, committed_us bigint, originator text,
    primary key (table_name, key))
""",
)
"""The statements that create the table of deleted keys; the empty key stands for all rows, of a truncate.

`committed_us` and `originator` are the version of a row that gave way to another key's; it is no deletion.
"""

COPYING = "rowtide.copying"
"""The setting of a transaction that copies rows: what it empties before is not deleted."""
END_IF_ALTERED = "exception when undefined_column then gone := null; end;"
"""The end of a block of a trigger that names columns: it reads alone, since a write would take a transaction number.

Where a column was renamed or dropped, programs' writes succeed until the agent has created the trigger again; the table
is not written at other databases meanwhile, so that nothing arrives late.
"""
_TRIGGERS = ("rowtide_deleted", "rowtide_moved", "rowtide_emptied")
_SETTINGS = ("DateStyle", "IntervalStyle", "extra_float_digits", "bytea_output", "TimeZone", "lc_monetary")
PINNED = " ".join(f"set {setting} = {quote_literal(PINNED_SETTINGS[setting])}" for setting in _SETTINGS)
"""Settings of the triggers' functions, by which the same values have the same texts."""


def trigger_steps(article: Article) -> Iterator[str]:
    """Yield the statements that record the keys of a table that are deleted, changed or truncated. Idempotent."""
    table, name = quote_qualified(article.schema, article.table), _deleted_function(article)
    columns = [quote(column.name) for column in article.key_columns]
    differs = " or ".join(differing(column) for column in article.key_columns)
    yield (
        f"create or replace function {name}() returns trigger language plpgsql {DEFINER} {PINNED} "
        f"as {quote_literal(_deleted_body(article))}"
    )
    yield restriction(table, f"{name}()")
    execute = f"execute function {name}()"
    yield f"create or replace trigger rowtide_deleted after delete on {table} for each row {execute}"
    yield (
        f"create or replace trigger rowtide_moved after update of {', '.join(columns)} on {table} "
        f"for each row when ({differs}) {execute}"
    )
    yield f"create or replace trigger rowtide_emptied after truncate on {table} for each statement {execute}"
    for trigger in _TRIGGERS:
        # Delivery's own deletes count, also where its session has no other triggers.
        yield f"alter table {table} enable always trigger {trigger}"


def differing(column: PublishedColumn) -> str:
    """Return the condition that an update changed a column's value; of a type of a user's, its stored form.

    Its equality may be ambiguous by casts of the type's owner.
    """
    old, new = (f"{row}.{quote(column.name)}" for row in ("old", "new"))
    if is_of_server(column.value_type_text):
        return f"{old} is distinct from {new}"
    return f"row({old})::record operator(pg_catalog.*<>) row({new})::record"


def restriction(table: str, signature: str) -> str:
    """Return the statement that takes from the public the right to execute a function, unless its triggers are cloned
    to a table's partitions; see `close_function`.
    """
    kept, taken = (close_function(signature, is_cloned=is_cloned) for is_cloned in (True, False))
    is_partitioned = f"exists (select from pg_class where oid = to_regclass({quote_literal(table)}) and relkind = 'p')"
    return f"do {quote_body(f'begin if {is_partitioned} then {kept}; else {taken}; end if; end')}"


def _deleted_body(article: Article) -> str:
    """Return the body of the triggers' function."""
    texts = (text_of(f"old.{quote(column.name)}", column.value_type_text) for column in article.key_columns)
    old = f"array[{', '.join(texts)}]"
    return f"""
declare
    gone text[] := '{{}}';
begin
    if current_setting('{COPYING}', true) = 'on' then
        return null;
    end if;
    if tg_op <> 'TRUNCATE' then
        begin
            gone := {old};
        {END_IF_ALTERED}
    end if;
    if gone is null then
        return null;
    end if;
    insert into {DELETED_KEYS} (table_name, key) values ({quote_literal(article.qualified_name)}, gone)
    on conflict (table_name, key) do update
    set refreshed = "MSdeleted_keys".refreshed + 1, committed_us = null, originator = null;
    return null;
end
"""


def make_triggers(connection: psycopg.Connection[tuple[Any, ...]], article: Article) -> None:
    """Create a table's triggers, if it does not have them as this build makes them."""
    if not _has_triggers(connection, article):
        with connection.transaction(), translated():
            for step in trigger_steps(article):
                connection.execute(sql.SQL(step))


def drop_triggers(connection: psycopg.Connection[tuple[Any, ...]], guid: str, article: Article) -> None:
    """Drop a table's triggers with their function, unless another subscription than this one needs them."""
    with translated():
        if connection.execute(_IS_NEEDED, (guid, article.qualified_name)).fetchone() != (True,):
            for name in (
                _deleted_function(article),
                quote_qualified(SCHEMA, released_function(article.qualified_name)),
            ):
                connection.execute(sql.SQL(f"drop function if exists {name}() cascade"))


def _has_triggers(connection: psycopg.Connection[tuple[Any, ...]], article: Article) -> bool:
    """Return whether a table has its triggers."""
    table = quote_qualified(article.schema, article.table)
    with translated():
        return connection.execute(
            _HAS_TRIGGERS, (table, list(_TRIGGERS), _deleted_function(article), _deleted_body(article))
        ).fetchone() == (3,)


def find_deleted(article: Article) -> str:
    """Return the statement that returns when a row's key, and all rows, were deleted; see `VERSION_OF`."""
    return (
        f"select {VERSION_OF.format('d.xmin')}, d.committed_us, d.originator "
        f"from {DELETED_KEYS} d where d.table_name = {quote_literal(article.qualified_name)} "
        f"and d.key in ({key_texts(article)}, '{{}}')"
    )


def find_all(article: Article) -> str:
    """Return the statement that returns when all rows were deleted; see `VERSION_OF`."""
    return (
        f"select {VERSION_OF.format('d.xmin')}, d.committed_us, d.originator from {DELETED_KEYS} d "
        f"where d.table_name = {quote_literal(article.qualified_name)} and d.key = '{{}}'"
    )


# A row's version is the commit time of the transaction that wrote it: `refreshed` changes where nothing else does, so
# that the row is written again by the present one.
def record_deleted(article: Article) -> str:
    """Return the statement that records the deletion of a row, which the table does not have."""
    return (
        f"insert into {DELETED_KEYS} (table_name, key) "
        f"values ({quote_literal(article.qualified_name)}, {key_texts(article)}) "
        "on conflict (table_name, key) do update "
        'set refreshed = "MSdeleted_keys".refreshed + 1, committed_us = null, originator = null'
    )


def record_displaced(article: Article) -> str:
    """Return the statement that records that a row which gave way was the last of its key.

    Its version follows the row's values: microseconds since 1970, and the originator.
    """
    place = len(article.columns) + 1
    return (
        f"insert into {DELETED_KEYS} (table_name, key, committed_us, originator) "
        f"values ({quote_literal(article.qualified_name)}, {key_texts(article)}, "
        f"{given(place)}::bigint, {given(place + 1)}) "
        'on conflict (table_name, key) do update set refreshed = "MSdeleted_keys".refreshed + 1, '
        "committed_us = excluded.committed_us, originator = excluded.originator"
    )


def record_all(article: Article) -> str:
    """Return the statement that records the deletion of all rows."""
    return (
        f"insert into {DELETED_KEYS} (table_name, key) values ({quote_literal(article.qualified_name)}, '{{}}') "
        "on conflict (table_name, key) do update "
        'set refreshed = "MSdeleted_keys".refreshed + 1, committed_us = null, originator = null'
    )


_IS_NEEDED = f"""
select exists (
    select from {SCHEMA}."MSorigins"
    where subscription_guid <> %s and %s = any(tables) and confirmed_at is not null)
"""
_HAS_TRIGGERS = """
select count(*) from pg_trigger t join pg_proc p on p.oid = t.tgfoid
where t.tgrelid = to_regclass(%s) and t.tgname = any(%s) and t.tgfoid = to_regproc(%s) and p.prosrc = %s
    and t.tgenabled = 'A'
"""

FORGET_DELETED = f"""
delete from {DELETED_KEYS} d where (
    select o.timestamp from pg_xact_commit_timestamp_origin(d.xmin) o
) < (select min(confirmed_at) from {SCHEMA}."MSorigins" where confirmed_at is not null) - interval '1 minute'
"""
"""Forgets the keys that no change can be older than. Commits are in the log in about the order of their times."""


def released_function(table: str) -> str:
    """Return the name of the function that records values which a table's rows had; see `RELEASED_VALUES`."""
    return f"released_{sha256(table.encode()).hexdigest()[:16]}"


def _deleted_function(article: Article) -> str:
    return quote_qualified(SCHEMA, f"deleted_{sha256(article.qualified_name.encode()).hexdigest()[:16]}")
