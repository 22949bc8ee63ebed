"""Describe a table of a PostgreSQL database, and what an article lacks of it, from the catalogue; create one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.rowguid import NEW_ROWGUID
from rowtide.databases.source_table import SourceTable
from rowtide.databases.urls import DatabaseKind
from rowtide.merge.articles import ROWGUID, Article, ArticleColumn
from rowtide.merge.nodes.node_tables import NOT_THERE, TableDescription, TableReference, say_damage
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.postgres.tables.altering import collation_of, keys_of_parts, parts_requests, read_parts
from rowtide.merge.nodes.postgres.tables.triggers import partition_trigger_names, trigger_names
from rowtide.merge.nodes.untyped_values import server_type

_SYSTEM = "__sys"
"""What the columns of change tracking begin with."""


def description_requests(table_id: int) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the queries of a table's keys, references, fingerprint and parts."""
    listed = [(query, {"table": table_id}) for query in (_UNIQUE, _REFERENCES, f"select {_FINGERPRINT}")]
    return [*listed, *parts_requests(table_id)]


def read_description(
    table: SourceTable,
    unique: Sequence[Any],
    references: Sequence[Any],
    fingerprint: Sequence[Any],
    *parts: Sequence[Any],
) -> TableDescription:
    """Return a table from the rows of `description_requests`."""
    primary = {column.name for column in table.key_columns}
    keys = [tuple(row.columns) for row in unique]
    return TableDescription(
        kind=DatabaseKind.POSTGRESQL,
        name=table.qualified_name,
        schema=table.schema,
        table=table.name,
        columns=tuple(
            ArticleColumn(
                column.name,
                column.value_type_text,
                column.is_nullable,
                column.key_ordinal,
                attnum=column.number,
            )
            for column in table.columns
            if not (column.is_generated or column.name == ROWGUID or column.name.startswith(_SYSTEM))
        ),
        unique_keys=tuple(key for key in keys if set(key) != primary and key != (ROWGUID,)),
        references=tuple(
            TableReference(
                tuple(row.columns),
                row.referenced,
                tuple(row.referenced_columns),
                _ACTIONS[row.on_delete],
                _ACTIONS[row.on_update],
            )
            for row in references
        ),
        parts=tuple(read_parts(*parts)),
        table_id=str(table.source_id),
        fingerprint=str(fingerprint[0][0]),
    )


def damage_request(article: Article) -> tuple[str, Sequence[object]]:
    """Return the query whose row `read_damages` reads."""
    names = list(partition_trigger_names(article))
    return _PARTS, [names, names, table_of(article)]


def read_damages(articles: Sequence[Article], answers: Sequence[Sequence[tuple[Any, ...]]]) -> Mapping[int, str]:
    """Return what articles' tables lack to be merged, by nickname; of whole ones nothing."""
    said = {article.nickname: _damage(article, *answer[0]) for article, answer in zip(articles, answers, strict=True)}
    return {nickname: damage for nickname, damage in said.items() if damage is not None}


def names_of(article: Article) -> set[str]:
    """Return the names of an article's columns."""
    return {column.name for column in article.columns}


def _damage(
    article: Article, columns: Sequence[str] | None, triggers: Sequence[str], untracked: Sequence[str], *_more: object
) -> str | None:
    if columns is None:
        return NOT_THERE
    return say_damage(
        [name for name in (*(column.name for column in article.columns), ROWGUID) if name not in columns],
        [name for name in trigger_names(article) if name not in triggers],
        untracked,
    )


_ACTIONS = {"a": "no action", "r": "restrict", "c": "cascade", "n": "set null", "d": "set default"}


def _columns(of: str, numbers: str) -> str:
    return (
        f"array(select a.attname::text from unnest({numbers}) with ordinality k (attnum, place) "
        f"join pg_attribute a on a.attrelid = {of} and a.attnum = k.attnum order by place)"
    )


