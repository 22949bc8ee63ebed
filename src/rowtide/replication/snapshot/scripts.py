"""The text of views, materialized views, functions and procedures, read at the publisher in order of dependency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import TopologicalSorter

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.distributor.schema_articles import SchemaArticle
from rowtide.replication.snapshot.needs import names_in_full


@frozen
class Script:
    """Statements that create an object at a subscriber, drop it, and fill it once the tables are copied."""

    type: ArticleType
    schema: str
    name: str
    creating: tuple[str, ...]
    dropping: str
    filling: tuple[str, ...] = ()


@frozen
class UsedObject:
    """An object that a view or function uses; of a table a column, with number and name, or all of it: 0 and None."""

    source_id: int
    is_table: bool
    name: str
    column: int
    column_name: str | None


def read_scripts(connection: Connection, articles: Iterable[SchemaArticle]) -> tuple[Script, ...]:
    """Return the scripts of the objects that still exist, each after what it uses."""
    known = {article.source_id: article for article in articles}
    uses = {source_id: {used.source_id for used in read_used(connection, source_id)} for source_id in known}
    order = TopologicalSorter({source_id: sorted(used & known.keys()) for source_id, used in sorted(uses.items())})
    with names_in_full(connection):
        found = (_read(connection, known[source_id]) for source_id in order.static_order())
        return tuple(script for script in found if script is not None)


def read_used(connection: Connection, source_id: int) -> Sequence[UsedObject]:
    """Return what a view, or a function whose body the server has parsed, uses of users' objects."""
    return [UsedObject(*row) for row in connection.execute(text(_USED), {"id": source_id})]


def find_used(connection: Connection, source_id: int) -> set[int]:
    """Return all that a view uses, also by other views and functions, as oids."""
    found, waiting = set[int](), [source_id]
    while waiting:
        new = {used.source_id for used in read_used(connection, waiting.pop())} - found
        found |= new
        waiting += new
    return found


def _read(connection: Connection, article: SchemaArticle) -> Script | None:
    row = connection.execute(text(_TEXTS[article.type]), {"id": article.source_id}).one_or_none()
    if row is None:
        return None
    schema, name, creating, more = row
    kind = article.type.value.replace("-", " ")
    filling = (f"refresh materialized view {name}",) if article.type is ArticleType.MATERIALIZED_VIEW else ()
    return Script(article.type, schema, name, (creating, *(more or ())), f"drop {kind} if exists {name}", filling)


_OF_VIEW = """
select n.nspname::text, quote_ident(n.nspname) || '.' || quote_ident(c.relname),
       format('{verb} %I.%I (%s)%s as {definition}', n.nspname, c.relname,
              (select string_agg(quote_ident(a.attname), ', ' order by a.attnum)
               from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped),
              coalesce(' with (' || array_to_string(c.reloptions, ', ') || ')', ''),
              rtrim(pg_get_viewdef(c.oid), ' ;')),
       {more}
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = :id and c.relkind = '{kind}'
"""
_INDEXES = """
(select array_agg(pg_get_indexdef(i.indexrelid) order by i.indexrelid) from pg_index i where i.indrelid = c.oid)
"""
_OF_FUNCTION = """
select n.nspname::text, p.oid::regprocedure::text, pg_get_functiondef(p.oid), null
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where p.oid = :id and p.prokind <> 'a'
"""
_TEXTS = {
    ArticleType.VIEW: _OF_VIEW.format(verb="create or replace view", definition="%s", more="null", kind="v"),
    ArticleType.MATERIALIZED_VIEW: _OF_VIEW.format(
        verb="create materialized view", definition="%s with no data", more=_INDEXES, kind="m"
    ),
    ArticleType.FUNCTION: _OF_FUNCTION,
    ArticleType.PROCEDURE: _OF_FUNCTION,
}

# A view uses what its rule does.
_USED = """
select distinct d.refobjid::bigint, coalesce(c.relkind in ('r', 'p', 'f'), false),
       coalesce(quote_ident(n.nspname) || '.' || quote_ident(c.relname),
                quote_ident(n.nspname) || '.' || quote_ident(p.proname) || '(' || oidvectortypes(p.proargtypes) || ')'),
       d.refobjsubid, a.attname::text
from pg_depend d
left join pg_class c on d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid and c.relkind <> 'S'
left join pg_attribute a on a.attrelid = c.oid and a.attnum = d.refobjsubid and a.attnum > 0
left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
join pg_namespace n on n.oid = coalesce(c.relnamespace, p.pronamespace)
where d.refobjid <> :id
  and (d.classid = 'pg_proc'::regclass and d.objid = :id
       or d.classid = 'pg_rewrite'::regclass and d.objid in (select oid from pg_rewrite where ev_class = :id))
  and n.nspname <> 'information_schema' and n.nspname not like 'pg\\_%'
  and not exists (select from pg_depend e where e.classid = d.refclassid and e.objid = d.refobjid and e.deptype = 'e')
order by 3, 4
"""
