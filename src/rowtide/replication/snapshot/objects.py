"""What a subscriber gets besides tables: the types and functions that tables need, and published views and functions.

They are read at the publisher, with the statements that create them, each after what it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.planned_code import effects_condition
from rowtide.replication.articles.articles import Article, ArticleType

if TYPE_CHECKING:
    # A subscriber in a file is read without psycopg.
    from rowtide.replication.distributor.schema_article_records import SchemaArticle


class NeedKind(StrEnum):
    """The kind of an object that a subscriber needs."""

    EXTENSION = "extension"
    FUNCTION = "function"
    COLLATION = "collation"
    ENUM = "enum"
    DOMAIN = "domain"
    COMPOSITE = "composite type"
    RANGE = "range type"
    TYPE = "type"


@frozen
class Need:
    """An object that a subscriber needs; `name` is quoted and has its schema, a function's its parameters.

    `schema` is where it is. `statement` creates it, None if more than that is needed. `labels` are an enum's.
    """

    kind: NeedKind
    schema: str
    name: str
    statement: str | None
    labels: tuple[str, ...] = ()


def read_type_needs(connection: Connection, articles: Iterable[Article]) -> tuple[Need, ...]:
    """Return what the types of published columns need, each after what it needs itself."""
    columns = [
        {"table": article.source_id, "numbers": [column.number for column in article.columns]} for article in articles
    ]
    found: dict[Need, None] = {}
    with names_in_full(connection):
        for each in columns:
            for type_id in connection.execute(text(_TYPES), each).scalars().all():
                found.update(dict.fromkeys(_read_type_needs(connection, type_id)))
    return tuple(found)


def read_table_needs(connection: Connection, article: Article) -> tuple[Need, ...]:
    """Return what creating an article's table needs besides its columns' types."""
    given = {"table": article.source_id}
    reads = [(_COLUMN_COLLATIONS, _COLLATION), *([(_GENERATED_BY, _FUNCTION)] if article.has_all_columns else [])]
    with names_in_full(connection):
        return tuple(
            need
            for finding, reading in reads
            for object_id in connection.execute(text(finding), given).scalars().all()
            for need in _read(connection, reading, object_id)
        )


@contextmanager
def names_in_full(connection: Connection) -> Iterator[None]:
    """Let the server write every name with its schema."""
    path = connection.execute(text("select current_setting('search_path')")).scalar_one()
    setting = text("select set_config('search_path', :path, true)")
    connection.execute(setting, {"path": "pg_catalog"})
    yield
    connection.execute(setting, {"path": path})


def _read_type_needs(connection: Connection, type_id: int) -> Iterable[Need]:
    for needed in connection.execute(text(_TYPE_COLLATIONS), {"id": type_id}).scalars().all():
        yield from _read(connection, _COLLATION, needed)
    for needed in connection.execute(text(_CALLED_BY), {"id": type_id}).scalars().all():
        yield from _read(connection, _FUNCTION, needed)
    yield from _read(connection, _TYPE, type_id)


def _read(connection: Connection, query: str, object_id: object) -> Iterable[Need]:
    for kind, schema, name, statement, labels in connection.execute(text(query), {"id": object_id}).all():
        yield Need(NeedKind(kind), schema, name, statement, tuple(labels or ()))


# Arrays have elements and no fixed length, where `point` and others have both. A multirange type is created with its
# range type.
# In the order in which they can be created: what others consist of comes first.
_TYPES = """
with recursive needed (type_id, depth) as (
    select a.atttypid, 0 from pg_attribute a
    where a.attrelid = :table and a.attnum = any(cast(:numbers as smallint[]))
    union
    select part.type_id, needed.depth + 1
    from needed
    join pg_type t on t.oid = needed.type_id
    cross join lateral (
        select t.typelem where t.typelem <> 0 and t.typlen = -1
        union all select t.typbasetype where t.typtype = 'd'
        union all select a.atttypid from pg_attribute a
            where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
        union all select r.rngsubtype from pg_range r where r.rngtypid = t.oid
        union all select r.rngtypid from pg_range r where r.rngmultitypid = t.oid
    ) part (type_id)
    where needed.depth < 50)
