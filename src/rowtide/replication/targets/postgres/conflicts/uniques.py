"""The unique indexes of a PostgreSQL subscriber's table, whose values conflicts are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, quote_qualified
from rowtide.replication.articles.articles import Article
from rowtide.replication.errors.conflicts import IndexOfOther
from rowtide.replication.targets.postgres.conflicts.statements import UniqueIndex, UsedColumn


def read_uniques(connection: psycopg.Connection[tuple[Any, ...]], article: Article) -> Sequence[UniqueIndex]:
    """Return the unique indexes over published columns, without the key's.

    Their SQL has names as the session's search_path needs them.
    """
    with translated():
        rows = connection.execute(_UNIQUES, (quote_qualified(article.schema, article.table),)).fetchall()
    published = {column.name for column in article.columns}
    key = {quote(column.name) for column in article.key_columns}
    found = [
        UniqueIndex(
            tuple(values), distinct, condition, tuple(UsedColumn(*one) for one in used), tuple(operators), author
        )
        for values, distinct, condition, used, operators, author in rows
    ]
    return [
        index
        for index in found
        if published.issuperset(one.name for one in index.used)
        and (index.condition is not None or set(index.values) != key)
    ]


def require_evaluable(article: Article, uniques: Sequence[UniqueIndex]) -> None:
    """Raise `IndexOfOther` if an index evaluates what another role, with fewer rights than the session's, can define.

    Triggers with the session's rights, and its statements, evaluate what the indexes do.
    """
    for index in uniques:
        if index.author is not None:
            raise IndexOfOther(article.qualified_name, index.name, index.author)


_UNIQUES = """
select key.values, not coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::boolean, false),
    pg_get_expr(i.indpred, i.indrelid, true), used.columns, key.operators,
    case when (i.indexprs is not null or i.indpred is not null) and o.rolname <> current_user and not o.rolsuper
              and (used.has_own_types or exists (
                  select from pg_depend d
                  where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refobjid >= 16384
                      and d.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)))
         then o.rolname::text end
from pg_index i join pg_class c on c.oid = i.indrelid join pg_roles o on o.oid = c.relowner
cross join lateral (
    select array_agg(case k.number when 0 then pg_get_indexdef(i.indexrelid, k.place::int, true)
                     else '"' || replace(a.attname, '"', '""') || '"' end order by k.place) as values,
        array_agg(coalesce((
            select format('operator(%%I.%%s)', y.nspname, o.oprname)
            from pg_opclass class
            join pg_amop m on m.amopfamily = class.opcfamily and m.amoplefttype = class.opcintype
                and m.amoprighttype = class.opcintype and m.amopstrategy = 3
            join pg_operator o on o.oid = m.amopopr join pg_namespace y on y.oid = o.oprnamespace
            where class.oid = i.indclass[k.place - 1]), 'operator(pg_catalog.=)') order by k.place) as operators
    from unnest(i.indkey::int2[]) with ordinality k (number, place)
    left join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
    where k.place <= i.indnkeyatts
) key
cross join lateral (
    select coalesce(json_agg(json_build_array(c.attname, case when c.attcollation <> y.typcollation then
               quote_ident(n.nspname) || '.' || quote_ident(l.collname) end)), '[]') as columns,
        coalesce(bool_or(c.atttypid >= 16384 and (y.typtype <> 'd' or y.typbasetype >= 16384)), false) as has_own_types
    from pg_attribute c join pg_type y on y.oid = c.atttypid
    left join pg_collation l on l.oid = c.attcollation left join pg_namespace n on n.oid = l.collnamespace
    where c.attrelid = i.indrelid and c.attnum > 0 and (
        c.attnum = any((i.indkey::int2[])[0:i.indnkeyatts - 1])
        or (i.indexprs is not null or i.indpred is not null) and exists (
            select from pg_depend d
            where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.objsubid = 0
                and d.refclassid = 'pg_class'::regclass and d.refobjid = i.indrelid and d.refobjsubid = c.attnum))
) used
where i.indrelid = to_regclass(%s) and i.indisunique
order by i.indexrelid
"""
"""Objects from number 16384 on are not the server's own.

Of a constraint's index the columns are in `indkey`; on what expressions and conditions use, the index depends."""
