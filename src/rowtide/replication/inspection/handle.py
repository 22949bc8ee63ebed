"""What a publisher knows of its replication: the part of `rowtide.connect(url).replication` that changes nothing.

Modules that compare or read the log are imported by the methods that need them, so that listings answer at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from rowtide.core.formats import StoreFormat
from rowtide.core.options import takes
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import DatabaseKind
from rowtide.log.catalogue import find_source
from rowtide.replication.articles.requests import CommandRange, CompareOptions, RowValidation
from rowtide.replication.distributor import definitions, history, publication_records, tracers
from rowtide.replication.distributor.definitions import ReplicationHandle
from rowtide.replication.distributor.history import HistoricError, HistoricState
from rowtide.replication.distributor.tracers import TracerArrival
from rowtide.replication.inspection import listings
from rowtide.replication.inspection.listings import ListedArticle, ListedPublication, ListedSubscription
from rowtide.replication.status import SubscriptionStatus, read_status

if TYPE_CHECKING:
    from rowtide.replication.distributor.history import RepairedRow
    from rowtide.replication.inspection.comparing import ArticleValidation
    from rowtide.replication.inspection.differences import RowDifference
    from rowtide.replication.inspection.row_places import BrowsedCommand, RowPlace


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
        return listings.list_publications(self._engine, self._url)

    def list_articles(self, publication: str | None = None) -> Sequence[ListedArticle]:
        """Return the articles of a publication, or of all (SQL Server: sp_helparticle)."""
        return listings.list_articles(self._engine, self._url, publication)

    def list_subscriptions(self, publication: str | None = None) -> Sequence[ListedSubscription]:
        """Return subscriptions with their queued commands (SQL Server: sp_helpsubscription).

        Does not connect to subscribers.
        """
        return listings.list_subscriptions(self._engine, self._url, publication)

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
        from rowtide.replication.distributor import history

        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return history.list_repairs(connection, publication) if definitions.is_made(connection) else ()

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