select needed.type_id::bigint as type_id
from needed
join pg_type t on t.oid = needed.type_id
where t.typnamespace <> 'pg_catalog'::regnamespace and t.typtype <> 'm' and not (t.typelem <> 0 and t.typlen = -1)
group by needed.type_id order by max(needed.depth) desc, needed.type_id
"""

_NAMED = "quote_ident(n.nspname) || '.' || quote_ident({name})"


def _of_extension(catalogue: str, alias: str) -> str:
    """Return the join with the extension of an object, if it belongs to one."""
    return f"""
left join pg_depend d on d.classid = '{catalogue}'::regclass and d.objid = {alias}.oid and d.deptype = 'e'
left join pg_extension e on e.oid = d.refobjid
left join pg_namespace extended on extended.oid = e.extnamespace
"""


_EXTENDED = """
case when e.oid is not null then 'extension' else {kind} end,
case when e.oid is not null then extended.nspname else n.nspname end::text,
case when e.oid is not null then quote_ident(e.extname) else {name} end,
case when e.oid is not null then format('create extension %I schema %I', e.extname, extended.nspname)
     else {statement} end
"""

_DOMAIN_HAS_EFFECTS = f"""
({effects_condition("t.typdefaultbin")} or exists (
    select from pg_constraint k where k.contypid = t.oid and {effects_condition("k.conbin")}))
"""
"""A domain of which this is true has to exist at the subscriber, as there is no statement that creates it."""
_TYPE_NAME = _NAMED.format(name="t.typname")
# Rows that were there may violate a domain's constraint that is not valid; a subscriber would check their values.
_TYPE = f"""
select {
    _EXTENDED.format(
        kind='''case t.typtype when 'e' then 'enum' when 'd' then 'domain' when 'r' then 'range type'
             when 'c' then case when c.relkind = 'c' then 'composite type' else 'type' end else 'type' end''',
        name=_TYPE_NAME,
        statement=f'''case t.typtype
    when 'e' then format('create type %s as enum (%s)', {_TYPE_NAME},
        (select string_agg(quote_literal(l.enumlabel), ', ' order by l.enumsortorder)
         from pg_enum l where l.enumtypid = t.oid))
    when 'd' then case when not {_DOMAIN_HAS_EFFECTS} then
        format('create domain %s as %s', {_TYPE_NAME}, format_type(t.typbasetype, t.typtypmod))
        || case when t.typcollation <> base.typcollation then
            (select format(' collate %I.%I', x.nspname, l.collname)
             from pg_collation l join pg_namespace x on x.oid = l.collnamespace where l.oid = t.typcollation)
           else '' end
        || coalesce(' default ' || pg_get_expr(t.typdefaultbin, 0), '')
        || case when t.typnotnull then ' not null' else '' end
        || coalesce((select string_agg(format(' constraint %I %s', k.conname, pg_get_constraintdef(k.oid)), ''
                                       order by k.conname)
                     from pg_constraint k
                     where k.contypid = t.oid and k.contype = 'c' and k.convalidated), '') end
    when 'c' then case when c.relkind = 'c' then format('create type %s as (%s)', {_TYPE_NAME},
        (select string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)
                           || case when a.attcollation <> own.typcollation
                              then ' collate ' || a.attcollation::regcollation else '' end, ', ' order by a.attnum)
         from pg_attribute a join pg_type own on own.oid = a.atttypid
         where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped)) end
    when 'r' then case when r.rngcanonical = 0 and o.opcnamespace = 'pg_catalog'::regnamespace then
        format('create type %s as range (subtype = %s, subtype_opclass = %I, multirange_type_name = %s', {_TYPE_NAME},
               format_type(r.rngsubtype, null), o.opcname, r.rngmultitypid::regtype)
        || case when r.rngcollation <> 0 then ', collation = ' || r.rngcollation::regcollation else '' end
        || case when r.rngsubdiff <> 0 then ', subtype_diff = ' || r.rngsubdiff::regproc else '' end || ')' end
    end''',
    )
},
(select array_agg(l.enumlabel::text order by l.enumsortorder) from pg_enum l where l.enumtypid = t.oid)
from pg_type t
join pg_namespace n on n.oid = t.typnamespace
left join pg_type base on base.oid = t.typbasetype
left join pg_class c on c.oid = t.typrelid
left join pg_range r on r.rngtypid = t.oid
left join pg_opclass o on o.oid = r.rngsubopc
{_of_extension("pg_type", "t")}
where t.oid = :id
"""

# In PostgreSQL 16 the locale of ICU is in a column of another name.
_COLLATION_NAME = _NAMED.format(name="l.collname")
_COLLATION = f"""
select {
    _EXTENDED.format(
        kind="'collation'",
        name=_COLLATION_NAME,
        statement=f'''format('create collation %s (provider = %s, %s%s)', {_COLLATION_NAME},
    case l.collprovider when 'i' then 'icu' when 'b' then 'builtin' else 'libc' end,
    coalesce('locale = ' || quote_literal(coalesce(to_jsonb(l) ->> 'colllocale', to_jsonb(l) ->> 'colliculocale')),
             format('lc_collate = %L, lc_ctype = %L', l.collcollate, l.collctype)),
    case when l.collisdeterministic then '' else ', deterministic = false' end)''',
    )
}, null
from pg_collation l
join pg_namespace n on n.oid = l.collnamespace
{_of_extension("pg_collation", "l")}
where l.oid = :id
"""

_FUNCTION = f"""
select {_EXTENDED.format(kind="'function'", name="p.oid::regprocedure::text", statement="null")}, null
from pg_proc p
join pg_namespace n on n.oid = p.pronamespace
{_of_extension("pg_proc", "p")}
where p.oid = :id
"""

_USERS_FUNCTION = """
join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
    and p.pronamespace <> 'pg_catalog'::regnamespace
