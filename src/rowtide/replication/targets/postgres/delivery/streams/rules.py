"""What decides at a PostgreSQL subscriber which calls depend on each other, read from its catalogue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import psycopg

from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.delivery.independence import group_articles
from rowtide.replication.targets.postgres.delivery.streams.division import Reference, SubscriberRules, Unique
from rowtide.replication.targets.postgres.delivery.table_relations import SubscriberTables


def read_rules(connection: psycopg.Connection, known: SubscriberTables, articles: Sequence[Article]) -> SubscriberRules:
    """Read the rules for articles, in this session's replication role.

    Not divisible are articles that run users' code: custom or edited procedures, triggers, rules, row security; those
    with statements in place of procedures; and tables that these may reach through foreign keys.
    """
    made, relations = known.made, known.relations
    plain = group_articles(relations, frozenset()).plain
    divisible = {
        article.article_id
        for article in articles
        if article.article_id in plain and not made.is_opaque(article) and not _has_statements(article)
    }
    tables = {table: article_id for article_id, table in relations.tables.items()}
    uniques: dict[str, list[Unique]] = defaultdict(list)
    references: list[Reference] = []
    acting: set[str] = set()
    keys = {article.article_id: {column.name for column in article.key_columns} for article in articles}
    with translated(), connection.pipeline():
        found_uniques = connection.execute(_UNIQUES, (list(tables),))
        found_references = connection.execute(_REFERENCES, (list(tables),))
    for table, index, columns, nulls_collide in found_uniques:
        if columns is None or set(columns) != keys[tables[table]]:
            uniques[tables[table]].append(Unique(index, columns and tuple(columns), nulls_collide))
    for constraint, table, columns, other, key, is_acting in found_references:
        if table in tables:
            references.append(Reference(constraint, tables[table], tuple(columns), tables[other], tuple(key)))
        if is_acting:
            acting.add(tables[other])
    return SubscriberRules(divisible, acting, uniques, references)


def _has_statements(article: Article) -> bool:
    return any(article.command(operation).call_format is CallFormat.SQL for operation in procedures.OPERATIONS)


# An index of expressions, with a condition, or of an exclusion constraint: which values collide only the server knows.
_UNIQUES = """
select i.indrelid::bigint, i.indexrelid::bigint,
    case when i.indexprs is null and i.indpred is null and not i.indisexclusion then array(
        select a.attname::text from unnest((i.indkey::int2[])[0:i.indnkeyatts - 1]) with ordinality key (number, place)
        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = key.number
        order by key.place) end,
    i.indnullsnotdistinct
from pg_index i
where (i.indisunique or i.indisexclusion) and i.indrelid = any(%s)
"""

_REFERENCES = """
select k.oid::bigint, k.conrelid::bigint, own.names, k.confrelid::bigint, other.names,
    k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')
from pg_constraint k, lateral (
    select array_agg(a.attname::text order by key.place) from unnest(k.conkey) with ordinality key (number, place)
    join pg_attribute a on a.attrelid = k.conrelid and a.attnum = key.number) own (names), lateral (
    select array_agg(a.attname::text order by key.place) from unnest(k.confkey) with ordinality key (number, place)
    join pg_attribute a on a.attrelid = k.confrelid and a.attnum = key.number) other (names)
where k.contype = 'f' and k.confrelid = any(%s) and current_setting('session_replication_role') <> 'replica'
"""
