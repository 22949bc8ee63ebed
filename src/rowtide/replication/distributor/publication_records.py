"""Publications as the distribution database records them, with articles, custom scripts and schema-only articles.

A publication's articles stay as they are while a subscription to it is added: it begins with all of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import (
    Connection,
    Engine,
    Executable,
    Select,
    delete,
    insert,
    select,
    text,
    update,
)

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import key_of_publication
from rowtide.databases.postgres.catalogue import find_table_id, list_existing
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.query_memo import made_once
from rowtide.databases.postgres.session_settings import require_session
from rowtide.replication.articles.articles import Article, decode_article, encode_article
from rowtide.replication.distributor.definitions import (
    articles,
    is_made,
    publications,
    require_writable,
    subscriptions,
)
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.errors import publishing as errors
from rowtide.replication.errors.delivery import PublicationThresholdInvalid

MOST_PERCENT = 100


def find_publication(connection: Connection, name: str) -> int | None:
    """Return a publication's id; None if there is none of this name."""
    if not is_made(connection):
        return None
    query = select(publications.c.publication_id).where(publications.c.publication == name)
    return distributor(connection).execute(query).scalar()


def get_publication(connection: Connection, name: str) -> int:
    """Return a publication's id. Raises `PublicationUnknown`."""
    found = find_publication(connection, name)
    if found is None:
        raise errors.PublicationUnknown(name)
    return found


@made_once
def list_publications(connection: Connection) -> Sequence[str]:
    """Return the names of all publications, oldest first."""
    if not is_made(connection):
        return []
    return (
        distributor(connection)
        .execute(select(publications.c.publication).order_by(publications.c.publication_id))
        .scalars()
        .all()
    )


@frozen
class Thresholds:
    """From where on a publication's subscriptions are a warning; None: by default.

    Changes have waited for that number of seconds, or that percentage of the retention is over.
    """

    latency_s: int | None = None
    expiration_percent: int | None = None


BY_DEFAULT = Thresholds()


@made_once
def read_thresholds(connection: Connection) -> dict[str, Thresholds]:
    """Return the thresholds of all publications."""
    query = select(publications.c.publication, publications.c.latency_threshold_s, publications.c.expiration_threshold)
    return {name: Thresholds(*values) for name, *values in distributor(connection).execute(query)}


def change_thresholds(
    engine: Engine, database: str, publication: str, latency_s: int | None, expiration_percent: int | None
) -> Thresholds:
    """Change those thresholds of a publication that are given, 0 to the default; return them all.

    Raises `PublicationThresholdInvalid`, `PublicationUnknown`, `DatabaseNotPublished`.
    """
    if (latency_s or 0) < 0 or not 0 <= (expiration_percent or 0) <= MOST_PERCENT:
        raise PublicationThresholdInvalid
    given = {"latency_threshold_s": latency_s, "expiration_threshold": expiration_percent}
    values = {name: value or None for name, value in given.items() if value is not None}
    with translated(), engine.begin() as connection:
        read_source(connection, database)
        publication_id = get_publication(connection, publication)
        require_writable(connection)
        if values:
            of_one = update(publications).where(publications.c.publication_id == publication_id)
            distributor(connection).execute(of_one.values(**values))
        return read_thresholds(connection)[publication]


def drop_publication_step(publication_id: int) -> Executable:
    """Return the statement that deletes a publication's record."""
    return delete(publications).where(publications.c.publication_id == publication_id)


def add_publication_step(name: str, publisher_db: str, *, replicate_ddl: bool) -> Executable:
    """Return the statement that records a publication."""
    return insert(publications).values(publication=name, publisher_db=publisher_db, replicate_ddl=replicate_ddl)


def add_article_step(publication_id: int, article: Article) -> Executable:
    """Return the statement that records an article."""
    return insert(articles).values(
        article_id=article.article_id,
        publication_id=publication_id,
        article=article.name,
        source_object_id=article.source_id,
        source_owner=article.schema,
        source_object=article.table,
        ins_cmd=str(article.insert),
        upd_cmd=str(article.update),
        del_cmd=str(article.delete),
        ins_proc=article.generated_procedure(Operation.INSERT),
        upd_proc=article.generated_procedure(Operation.UPDATE),
        del_proc=article.generated_procedure(Operation.DELETE),
        filter_clause=article.filter_clause,
        definition=encode_article(article),
    )


def renew_article(connection: Connection, article: Article) -> None:
    """Record an article as its table is now, for later subscribers, in the caller's transaction.

    Without effect if a newer one is recorded. The tables are complete.
    """
    article = replace(article, joined_at=0)
    of_article = articles.c.article_id == article.article_id
    before = distributor(connection).execute(select(articles.c.definition).where(of_article)).scalar_one()
    if decode_article(before).defined_at >= article.defined_at:
        return
    is_as_before = (subscriptions.c.article_id == article.article_id) & subscriptions.c.definition.is_(None)
    distributor(connection).execute(update(subscriptions).where(is_as_before).values(definition=before))
    values = {
        "source_owner": article.schema,
        "source_object": article.table,
        "filter_clause": article.filter_clause,
        "definition": encode_article(article),
    }
    distributor(connection).execute(update(articles).where(of_article).values(values))


