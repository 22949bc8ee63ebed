"""Publish a schema whole: its tables, then the text of its functions, procedures and views, each after what it uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from sqlalchemy import Connection, Engine, text

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.distributor import (
    publication_records,
)
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.schema_article_records import list_schema_articles
from rowtide.replication.errors.publishing import (
    ArticleExists,
    SchemaArticleUsesUnpublished,
    SchemaEmpty,
)

ADDED, SKIPPED, FAILED = "added", "skipped", "failed"


@frozen
class AddedArticle:
    """The outcome for an object of a schema: added, skipped because it is published already, or failed.

    `reason` has the error's text; `name` is as SQL needs it.
    """

    name: str
    type: ArticleType
    outcome: str
    reason: str | None = None


@frozen
class _Object:
    source_id: int
    name: str
    bare_name: str
    type: ArticleType


Add = Callable[[str, ArticleType], object]
"""Publishes an object by its name and type."""


def add_schema(
    engine: Engine, database: str, publication: str, schema: str, excluding: Sequence[str], add: Add
) -> Iterator[AddedArticle]:
    """Publish the objects of a schema whose names match none of `excluding`; yield the outcome for each.

    Partitions are published with their tables. What belongs to an extension is left to it, and so are functions of
    triggers, which no subscriber's table gets. One that fails does not stop the others. Raises `PublicationUnknown`,
    `SchemaEmpty`, `DatabaseNotPublished`, `DatabaseCopied`.
    """
    with translated(), engine.connect() as connection:
        read_source(connection, database)
        publication_id = publication_records.get_publication(connection, publication)
        published = {one.source_id for one in publication_records.list_articles(connection, publication_id)}
        published |= {one.source_id for one in list_schema_articles(connection, publication_id)}
        found = [one for one in _list_objects(connection, schema) if not _matches(one, excluding)]
    if not found:
        raise SchemaEmpty(schema)
    yield from (AddedArticle(one.name, one.type, SKIPPED) for one in found if one.source_id in published)
    yield from _add_all([one for one in found if one.source_id not in published], add)


def _add_all(wanted: Sequence[_Object], add: Add) -> Iterator[AddedArticle]:
    """Add objects, those last that use others, until none can be added any more."""
    while wanted:
        waiting: list[tuple[_Object, RowtideError]] = []
        for one in wanted:
            try:
                add(one.name, one.type)
            except SchemaArticleUsesUnpublished as error:
                waiting.append((one, error))
            except ArticleExists:
                yield AddedArticle(one.name, one.type, SKIPPED)
            except RowtideError as error:
                yield AddedArticle(one.name, one.type, FAILED, str(error))
            else:
                yield AddedArticle(one.name, one.type, ADDED)
        if len(waiting) == len(wanted):
            yield from (AddedArticle(one.name, one.type, FAILED, str(error)) for one, error in waiting)
            return
        wanted = [one for one, _ in waiting]


def _matches(one: _Object, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in (one.name, one.bare_name))


def _list_objects(connection: Connection, schema: str) -> Sequence[_Object]:
    rows = connection.execute(text(_OBJECTS), {"schema": schema})
    return [_Object(row.id, row.name, row.bare_name, ArticleType(row.type)) for row in rows]


_OBJECTS = """
select * from (
    select c.oid::bigint as id, quote_ident(n.nspname) || '.' || quote_ident(c.relname) as name,
           c.relname::text as bare_name,
           case when c.relkind = 'v' then 'view' when c.relkind = 'm' then 'materialized-view' else 'table' end as type,
           case when c.relkind in ('r', 'p') then 1 else 3 end as place
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm') and c.relpersistence = 'p' and not c.relispartition and n.nspname = :schema
      and not exists (select from pg_depend d
                      where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
    union all
    select p.oid::bigint, quote_ident(n.nspname) || '.' || quote_ident(p.proname)
                          || '(' || oidvectortypes(p.proargtypes) || ')',
           p.proname::text, case when p.prokind = 'p' then 'procedure' else 'function' end, 2
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.prokind in ('f', 'p', 'w') and n.nspname = :schema
      and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
      and not exists (select from pg_depend d
                      where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
) found
order by place, name
"""
