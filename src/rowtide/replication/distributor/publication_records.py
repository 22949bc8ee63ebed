"""Publications as the distribution database records them, with articles, custom scripts and schema-only articles.

A publication's articles stay as they are while a subscription to it is added: it begins with all of them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Executable,
    ForeignKey,
    Integer,
    Select,
    Table,
    Text,
    delete,
    insert,
    select,
    text,
    update,
)

from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import find_table_id, list_existing
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.kept_answers import made_once
from rowtide.databases.postgres.session_settings import require_session
from rowtide.replication.articles.articles import Article, ArticleType, decode_article, encode_article
from rowtide.replication.distributor.definitions import (
    articles,
    distributor,
    is_made,
    metadata,
    publications,
    read_source,
    require_writable,
    subscriptions,
)
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
_CLASS = 0x726F7778
"""The first key of advisory locks: "rowx"; the second is made of the publication's name. "rowv" is of subscriptions."""


def keep_articles(connection: Connection, publication: str) -> None:
    """Let no article be added to a publication, changed or dropped until the transaction ends."""
    distributor(connection).execute(_row_of(publication).with_for_update(read=True))


def begin_changing(connection: Connection, publication: str) -> None:
    """Let no subscription be added to a publication until the transaction ends. Raises `SubscriptionBeingAdded`."""
    deadline = time.monotonic() + PATIENCE_S
    locking = _row_of(publication).with_for_update(key_share=True, skip_locked=True)
    while distributor(connection).execute(locking).first() is None:
        if time.monotonic() >= deadline:
            raise errors.SubscriptionBeingAdded(publication)
        time.sleep(_PAUSE_S)


def keep_publication(connection: Connection, publication: str) -> None:
    """Let nobody drop a publication until the transaction ends. Raises `PublicationBeingDropped`."""
    kept = "select pg_try_advisory_xact_lock_shared(:class, :key)"
    if not connection.execute(text(kept), _key_of(publication)).scalar_one():
        raise errors.PublicationBeingDropped(publication)


@contextmanager
def begin_dropping(engine: Engine, publication: str) -> Iterator[None]:
    """Let nobody add anything to a publication meanwhile. Raises `SubscriptionBeingAdded`."""
    deadline = time.monotonic() + PATIENCE_S
    with engine.connect() as opened:
        connection = opened.execution_options(isolation_level="AUTOCOMMIT")
        require_session(connection.connection.driver_connection)
        taken = "select pg_try_advisory_lock(:class, :key)"
        while not connection.execute(text(taken), _key_of(publication)).scalar_one():
            if time.monotonic() >= deadline:
                raise errors.SubscriptionBeingAdded(publication)
            time.sleep(_PAUSE_S)
        try:
            yield
        finally:
            # The lock ends with its session, which an engine may keep.
            connection.invalidate()


def _key_of(publication: str) -> dict[str, int]:
    return {"class": _CLASS, "key": zlib.crc32(publication.encode()) >> 1}


def _row_of(publication: str) -> Select[tuple[int]]:
    return select(publications.c.publication_id).where(publications.c.publication == publication)


# Scripts that run at subscribers after a schema change (SQL Server: sp_register_custom_scripting). A script belongs
# to an article, and runs with the schema changes from a position of the log on, until the next one's. So a subscriber
# that is behind gets each change with the script that was meant for it.

custom_scripts = Table(
    "MScustom_scripts",
    metadata,
    Column("article_id", Text, ForeignKey(articles.c.article_id, ondelete="cascade"), primary_key=True),
    Column("from_seqno", BigInteger, primary_key=True, comment="it runs with schema changes from this position on"),
    Column("name", Text, comment="the file, or module:function; null: from here on there is none"),
    Column("script", Text, comment="SQL; null: what the function returns"),
)


@frozen
class CustomScript:
    """A script by its name: SQL, or a Python function `module:function` that returns SQL (`text` None)."""

    name: str
    text: str | None

    @classmethod
    def of(cls, *, sql: str | None, python: str | None, name: str | None) -> CustomScript:
        """Return the script that was given: one of the two. Raises `CustomScriptInvalid`."""
        if (sql is None) is (python is None):
            raise errors.CustomScriptInvalid(
                "nothing" if sql is None else "both", "either SQL or a Python function is needed"
            )
        if sql is not None:
            if not sql.strip():
                raise errors.CustomScriptInvalid(name or "SQL", "it is empty")
            return cls(name or "SQL", sql)
        module, _, function = (python or "").partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), function)):
            raise errors.CustomScriptInvalid(python or "", "it is not of the form module:function")
        return cls(f"{module}:{function}", None)


