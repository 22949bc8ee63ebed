"""Publish the text of views, materialized views, functions and procedures (SQL Server: schema-only articles)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, Engine, text

from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import USERS_SCHEMAS
from rowtide.replication.articles.articles import Article, ArticleType
from rowtide.replication.distributor import (
    definitions,
    publication_records,
    schema_article_records,
    subscription_records,
)
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.schema_article_records import SchemaArticle, list_schema_articles
from rowtide.replication.errors.publishing import (
    ExecutionsNotLogged,
    ObjectNotFound,
    SchemaArticleUsesUnpublished,
)
from rowtide.replication.snapshot.objects import UsedObject, read_scripts, read_used
from rowtide.replication.targets.kinds import kind_of


def add(alterations: Alterations, database: str, publication: str, name: str, wanted: ArticleType | None) -> bool:
    """Publish the text of an object; return whether it is one of these, not a table.

    Of a type that is not given, a table goes before anything else. Adding one again has no effect at the publisher.
    Raises `PublicationUnknown`, `ObjectNotFound`, `SchemaArticleUsesUnpublished`, `ExecutionsNotLogged`.
    """
    if wanted is ArticleType.PROCEDURE_EXECUTION:
        raise ExecutionsNotLogged(name)
    return wanted is not ArticleType.TABLE and alterations.transact(
        lambda connection: _add(connection, database, publication, name, wanted)
    )


def spell_object(connection: Connection, name: str) -> str | None:
    """Return the name by which an article of an object is known; None if there is no such object but a table."""
    found = _find(connection, name, None)
    return found.name if found is not None else None


def renew(engine: Engine, publication: str) -> None:
    """Create the objects at the publication's subscribers, or bring them up to date.

    Raises `ScriptRefused`, and what connecting to a subscriber raises.
    """
    with translated(), engine.connect() as connection:
        publication_id = publication_records.get_publication(connection, publication)
        scripts = read_scripts(connection, list_schema_articles(connection, publication_id))
        subscribers = [known.subscriber for known in subscription_records.list_subscriptions(connection, publication)]
    for subscriber in subscribers:
        server = kind_of(subscriber).server
        if server is not None:
            server.make_scripted(subscriber, scripts)


def drop(alterations: Alterations, database: str, publication: str, name: str) -> bool:
    """Remove an object from a publication; return whether it was in it. Subscribers keep theirs."""
    return alterations.transact(lambda connection: _drop(connection, database, publication, name))


def _add(connection: Connection, database: str, publication: str, name: str, wanted: ArticleType | None) -> bool:
    read_source(connection, database)
    publication_id = publication_records.get_publication(connection, publication)
    article = _find(connection, name, wanted)
    if article is None:
        if wanted is not None:
            raise ObjectNotFound(wanted.value.replace("-", " "), name)
        return False
    published = publication_records.list_articles(connection, publication_id)
    known = list_schema_articles(connection, publication_id)
    missing = list(_find_unpublished(read_used(connection, article.source_id), published, known))
    if missing:
        raise SchemaArticleUsesUnpublished(article.type.value.replace("-", " "), article.name, ", ".join(missing))
    if article.source_id not in {each.source_id for each in known}:
        definitions.require_writable(connection)
        distributor(connection).execute(schema_article_records.add_step(publication_id, article))
    return True


def _drop(connection: Connection, database: str, publication: str, name: str) -> bool:
    read_source(connection, database)
    known = list_schema_articles(connection, publication_records.get_publication(connection, publication))
    found = _find(connection, name, None)
    dropped = [each for each in known if each.name == name or (found is not None and each.source_id == found.source_id)]
    for step in schema_article_records.drop_steps(dropped):
        distributor(connection).execute(step)
    return bool(dropped)


def _find(connection: Connection, name: str, wanted: ArticleType | None) -> SchemaArticle | None:
    rows = connection.execute(text(_FIND), {"name": name, "wanted": wanted}).all()
    if not rows:
        return None
    kind, source_id, schema, quoted = rows[0]
    return (
        None
        if kind == ArticleType.TABLE
        else SchemaArticle(str(uuid.uuid4()), ArticleType(kind), source_id, schema, quoted)
    )


def _find_unpublished(
    used: Sequence[UsedObject], published: Sequence[Article], known: Sequence[SchemaArticle]
) -> Iterator[str]:
    """Yield the names of what is used and the publication does not have."""
    tables = {article.source_id: article for article in published}
    others = {article.source_id for article in known}
    for each in used:
        if not each.is_table:
            if each.source_id not in others:
                yield each.name
        elif each.source_id not in tables:
            yield each.name
        else:
            article = tables[each.source_id]
            is_chosen = article.has_all_columns or each.column in {0, *(one.number for one in article.columns)}
            if not is_chosen:
                yield f"column {each.column_name} of {each.name}"


# A name as SQL writes it: of a relation, of a function with its parameters, or of the only function of that name.
_FIND = f"""
select kind, id, schema, name from (
    select case when c.relkind = 'v' then 'view' when c.relkind = 'm' then 'materialized-view' else 'table' end,
           c.oid::bigint, n.nspname::text, quote_ident(n.nspname) || '.' || quote_ident(c.relname), 1
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f')
      and (n.nspname || '.' || c.relname = :name or quote_ident(n.nspname) || '.' || quote_ident(c.relname) = :name
           or (:name in (c.relname, quote_ident(c.relname)) and n.nspname = any({USERS_SCHEMAS})))
    union all
    select case when p.prokind = 'p' then 'procedure' else 'function' end, p.oid::bigint, n.nspname::text,
           quote_ident(n.nspname) || '.' || quote_ident(p.proname) || '(' || oidvectortypes(p.proargtypes) || ')', 2
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where p.prokind <> 'a'
      and (n.nspname || '.' || p.proname || '(' || oidvectortypes(p.proargtypes) || ')' = :name
           or n.nspname || '.' || p.proname = :name
           or (p.proname || '(' || oidvectortypes(p.proargtypes) || ')' = :name and n.nspname = any({USERS_SCHEMAS}))
           or (p.proname = :name and n.nspname = any({USERS_SCHEMAS})))
) found (kind, id, schema, name, rank)
where cast(:wanted as text) is null or kind = cast(:wanted as text)
order by rank, array_position({USERS_SCHEMAS}, schema::name), id limit 1
"""  # noqa: S608 - of constants
