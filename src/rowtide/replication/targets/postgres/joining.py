"""Articles that join or leave a subscription of a PostgreSQL subscriber while it is delivered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psycopg import sql

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_literal, quote_qualified
from rowtide.replication.articles.articles import Article, encode_article
from rowtide.replication.distribution.delivery import JoiningArticle
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.targets.postgres import origins, progress, restorations
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.schema.tables import find_joining_keys
from rowtide.replication.targets.postgres.subscriber import drop_procedures

MOVED = "RT002"
"""The error that refuses a joining article whose agent has delivered more."""
CHECK_ALL = "set constraints all immediate"
"""Precedes what alters tables between calls: the server alters none with checks that wait."""
_NAME = "rowtide subscription"


def find_status(url: str, guid: str) -> SnapshotStatus | None:
    """Return how far the snapshot of a subscription is; None if the subscriber does not know it."""
    with connect(url, application_name=_NAME) as connection, translated():
        if not progress.is_made(connection):
            return None
        found = connection.execute(sql.SQL(_STATUS), [guid]).fetchone()
    return None if found is None else SnapshotStatus(found[0])


def has_joined(url: str, guid: str) -> bool:
    """Return whether the article of a joining subscription became one of its subscription's."""
    with connect(url, application_name=_NAME) as connection, translated():
        return progress.is_made(connection) and connection.execute(sql.SQL(_JOINED), [guid]).fetchone() is not None


def detach(url: str, guid: str, articles: Sequence[Article]) -> None:
    """Remove the procedures of articles that left a subscription, and what is to be done for a copy of them.

    Their rows stay. Idempotent.
    """
    with connect(url, application_name=_NAME) as connection:
        with connection.transaction(), translated():
            is_made = progress.is_made(connection)
            if is_made:
                progress.make_current(connection)
            drop_procedures(connection, articles)
            for article in articles if is_made else ():
                restorations.keep(connection, guid, article.article_id)
                for forgetting in _FORGET_ARTICLE:
                    connection.execute(sql.SQL(forgetting), [guid, article.article_id])
                name = quote_qualified(article.schema, article.table)
                connection.execute(sql.SQL(_FORGET_STATEMENTS), [guid, f" {name} "])
            failpoint("article_detachment.before")
        failpoint("article_detachment.after")


def is_used(url: str, article: Article) -> bool:
    """See `SubscriberKind`. Foreign keys count not: they are released."""
    name = quote_qualified(article.schema, article.table)
    with connect(url, application_name="rowtide subscription") as connection, translated():
        return connection.execute(_IS_USED, {"table": name}).fetchone() == (True,)


def attach(joining: JoiningArticle, guid: str) -> Iterator[str]:
    """Yield the statements that make a joining article one of a subscription's, with its foreign keys. Pure."""
    article = joining.article
    yield restorations.take_over(guid, joining.guid)
    yield f"do {quote_literal(_END.format(quote_literal(joining.guid), joining.since.value))}"
    values = (guid, article.article_id, encode_article(article), joining.guid)
    yield progress.RECORD_JOINED.format(*map(quote_literal, values))
    yield origins.attach(guid, joining.guid)
    yield restorations.restore_joined(guid, article.article_id)
    if joining.details is not None:
        for referring, key, statement in find_joining_keys((article, joining.details), joining.others):
            yield f"do {quote_literal(_unless_there(referring, key.name, statement))}"


def _unless_there(article: Article, name: str, statement: str) -> str:
    table = quote_literal(quote_qualified(article.schema, article.table))
    return _UNLESS.format(table=table, name=quote_literal(name), statement=statement)


_IS_USED = """
select exists (
    select from pg_class c join pg_type t on t.oid = c.reltype
    join pg_depend d on d.deptype = 'n' and (
        d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
        or d.refclassid = 'pg_type'::regclass and d.refobjid in (t.oid, t.typarray))
    where c.oid = to_regclass(%(table)s) and d.classid <> 'pg_constraint'::regclass
        and not (d.classid = 'pg_class'::regclass and d.objid = c.oid)
        and not exists (
            select from pg_rewrite r
            where d.classid = 'pg_rewrite'::regclass and r.oid = d.objid and r.ev_class = c.oid)
        and not exists (
            select from pg_policy p where d.classid = 'pg_policy'::regclass and p.oid = d.objid and p.polrelid = c.oid))
"""
_SUBSCRIPTIONS = f'{SCHEMA}."MSreplication_subscriptions"'
_ARTICLES = f'{SCHEMA}."MSreplication_articles"'

_STATUS = f"select snapshot_status from {_SUBSCRIPTIONS} where subscription_guid = %s"
_JOINED = f"select from {_ARTICLES} where joined_as = %s"
_FORGET_ARTICLE = tuple(
    f"delete from {table} where subscription_guid = %s and article_id = %s"
    for table in (_ARTICLES, f'{SCHEMA}."MSsnapshot_chunks"')
)
_FORGET_STATEMENTS = f"""
delete from {SCHEMA}."MSsnapshot_statements" where subscription_guid = %s and strpos(statement, %s) > 0
"""
_END = f"""
begin
    delete from {_SUBSCRIPTIONS} where subscription_guid = {{}} and transaction_timestamp = {{}};
    if not found then
        raise exception using errcode = '{MOVED}', message = 'the joining article has another position';
    end if;
end
"""
_UNLESS = """
begin
    if not exists (select from pg_constraint where conrelid = {table}::regclass and conname = {name}) then
        {statement};
    end if;
end
"""
