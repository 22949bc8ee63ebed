"""The triggers that say which rows of a PostgreSQL table were changed (SQL Server: MSmerge_ins_, _upd_, _del_). Pure.

Each fires once for a statement and writes the rows of all of it. They fire whatever the session's replication role, and
not for what the agent itself writes; what a trigger of the user's, or a foreign key's action, does in the agent's
transaction counts as a change like any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.databases.postgres.clock import BSN
from rowtide.databases.postgres.quoting import quote, quote_body, quote_qualified
from rowtide.databases.source_table import SourceTable
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.changes import TombstoneType
from rowtide.merge.definitions import SCHEMA
from rowtide.merge.postgres.system_tables import CONTENTS, TOMBSTONE

AGENT_SETTING = "rowtide.merge_agent"
"""On in the agent's transactions."""
_IS_OF_USER = (
    f"pg_catalog.current_setting('{AGENT_SETTING}', true) is distinct from 'on' or pg_catalog.pg_trigger_depth() > 0"
)
_OLD, _NEW = "referencing old table as old_rows", "referencing new table as new_rows"
_EVENTS = {
    "ins": f"after insert on {{table}} {_NEW} for each statement",
    "upd": f"after update on {{table}} {_OLD} new table as new_rows for each statement",
    "del": f"after delete on {{table}} {_OLD} for each statement",
    "trunc": "before truncate on {table} for each statement",
    "rowguid": f"before update of {ROWGUID} on {{table}} for each row",
}
_CONDITIONS = {"rowguid": f"old.{ROWGUID} is distinct from new.{ROWGUID}"}


def trigger_statements(article: Article, table: SourceTable) -> Iterator[str]:
    """Yield the statements that make a table's functions and triggers, those of its partitions too."""
    relations = [
        quote_qualified(table.schema, table.name),
        *(quote_qualified(part.schema, part.name) for part in table.row_holders),
    ]
    for kind, body in _bodies(article).items():
        name = quote(_name(article, kind))
        yield (
            f"create or replace function {SCHEMA}.{name}() returns trigger language plpgsql security definer "
            f"set search_path = pg_catalog, pg_temp as {quote_body(body)}"
        )
        for relation in relations if kind != "rowguid" else relations[:1]:
            condition = _CONDITIONS.get(kind, _IS_OF_USER)
            yield (
                f"create trigger {name} {_EVENTS[kind].format(table=relation)} when ({condition}) "
                f"execute function {SCHEMA}.{name}()"
            )
            yield f"alter table {relation} enable always trigger {name}"


def trigger_names(article: Article) -> tuple[str, ...]:
    """Return the names of all triggers of an article's table."""
    return tuple(_name(article, kind) for kind in _EVENTS)


def removal_statements(article: Article) -> Iterator[str]:
    """Yield the statements that remove functions and all triggers that call them."""
    for kind in _EVENTS:
        yield f"drop function if exists {SCHEMA}.{quote(_name(article, kind))}() cascade"


def _name(article: Article, kind: str) -> str:
    return f"MSmerge_{kind}_{article.nickname}"


def _bodies(article: Article) -> dict[str, str]:
    needs_old = article.column_tracking or article.additive_column is not None
    update = _update_of_columns(article) if needs_old else _change(article)
    return {
        "ins": _function(_insertion_of_columns(article) if article.column_tracking else _change(article)),
        "upd": _function(update),
        "del": _function(_burial(article)),
        "trunc": _function(_truncation(article)),
        "rowguid": "begin raise exception 'the column rowguid of a merged table stays as it is'; end",
    }


def _function(*statements: str) -> str:
    return "begin " + "".join(f"{statement}; " for statement in statements) + "return null; end"


def _change(article: Article) -> str:
    """Return the statement that notes changes; what was received before stays as what they were made on."""
    return (
        f"insert into {CONTENTS} (tablenick, rowguid, stamp) "
        f"select {article.nickname}, n.{ROWGUID}, {BSN} from new_rows n "
        "on conflict (tablenick, rowguid) do update set stamp = excluded.stamp, origin = null, priority = null"
    )