_FINGERPRINT = r"""
md5((select string_agg(concat_ws(' ', a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
                                 a.attidentity, a.attgenerated, a.attcollation,
                                 pg_get_expr(d.adbin, d.adrelid)), ',' order by a.attnum)
     from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = :table and a.attnum > 0 and not a.attisdropped and a.attname <> 'rowguid'
       and a.attname not like '\_\_sys%')
    || coalesce((select string_agg(concat_ws(' ', c.conname, pg_get_constraintdef(c.oid)), ',' order by c.conname)
                 from pg_constraint c where c.conrelid = :table and c.contype in ('c', 'f', 'p', 'u')
                   and c.conkey is distinct from (select array[a.attnum] from pg_attribute a
                                                  where a.attrelid = c.conrelid and a.attname = 'rowguid')), ''))
    || ' ' || :table
"""
_PARTS = r"""
select (select array_agg(attname::text) from pg_attribute where attrelid = t.oid and attnum > 0 and not attisdropped)
       as columns,
       array(select tgname::text from pg_trigger where tgrelid = t.oid and tgenabled = 'A') as triggers,
       array(select part.relid::regclass::text from pg_partition_tree(t.oid) part
             where part.isleaf and part.relid <> t.oid and (
                 select count(*) from pg_trigger
                 where tgrelid = part.relid and tgenabled = 'A' and tgname = any(%s::text[])) < cardinality(%s::text[])
             order by 1) as untracked,
       case when t.oid is not null then {fingerprint} end as fingerprint,
       array(select attname::text from pg_attribute where attrelid = t.oid and attnum > 0 and not attisdropped
             and attgenerated = '' and attname <> 'rowguid' and attname not like '\_\_sys%%') as unpublished
from (select to_regclass(%s)::oid as oid) t
""".replace("{fingerprint}", _FINGERPRINT.replace(":table", "t.oid").replace("%", "%%"))


_UNIQUE = f"""
select {_columns("c.conrelid", "c.conkey")} as columns
from pg_constraint c where c.conrelid = :table and c.contype = 'u' order by c.conname
"""
_REFERENCES = f"""
select {_columns("c.conrelid", "c.conkey")} as columns, n.nspname || '.' || r.relname as referenced,
       {_columns("c.confrelid", "c.confkey")} as referenced_columns,
       c.confdeltype::text as on_delete, c.confupdtype::text as on_update
from pg_constraint c join pg_class r on r.oid = c.confrelid join pg_namespace n on n.oid = r.relnamespace
where c.conrelid = :table and c.contype = 'f' and c.conparentid = 0 order by c.conname
"""


def creation(article: Article, description: TableDescription) -> str:
    """Return the statement that creates a table with its keys, without the parts that are made afterwards."""
    lines = [
        f"{quote(column.name)} {server_type(column)}{collation_of(description, column.name)}"
        + " not null" * (not column.is_nullable)
        for column in article.columns
    ]
    lines += [
        f"{ROWGUID} uuid not null unique default {NEW_ROWGUID}",
        f"primary key ({_names(column.name for column in article.key_columns)})",
    ]
    later = keys_of_parts(article, description)
    lines += [f"unique ({_names(key)})" for key in description.unique_keys if key not in later]
    return f"create table {table_of(article)} (\n    " + ",\n    ".join(lines) + "\n)"


def foreign_keys(article: Article, description: TableDescription, names: Mapping[str, Article]) -> Iterator[str]:
    """Yield the statements that add foreign keys, deferrable to the end of the agent's transaction."""
    for reference in description.references:
        if reference.referenced_table in names:
            referenced = table_of(names[reference.referenced_table])
            yield (
                f"alter table {table_of(article)} add foreign key ({_names(reference.columns)}) "
                f"references {referenced} ({_names(reference.referenced_columns)}) "
                f"on delete {reference.on_delete} on update {reference.on_update} deferrable"
            )


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote, names))
