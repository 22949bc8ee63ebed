"""The unique indexes of a PostgreSQL subscriber's table, whose values conflicts are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.targets.postgres.conflicts.statements import UniqueIndex


def read_uniques(connection: psycopg.Connection[tuple[Any, ...]], article: Article) -> Sequence[UniqueIndex]:
    """Return the unique indexes over published columns, without the key's, conditions and expressions."""
    with translated():
        rows = connection.execute(_UNIQUES, (quote_qualified(article.schema, article.table),)).fetchall()
    published = {column.name for column in article.columns}
    key = {column.name for column in article.key_columns}
    return [
        UniqueIndex(tuple(columns), nulls_distinct)
        for columns, nulls_distinct in rows
        if published.issuperset(columns) and set(columns) != key
    ]


_UNIQUES = """
select array_agg(a.attname::text order by k.place),
       not coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false)
from pg_index i
cross join unnest(i.indkey::int2[]) with ordinality k (number, place)
join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
where i.indrelid = to_regclass(%s) and i.indisunique and i.indpred is null and i.indexprs is null
    and k.place <= i.indnkeyatts
group by i.indexrelid, to_jsonb(i)
"""
