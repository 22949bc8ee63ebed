"""Lists of what a publisher has, and the part of `rowtide.connect(url).replication` that changes nothing.

(SQL Server: sp_helppublication, sp_helparticle, sp_helpsubscription.)

Modules that compare or read the log are imported by the methods that need them, so that listings answer at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, RowMapping, distinct, func, select

from rowtide.core.formats import StoreFormat
from rowtide.core.lsn import Position
from rowtide.core.options import takes
from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import DatabaseKind
from rowtide.log.catalogue import find_source
from rowtide.replication.articles.articles import ArticleType, decode_article
from rowtide.replication.articles.requests import CommandRange, CompareOptions, RowValidation
from rowtide.replication.distributor import (
    definitions,
    history,
    publication_records,
    repair_records,
    schema_article_records,
    tracers,
)
from rowtide.replication.distributor.definitions import agents, articles, publications, subscriptions
from rowtide.replication.distributor.history import HistoricError, HistoricState
from rowtide.replication.distributor.location import distributor
from rowtide.replication.distributor.publisher import ReplicationHandle, read_source
from rowtide.replication.distributor.script_records import list_scripts
from rowtide.replication.distributor.tracers import TracerArrival
from rowtide.replication.status import SubscriptionStatus, read_status

if TYPE_CHECKING:
    from rowtide.replication.distributor.repair_records import RepairedRow
    from rowtide.replication.inspection.comparing import ArticleValidation
    from rowtide.replication.inspection.differences import RowDifference
    from rowtide.replication.inspection.row_places import BrowsedCommand, RowPlace


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
        for each in schema_article_records.list_schema_articles(connection, publication_id):
            of_rows = ("ins_cmd", "upd_cmd", "del_cmd", "key_updates", "moved_partitions", "before_images")
            commands = dict.fromkeys(of_rows, "")
            yield ListedArticle(
                name, each.name, each.schema, each.name, (), (), filter_clause=None, type=each.type, **commands
            )


def _command(text: str, generated: str) -> str:
    """Return a command with the procedure that it calls, including a generated one."""
    return f"{text} {generated}" if text.endswith("CALL") else text


class ReplicationInspection(ReplicationHandle):
    """Lists, progress, history, and comparisons of subscribers with what is published."""

    def script_procedures(self, publication: str, subscriber: str | None = None) -> Sequence[str]:
        """Return the statements that prepare a subscriber; without a subscriber, those for PostgreSQL.

        (SQL Server: sp_scriptpublicationcustomprocs.) Does not connect to the subscriber.
        """
        from rowtide.replication.targets.kinds import kind_named, kind_of

        kind = kind_named(DatabaseKind.POSTGRESQL) if subscriber is None else kind_of(subscriber)
        with translated(), self._engine.connect() as connection:
            find_source(connection, StoreFormat.require_readable)
            publication_id = publication_records.get_publication(connection, publication)
            return kind.creations(publication_records.list_articles(connection, publication_id))

    def list_publications(self) -> Sequence[ListedPublication]:
        """Return all publications, oldest first (SQL Server: sp_helppublication)."""
        return list_publications(self._engine, self._url)

    def list_articles(self, publication: str | None = None) -> Sequence[ListedArticle]:
        """Return the articles of a publication, or of all (SQL Server: sp_helparticle)."""
        return list_articles(self._engine, self._url, publication)

    def list_subscriptions(self, publication: str | None = None) -> Sequence[ListedSubscription]:
        """Return subscriptions with their queued commands (SQL Server: sp_helpsubscription).

        Does not connect to subscribers.
        """
        return list_subscriptions(self._engine, self._url, publication)

    def status(self, publication: str | None = None) -> tuple[SubscriptionStatus, ...]:
        """Return the progress of subscriptions, without connecting to subscribers."""
        return read_status(self._engine, self._url, publication)

    def list_history(self, publication: str | None = None) -> Sequence[HistoricState]:
        """Return the agents' history of the last 48 hours, newest first."""
        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return history.list_history(connection, publication) if definitions.is_made(connection) else ()

    def list_errors(self, publication: str | None = None) -> Sequence[HistoricError]:
        """Return the agents' errors of the last 48 hours, newest first."""
        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return history.list_errors(connection, publication) if definitions.is_made(connection) else ()

    @takes(CommandRange)
    def browse_commands(self, wanted: CommandRange) -> Iterator[BrowsedCommand]:
        """Return the commands in the log store as text, in commit order (SQL Server: sp_browsereplcmds).

        Both ends of the range are included; one segment at a time is in memory. Raises `ColumnNotLogged` where delivery
        would stop.
        """
        from rowtide.replication.inspection import row_places

        return row_places.browse_commands(
            self._engine, self._url, wanted.publication, wanted.article, wanted.from_lsn, wanted.to_lsn
        )

    def list_tracer_tokens(self, publication: str) -> Sequence[TracerArrival]:
        """Return the latency of tokens to the log store and to each subscriber, in seconds, newest token first.

        (SQL Server: sp_helptracertokens, sp_helptracertokenhistory.)
        """
        return tracers.list_tokens(self._engine, self._url, publication)

    @takes(RowValidation)
    def validate(self, options: RowValidation) -> Sequence[ArticleValidation]:
        """Compare subscribers' rows with the published ones, by row counts or also by checksums of their values.

        (SQL Server: sp_publication_validation.) Both may change meanwhile: the published rows are compared as they were
        at the subscriber's position.
        """
        from rowtide.replication.inspection import comparing

        wanted = comparing.find_wanted(self._engine, self._url, options)
        return comparing.validate(self._engine, self._url, wanted, options)

    @takes(CompareOptions)
    def find_differences(self, options: CompareOptions) -> Iterator[RowDifference]:
        """Return the rows in which subscribers differ from the published ones, as `validate` compares them.

        They are yielded as they are found, in any number.
        """
        from rowtide.replication.inspection import comparing, differences

        wanted = comparing.find_wanted(self._engine, self._url, options)
        return differences.find_differences(self._engine, self._url, wanted, options)

    def list_repairs(self, publication: str | None = None) -> Sequence[RepairedRow]:
        """Return the rows that were repaired at subscribers, newest first; kept as long as the subscription."""

        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return repair_records.list_repairs(connection, publication) if definitions.is_made(connection) else ()

    def find_row(self, table: str, *key: str) -> Sequence[RowPlace]:
        """Return where a row is on its way: at the publisher, and at each subscriber of an article of the table.

        `key` has the texts of the primary key's values, in its order. With each place comes the last command for the
        row, there or in the log store. Raises `ArticleUnknown`, `RowKeyInvalid`.
        """
        from rowtide.replication.inspection import row_places

        return tuple(row_places.find_row(self._engine, self._url, table, key))


def _require_publication(connection: Connection, publication: str | None) -> None:
    find_source(connection, StoreFormat.require_readable)
    if publication is not None:
        publication_records.get_publication(connection, publication)
