"""Lists of publications, articles and subscriptions (SQL Server: sp_helppublication, sp_helparticle)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, Engine, RowMapping, distinct, func, select

from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.replication.articles.articles import ArticleType, decode_article
from rowtide.replication.distributor import definitions, publication_records
from rowtide.replication.distributor.definitions import (
    agents,
    articles,
    distributor,
    publications,
    read_source,
    subscriptions,
)
from rowtide.replication.distributor.publication_records import list_scripts
from rowtide.replication.status import read_status


@frozen
class ListedPublication:
    """A publication, with its numbers of articles and subscriptions (SQL Server: sp_helppublication)."""

    publication: str
    publisher_db: str
    articles: int
    subscriptions: int
    created_at: datetime


@frozen
class ListedArticle:
    """A published table: its columns, rows and commands (SQL Server: sp_helparticle, sp_helparticlecolumns).

    Of a view, function or procedure only its text is published: it has no columns and commands here. `custom_script`
    is what runs at subscribers after a table's schema changes.
    """

    publication: str
    article: str
    source_owner: str
    source_object: str
    columns: tuple[str, ...]
    key_columns: tuple[str, ...]
    filter_clause: str | None
    ins_cmd: str
    upd_cmd: str
    del_cmd: str
    key_updates: str
    moved_partitions: str
    before_images: str
    type: str
    custom_script: str | None = None


@frozen
class ListedSubscription:
    """A subscription, with its queue in the log store (SQL Server: sp_helpsubscription).

    `settings` are those that are not the default, as a JSON object. `forwards`: what the publisher has received is
    delivered too. `queued_commands` are counted as in `replication
    status`; `queued_bytes` counts whole segments that contain some, and `oldest_queued` is when the first of these was
    read from the log.
    """

    publication: str
    subscriber: str
    articles: tuple[str, ...]
    state: str
    sync_type: str
    constraints: str | None
    settings: str | None
    forwards: bool
    subscribed_at: datetime
    delivered: Position | None
    queued_commands: int
    queued_bytes: int
    oldest_queued: datetime | None


def list_publications(engine: Engine, database: str) -> Sequence[ListedPublication]:
    """Return all publications, oldest first. Raises `DatabaseNotPublished`."""
    with translated(), engine.connect() as connection:
        if not _is_published(connection, database):
            return ()
        counts = (func.count(distinct(articles.c.article_id)), func.count(distinct(agents.c.id)))
        subscribed = agents.c.publication_id == publications.c.publication_id
        query = (
            select(publications.c.publication, publications.c.publisher_db, *counts, publications.c.created_at)
            .select_from(publications.outerjoin(articles).outerjoin(agents, subscribed))
            # Not by the key alone: monitors read a view, of which the server knows no key.
            .group_by(*publications.c)
            .order_by(publications.c.publication_id)
        )
        return tuple(ListedPublication(*row) for row in distributor(connection).execute(query))


def list_articles(engine: Engine, database: str, publication: str | None = None) -> Sequence[ListedArticle]:
    """Return the articles of a publication, or of all. Raises `DatabaseNotPublished`, `PublicationUnknown`."""
    with translated(), engine.connect() as connection:
        if not _is_published(connection, database, publication):
            return ()
        query = (
            select(publications.c.publication, articles)
            .join(publications, publications.c.publication_id == articles.c.publication_id)
            .order_by(publications.c.publication_id, articles.c.article)
        )
        if publication is not None:
            query = query.where(publications.c.publication == publication)
        scripts = list_scripts(connection)
        tables = [_article(row, scripts) for row in distributor(connection).execute(query).mappings()]
        return (*tables, *_list_schema_articles(connection, publication))


def list_subscriptions(engine: Engine, database: str, publication: str | None = None) -> Sequence[ListedSubscription]:
    """Return the subscriptions of a publication, or of all. Raises `DatabaseNotPublished`, `PublicationUnknown`."""
    with translated(), engine.connect() as connection:
        if not _is_published(connection, database, publication):
            return ()
        delivered = articles.c.article_id == subscriptions.c.article_id
        query = (
            select(
                publications.c.publication,
                agents.c.subscriber,
                agents.c.constraints,
                agents.c.settings,
                agents.c.forwards,
                func.array_agg(articles.c.article).label("articles"),
                func.min(subscriptions.c.sync_type).label("sync_type"),
                func.min(subscriptions.c.subscription_time).label("subscribed_at"),
            )
            .select_from(agents.join(publications).join(subscriptions).join(articles, delivered))
            .where(agents.c.joins.is_(None))
            .group_by(publications.c.publication, *agents.c)
        )
        known = {(row.publication, row.subscriber): row for row in distributor(connection).execute(query)}
    return tuple(
        ListedSubscription(
            publication=status.publication,
            subscriber=status.subscriber,
            articles=tuple(sorted(row.articles)),
            state=status.state,
            sync_type=row.sync_type,
            constraints=row.constraints,
            settings=row.settings,
            forwards=row.forwards,
            subscribed_at=row.subscribed_at,
            delivered=status.delivered,
            queued_commands=status.undelivered_commands,
            queued_bytes=status.undelivered_bytes if status.undelivered_commands else 0,
            oldest_queued=status.oldest_undelivered if status.undelivered_commands else None,
        )
        for status in read_status(engine, database, publication)
        if status.joining is None and (row := known.get((status.publication, status.subscriber))) is not None
    )


def _is_published(connection: Connection, database: str, publication: str | None = None) -> bool:
    read_source(connection, database, StoreFormat.require_readable)
    if publication is not None:
        publication_records.get_publication(connection, publication)
    return definitions.is_made(connection)


def _article(row: RowMapping, scripts: Mapping[str, str]) -> ListedArticle:
    article = decode_article(row["definition"])
    return ListedArticle(
        publication=row["publication"],
        article=article.name,
        source_owner=row["source_owner"],
        source_object=row["source_object"],
        columns=tuple(column.name for column in article.columns),
        key_columns=tuple(column.name for column in article.key_columns),
        filter_clause=article.filter_clause,
        ins_cmd=_command(row["ins_cmd"], article.insert_procedure),
        upd_cmd=_command(row["upd_cmd"], article.update_procedure),
        del_cmd=_command(row["del_cmd"], article.delete_procedure),
        key_updates=str(article.key_updates),
        moved_partitions=str(article.moved_partitions),
        before_images=str(article.before_images),
        type=ArticleType.TABLE,
        custom_script=scripts.get(article.article_id),
    )


def _list_schema_articles(connection: Connection, publication: str | None) -> Iterator[ListedArticle]:
    names = publication_records.list_publications(connection) if publication is None else [publication]
    for name in names:
        publication_id = publication_records.get_publication(connection, name)
        for each in publication_records.list_schema_articles(connection, publication_id):
            of_rows = ("ins_cmd", "upd_cmd", "del_cmd", "key_updates", "moved_partitions", "before_images")
            commands = dict.fromkeys(of_rows, "")
            yield ListedArticle(
                name, each.name, each.schema, each.name, (), (), filter_clause=None, type=each.type, **commands
            )


def _command(text: str, generated: str) -> str:
    """Return a command with the procedure that it calls, including a generated one."""
    return f"{text} {generated}" if text.endswith("CALL") else text