def change_article_steps(before: Article, after: Article) -> list[Executable]:
    """Return the statements that record a changed article; subscriptions keep what they have until they follow."""
    of_article = articles.c.article_id == after.article_id
    is_as_before = (subscriptions.c.article_id == after.article_id) & subscriptions.c.definition.is_(None)
    values = {
        "ins_cmd": str(after.insert),
        "upd_cmd": str(after.update),
        "del_cmd": str(after.delete),
        "filter_clause": after.filter_clause,
        "definition": encode_article(after),
    }
    return [
        update(subscriptions).where(is_as_before).values(definition=encode_article(before)),
        update(articles).where(of_article).values(values),
    ]


def rebind_article_step(article: Article) -> Executable:
    """Return the statement that records an article's new table oid and column numbers."""
    values = {"source_object_id": article.source_id, "definition": encode_article(article)}
    return update(articles).where(articles.c.article_id == article.article_id).values(values)


def list_articles(connection: Connection, publication_id: int) -> tuple[Article, ...]:
    """Return the articles of a publication, by name."""
    query = select(articles.c.definition).where(articles.c.publication_id == publication_id)
    texts = distributor(connection).execute(query.order_by(articles.c.article)).scalars()
    return tuple(decode_article(text) for text in texts)


def get_article(connection: Connection, publication: str, table_name: str) -> Article:
    """Return an article by a name of `find_named`. Raises `PublicationUnknown`, `ArticleUnknown`."""
    found = find_named(connection, list_articles(connection, get_publication(connection, publication)), table_name)
    if not found:
        raise errors.ArticleUnknown.of(table_name, publication)
    return found[0]


def find_named(connection: Connection, articles: Iterable[Article], name: str) -> list[Article]:
    """Return those articles that a name means: their own, or their table's, as SQL writes it or as it was published."""
    source_id = find_table_id(connection, name)
    return [
        article
        for article in articles
        if source_id == article.source_id or name in (article.name, article.table, article.qualified_name)
    ]


def list_dropped(connection: Connection) -> tuple[Article, ...]:
    """Return the articles whose tables no longer exist, by publication and name."""
    if not is_made(connection):
        return ()
    known = list_all_articles(connection)
    present = list_existing(connection, [article.source_id for article in known])
    return tuple(article for article in known if article.source_id not in present)


@made_once
def list_all_articles(connection: Connection) -> tuple[Article, ...]:
    """Return the articles of all publications, by publication and name."""
    if not is_made(connection):
        return ()
    query = select(articles.c.definition).order_by(articles.c.publication_id, articles.c.article)
    return tuple(decode_article(text) for text in distributor(connection).execute(query).scalars())


def drop_article_step(article_id: str) -> Executable:
    """Return the statement that deletes an article's record."""
    return delete(articles).where(articles.c.article_id == article_id)


def list_procedures(connection: Connection) -> Sequence[str]:
    """Return the names of all generated procedures."""
    columns = articles.c
    rows = distributor(connection).execute(select(columns.ins_proc, columns.upd_proc, columns.del_proc)).all()
    return [name for row in rows for name in row]


PATIENCE_S = 10.0
_PAUSE_S = 0.1


def keep_articles(connection: Connection, publication: str) -> None:
    """Let no article be added to a publication, changed or dropped until the transaction ends."""
    distributor(connection).execute(_row_of(publication).with_for_update(read=True))


def begin_changing(connection: Connection, publication: str) -> None:
    """Let no subscription be added to a publication until the transaction ends. Raises `SubscriptionBeingAdded`."""
    deadline = time.monotonic() + PATIENCE_S
    # Skipped and tried again: a `lock_timeout` would abort the transaction, with what the caller did in it before.
    locking = _row_of(publication).with_for_update(key_share=True, skip_locked=True)
    while distributor(connection).execute(locking).first() is None:
        if time.monotonic() >= deadline:
            raise errors.SubscriptionBeingAdded(publication)
        time.sleep(_PAUSE_S)


def keep_publication(connection: Connection, publication: str) -> None:
    """Let nobody drop a publication until the transaction ends. Raises `PublicationBeingDropped`."""
    kept = "select pg_try_advisory_xact_lock_shared(:class, :key)"
    if not connection.execute(text(kept), key_of_publication(publication)).scalar_one():
        raise errors.PublicationBeingDropped(publication)


@contextmanager
def begin_dropping(engine: Engine, publication: str) -> Iterator[None]:
    """Let nobody add anything to a publication meanwhile. Raises `SubscriptionBeingAdded`."""
    deadline = time.monotonic() + PATIENCE_S
    with engine.connect() as opened:
        connection = opened.execution_options(isolation_level="AUTOCOMMIT")
        require_session(connection.connection.driver_connection)
        taken = "select pg_try_advisory_lock(:class, :key)"
        while not connection.execute(text(taken), key_of_publication(publication)).scalar_one():
            if time.monotonic() >= deadline:
                raise errors.SubscriptionBeingAdded(publication)
            time.sleep(_PAUSE_S)
        try:
            yield
        finally:
            # The lock ends with its session, which an engine may keep.
            connection.invalidate()


def _row_of(publication: str) -> Select[tuple[int]]:
    return select(publications.c.publication_id).where(publications.c.publication == publication)