def register(connection: Connection, article_id: str, script: CustomScript | None, start: Position) -> None:
    """Record an article's script, or that it has none, from a position on, in the caller's transaction."""
    columns = custom_scripts.c
    later = (columns.article_id == article_id) & (columns.from_seqno >= start.value)
    distributor(connection).execute(delete(custom_scripts).where(later))
    values = {"article_id": article_id, "from_seqno": start.value}
    if script is not None:
        values |= {"name": script.name, "script": script.text}
    distributor(connection).execute(insert(custom_scripts).values(values))


def find_script(connection: Connection, article_id: str, lsn: CommitLsn) -> CustomScript | None:
    """Return an article's script for the schema changes of a transaction; None if it has none."""
    columns = custom_scripts.c
    until = (columns.article_id == article_id) & (columns.from_seqno <= lsn.value)
    query = select(columns.name, columns.script).where(until).order_by(columns.from_seqno.desc()).limit(1)
    row = distributor(connection).execute(query).one_or_none()
    return None if row is None or row.name is None else CustomScript(row.name, row.script)


def list_scripts(connection: Connection) -> dict[str, str]:
    """Return the name of each article's newest script, by article id."""
    return {article_id: script.name for article_id, script in list_newest(connection).items()}


def list_newest(connection: Connection) -> dict[str, CustomScript]:
    """Return each article's newest script, by article id."""
    columns = custom_scripts.c
    query = select(columns.article_id, columns.name, columns.script).order_by(columns.from_seqno)
    newest = {row.article_id: row for row in distributor(connection).execute(query)}
    return {
        article_id: CustomScript(row.name, row.script) for article_id, row in newest.items() if row.name is not None
    }


# Schema-only articles: views, materialized views, functions and procedures, whose text is published and nothing else.
# (SQL Server: sysschemaarticles, and sp_addarticle with a type "schema only".) The text is not stored: it is what the
# publisher's catalogue has when a subscriber gets it.


@frozen
class SchemaArticle:
    """An object whose text is published; `name` is quoted as SQL needs it, with schema and a function's parameters."""

    article_id: str
    type: ArticleType
    source_id: int
    schema: str
    name: str


schema_articles = Table(
    "MSschemaarticles",
    metadata,
    Column("article_id", Text, primary_key=True),
    Column("publication_id", Integer, ForeignKey(publications.c.publication_id, ondelete="cascade"), nullable=False),
    Column("type", Text, nullable=False),
    Column("source_object_id", BigInteger, nullable=False),
    Column("source_owner", Text, nullable=False),
    Column("source_object", Text, nullable=False, comment="as SQL needs it; of a function with its parameters"),
)


def list_schema_articles(connection: Connection, publication_id: int) -> tuple[SchemaArticle, ...]:
    """Return the schema-only articles of a publication, by name."""
    columns = schema_articles.c
    query = select(
        columns.article_id, columns.type, columns.source_object_id, columns.source_owner, columns.source_object
    )
    query = query.where(columns.publication_id == publication_id).order_by(columns.source_object)
    return tuple(
        SchemaArticle(article_id, ArticleType(kind), source_id, schema, name)
        for article_id, kind, source_id, schema, name in distributor(connection).execute(query)
    )


def add_step(publication_id: int, article: SchemaArticle) -> Executable:
    """Return the statement that records an article."""
    return insert(schema_articles).values(
        article_id=article.article_id,
        publication_id=publication_id,
        type=article.type.value,
        source_object_id=article.source_id,
        source_owner=article.schema,
        source_object=article.name,
    )


def drop_steps(articles: Sequence[SchemaArticle]) -> list[Executable]:
    """Return the statements that delete articles' records."""
    return [delete(schema_articles).where(schema_articles.c.article_id == each.article_id) for each in articles]