def _insertion_of_columns(article: Article) -> str:
    """As above, with all columns as changed where a row was gone in between."""
    stamps = f"array_fill({BSN}, array[{len(article.columns)}])"
    return (
        f"insert into {CONTENTS} (tablenick, rowguid, stamp, own_columns) "
        f"select {article.nickname}, n.{ROWGUID}, {BSN}, case when d.rowguid is not null then {stamps} end "
        f"from new_rows n left join {TOMBSTONE} d on d.tablenick = {article.nickname} and d.rowguid = n.{ROWGUID} "
        "on conflict (tablenick, rowguid) do update set stamp = excluded.stamp, origin = null, priority = null, "
        "own_columns = excluded.own_columns"
    )


def _update_of_columns(article: Article) -> str:
    """As above, with the columns that an update changed, and what an additive one was before.

    Those that it left alone keep their stamps.
    """
    names, values, kept = ["own_columns"], ["null::bigint[]"], ["own_columns = null"]
    if article.column_tracking:
        stamps, columns = [], []
        for place, column in enumerate(article.columns, 1):
            old, new = (f"row({row}.{quote(column.name)})::record" for row in "on")
            stamps.append(f"case when {old} operator(pg_catalog.*<>) {new} then {BSN} end")
            columns.append(f"coalesce(excluded.own_columns[{place}], c.own_columns[{place}])")
        values, kept = [f"array[{', '.join(stamps)}]"], [f"own_columns = array[{', '.join(columns)}]"]
    if article.additive_column is not None:
        names.append("bases")
        before = f"(o.{quote(article.additive_column.name)})::text"
        values.append(f"jsonb_build_array(jsonb_build_array(0, {before}))::text")
        kept.append("bases = coalesce(c.bases, excluded.bases)")
    return (
        f"insert into {CONTENTS} as c (tablenick, rowguid, stamp, {', '.join(names)}) "
        f"select {article.nickname}, n.{ROWGUID}, {BSN}, {', '.join(values)} "
        f"from new_rows n join old_rows o on o.{ROWGUID} = n.{ROWGUID} "
        "on conflict (tablenick, rowguid) do update set stamp = excluded.stamp, origin = null, priority = null, "
        f"{', '.join(kept)}"
    )


def _burial(article: Article) -> str:
    """Return the statement that writes tombstones, and takes the rows out of the contents."""
    return (
        f"with gone as (delete from {CONTENTS} c using old_rows o "
        f"where c.tablenick = {article.nickname} and c.rowguid = o.{ROWGUID} returning c.rowguid, c.lineage) "
        f"insert into {TOMBSTONE} as d (tablenick, rowguid, stamp, type, lineage) "
        f"select {article.nickname}, o.{ROWGUID}, {BSN}, {TombstoneType.USER.value}, g.lineage "
        f"from old_rows o left join gone g on g.rowguid = o.{ROWGUID} {_AGAIN}"
    )


def _truncation(article: Article) -> str:
    """Return the statement that writes tombstones for all rows of the table that is truncated."""
    return (
        f"execute format('with gone as (delete from {CONTENTS} where tablenick = {article.nickname} and rowguid in "
        f"(select {ROWGUID} from %1$s) returning rowguid, lineage) "
        f"insert into {TOMBSTONE} as d (tablenick, rowguid, stamp, type, lineage) "
        f"select {article.nickname}, o.{ROWGUID}, {BSN}, {TombstoneType.USER.value}, g.lineage "
        f"from %1$s o left join gone g on g.rowguid = o.{ROWGUID} {_AGAIN}', tg_relid::regclass)"
    )


_AGAIN = (
    "on conflict (tablenick, rowguid) do update set stamp = excluded.stamp, type = excluded.type, origin = null, "
    "priority = null, lineage = coalesce(excluded.lineage, d.lineage)"
)