"""
_CALLED_BY = f"""
select p.oid::bigint from pg_constraint k
join pg_depend d on d.classid = 'pg_constraint'::regclass and d.objid = k.oid
{_USERS_FUNCTION}
where k.contypid = :id
union
select p.oid::bigint from pg_depend d
{_USERS_FUNCTION}
where d.classid = 'pg_type'::regclass and d.objid = :id and d.deptype = 'n'
"""
_GENERATED_BY = f"""
select distinct p.oid::bigint from pg_attrdef g
join pg_attribute a on a.attrelid = g.adrelid and a.attnum = g.adnum and a.attgenerated = 's'
join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = g.oid
{_USERS_FUNCTION}
where g.adrelid = :table
"""

_USERS_COLLATION = "join pg_collation l on l.oid = {column} and l.collnamespace <> 'pg_catalog'::regnamespace"
_TYPE_COLLATIONS = f"""
select l.oid::bigint from pg_type t {_USERS_COLLATION.format(column="t.typcollation")} where t.oid = :id
union
select l.oid::bigint from pg_range r {_USERS_COLLATION.format(column="r.rngcollation")} where r.rngtypid = :id
union
select l.oid::bigint from pg_attribute a {_USERS_COLLATION.format(column="a.attcollation")}
join pg_type t on t.typrelid = a.attrelid where t.oid = :id
"""
_COLUMN_COLLATIONS = f"""
select distinct l.oid::bigint from pg_attribute a {_USERS_COLLATION.format(column="a.attcollation")}
where a.attrelid = :table and a.attnum > 0 and not a.attisdropped
"""


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
        found = (_read_script(connection, known[source_id]) for source_id in order.static_order())
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


def _read_script(connection: Connection, article: SchemaArticle) -> Script | None:
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
