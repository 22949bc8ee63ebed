"""Transactional replication of one publisher, as Python programs use it: `rowtide.connect(url).replication`.

What delivers, and what alters publications, is imported by the methods that use it: the listings answer at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from sqlalchemy import Connection, Executable

from rowtide.core.lsn import CommitLsn
from rowtide.databases.kinds import DatabaseKind
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import find_source, read_source
from rowtide.replication import definitions, history, retention, tracers
from rowtide.replication.articles import ArticleOptions, ArticleRequest
from rowtide.replication.distribution.skip_errors import NOTHING_SKIPPED, SkipErrors
from rowtide.replication.history import HistoricError, HistoricState
from rowtide.replication.inspection import listings, status
from rowtide.replication.inspection.listings import ListedArticle, ListedPublication, ListedSubscription
from rowtide.replication.inspection.status import SubscriptionStatus
from rowtide.replication.sync_types import IfExists, SubscriptionOptions, SubscriptionRequest
from rowtide.replication.tracers import TracerArrival

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowtide.log.postgres.provision import OpenedSource
    from rowtide.replication.distribution.batches import BatchLimits
    from rowtide.replication.inspection.browsing import BrowsedCommand
    from rowtide.replication.inspection.validating import ArticleValidation
    from rowtide.replication.publishing.publications import LogEnding
    from rowtide.replication.publishing.restarting import DeliveryLoss
    from rowtide.replication.running.watchers import Watchers
    from rowtide.replication.spark.backlogs import DeliveredBacklog


class TransactionalReplication:
    """Publications of a PostgreSQL database, their subscriptions, and the agents that deliver."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = open_engine(url)

    def add_publication(
        self,
        name: str,
        *,
        lake: str | None = None,
        log_store: str | None = None,
        for_group: bool = False,
        on_wait: Callable[[str], None] = lambda _whom: None,
    ) -> OpenedSource:
        """Make a publication without articles (SQL Server: sp_addpublication).

        `lake` or `log_store` say where what is read of the log is kept, in a database that is not enabled for capture,
        in folders of this user alone, and `for_group` their group's to read;
        the first publication there waits for open transactions: `on_wait` is told for which.
        """
        from rowtide.replication.publishing import publications

        return publications.add_publication(
            self._engine, self._url, name, lake=lake, log_store=log_store, for_group=for_group, on_wait=on_wait
        )

    def find_ending(self, name: str) -> LogEnding | None:
        """Say what `drop_publication` takes away besides the publication; None where the log is read on."""
        from rowtide.replication.publishing import publications

        return publications.find_ending(self._engine, name)

    def drop_publication(self, name: str) -> None:
        """Drop a publication without subscriptions, and its articles (SQL Server: sp_droppublication)."""
        from rowtide.replication.publishing import publications

        publications.drop_publication(self._engine, self._url, name)

    def find_loss(self) -> DeliveryLoss:
        """Say what `restart_log` would give up."""
        from rowtide.replication.publishing import restarting

        return restarting.find_loss(self._engine, self._url)

    def restart_log(self, reason: str, *, on_wait: Callable[[str], None] = lambda _whom: None) -> DeliveryLoss:
        """Go on after a gap: publication and slot are made anew (SQL Server: sp_replrestart); return what is lost.

        Where publications alone read the log. Subscriptions are copied anew by `reinitialize`.
        """
        from rowtide.replication.publishing import restarting

        return restarting.restart_log(self._engine, self._url, reason, on_wait)

    def add_article(self, publication: str, table: str, **options: Unpack[ArticleOptions]) -> None:
        """Publish a table (SQL Server: sp_addarticle). Options are the fields of `ArticleRequest`."""
        from rowtide.replication.publishing import publications

        publications.add_article(self._engine, self._url, publication, table, ArticleRequest(**options))

    def plan_add_article(self, publication: str, table: str, **options: Unpack[ArticleOptions]) -> Sequence[Executable]:
        """Return the statements that `add_article` would run."""
        from rowtide.replication.publishing import publications

        return publications.plan_add_article(self._engine, self._url, publication, table, ArticleRequest(**options))

    def find_heirs(self, table: str) -> tuple[str, ...]:
        """Return the tables that inherit from one: their rows are not published with it. Raises `TableNotFound`."""
        from rowtide.replication.publishing import publications

        return publications.find_heirs(self._engine, table)

    def drop_article(self, publication: str, table: str) -> None:
        """Take a table out of a publication (SQL Server: sp_droparticle)."""
        from rowtide.replication.publishing import publications

        publications.drop_article(self._engine, self._url, publication, table)

    def plan_drop_article(self, publication: str, table: str) -> Sequence[Executable]:
        """Return the statements that `drop_article` would run."""
        from rowtide.replication.publishing import publications

        return publications.plan_drop_article(self._engine, self._url, publication, table)

    def add_subscription(
        self, publication: str, subscriber: str, **options: Unpack[SubscriptionOptions]
    ) -> tuple[str, ...]:
        """Deliver a publication to a database: its rows, and all that commits from now on.

        (SQL Server: sp_addsubscription.) Options are the fields of `SubscriptionRequest`. Return the unique constraints
        that the subscriber's new tables do not have: deferrable ones, in a SQLite file.
        """
        from rowtide.replication.subscribing import subscriptions

        return subscriptions.add_subscription(
            self._engine, self._url, publication, subscriber, SubscriptionRequest(**options)
        )

    def drop_subscription(self, publication: str, subscriber: str, *, ignores_subscriber: bool = False) -> None:
        """End a subscription; the subscriber's tables stay as they are (SQL Server: sp_dropsubscription)."""
        from rowtide.replication.subscribing import subscriptions

        subscriptions.drop_subscription(
            self._engine, self._url, publication, subscriber, ignores_subscriber=ignores_subscriber
        )

    def reinitialize(
        self, publication: str, subscriber: str | None = None, *, if_exists: IfExists = IfExists.DROP
    ) -> tuple[str, ...]:
        """Copy the tables anew to a subscriber, or to all; return which (SQL Server: sp_reinitsubscription)."""
        from rowtide.replication.subscribing import subscriptions

        return subscriptions.reinitialize(self._engine, self._url, publication, subscriber, if_exists)

    def pause(self, publication: str, subscriber: str | None = None) -> None:
        """Stop delivering to a subscriber, or to all of a publication; what they lack is kept until the retention."""
        from rowtide.replication.subscribing import pausing

        pausing.pause(self._engine, self._url, publication, subscriber)

    def resume(self, publication: str, subscriber: str | None = None) -> None:
        """Deliver again to a subscriber, or to all of a publication."""
        from rowtide.replication.subscribing import pausing

        pausing.resume(self._engine, self._url, publication, subscriber)

    def change_distribution(self, *, max_retention_hours: int) -> None:
        """Keep what a subscription was not delivered for so many hours (SQL Server: sp_changedistributiondb)."""
        retention.change_max_retention(self._engine, self._url, max_retention_hours)

    def script_procedures(self, publication: str, subscriber: str | None = None) -> Sequence[str]:
        """Return the statements that prepare a subscriber, one in PostgreSQL where none is named.

        (SQL Server: sp_scriptpublicationcustomprocs.) The subscriber itself is not asked.
        """
        from rowtide.replication.targets.kinds import KINDS, kind_of

        kind = KINDS[DatabaseKind.POSTGRESQL] if subscriber is None else kind_of(subscriber)
        with translated(), self._engine.connect() as connection:
            find_source(connection)
            publication_id = definitions.get_publication(connection, publication)
            return kind.creations(definitions.list_articles(connection, publication_id))

    def list_publications(self) -> Sequence[ListedPublication]:
        """Return all publications (SQL Server: sp_helppublication)."""
        return listings.list_publications(self._engine, self._url)

    def list_articles(self, publication: str | None = None) -> Sequence[ListedArticle]:
        """Return the articles of a publication, or of all (SQL Server: sp_helparticle)."""
        return listings.list_articles(self._engine, self._url, publication)

    def list_subscriptions(self, publication: str | None = None) -> Sequence[ListedSubscription]:
        """Return subscriptions and what is queued for them (SQL Server: sp_helpsubscription)."""
        return listings.list_subscriptions(self._engine, self._url, publication)

    def status(self, publication: str | None = None) -> tuple[SubscriptionStatus, ...]:
        """Return how far the subscriptions are, without asking the subscribers."""
        return status.read_status(self._engine, self._url, publication)

    def list_history(self, publication: str | None = None) -> Sequence[HistoricState]:
        """Return what the agents have done in the last 48 hours, the newest first."""
        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return history.list_history(connection, publication) if definitions.is_made(connection) else ()

    def list_errors(self, publication: str | None = None) -> Sequence[HistoricError]:
        """Return the errors of the agents in the last 48 hours, the newest first."""
        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return history.list_errors(connection, publication) if definitions.is_made(connection) else ()

    def browse_commands(
        self,
        publication: str | None = None,
        *,
        article: str | None = None,
        from_lsn: CommitLsn | None = None,
        to_lsn: CommitLsn | None = None,
    ) -> Iterator[BrowsedCommand]:
        """Return the commands in the log store as text, in commit order (SQL Server: sp_browsereplcmds)."""
        from rowtide.replication.inspection import browsing

        return browsing.browse_commands(self._engine, self._url, publication, article, from_lsn, to_lsn)

    def post_tracer_token(self, publication: str) -> int:
        """Post a token into the log, and return its id (SQL Server: sp_posttracertoken)."""
        return tracers.post_token(self._engine, self._url, publication)

    def list_tracer_tokens(self, publication: str) -> Sequence[TracerArrival]:
        """Return how long tokens took to the log store and to each subscriber.

        (SQL Server: sp_helptracertokens, sp_helptracertokenhistory.)
        """
        return tracers.list_tokens(self._engine, self._url, publication)

    def validate(self, publication: str, *, checksum: bool = False) -> Sequence[ArticleValidation]:
        """Compare the rows of subscribers with the published ones, by counts, or by checksums of their values too.

        What is on its way counts as a difference. (SQL Server: sp_publication_validation.)
        """
        from rowtide.replication.inspection import validating

        return validating.validate(self._engine, self._url, publication, with_checksum=checksum)

    def deliver_backlogs(
        self, publication: str | None = None, *, limits: BatchLimits | None = None, spark: SparkSession | None = None
    ) -> tuple[DeliveredBacklog, ...]:
        """Deliver what the log store has to subscriptions that lack much of it, each by a task of Spark.

        For many subscribers, or after a long stop; `run` goes on from there.
        """
        from rowtide.lake.session import build_session
        from rowtide.replication.distribution.batches import BatchLimits
        from rowtide.replication.spark.backlogs import deliver_backlogs

        with translated(), self._engine.connect() as connection:
            read_source(connection, self._url)  # before Spark is started for nothing
        session = spark if spark is not None else build_session()
        return deliver_backlogs(session, self._engine, self._url, publication, limits or BatchLimits())

    def run(
        self,
        publication: str | None = None,
        *,
        once: bool = False,
        limits: BatchLimits | None = None,
        stop: threading.Event | None = None,
        watchers: Watchers | None = None,
        skip_errors: str = "",
    ) -> None:
        """Read the log, if nobody else does, and deliver to all subscribers of a publication, or of all.

        Each subscription has a thread. One that stops with an error is told to `watchers`, and the others go on. It
        ends when `stop` is set; with `once`, when all that was committed before is delivered. Raises the error when all
        have stopped with one, with `once` at the end when any has; `SubscriptionsFailed` for several.
        `skip_errors`: numbers of SQL Server or SQLSTATEs with colons between them; a command with such an error is left
        out and told to `watchers`. Raises `SkipErrorsInvalid` at once.
        (SQL Server: the Log Reader Agent and the Distribution Agents.)
        """
        from rowtide.replication.distribution.batches import BatchLimits
        from rowtide.replication.running import run
        from rowtide.replication.running.watchers import Watchers

        run.run_replication(
            self._url,
            publication=publication,
            once=once,
            stop=stop or threading.Event(),
            limits=limits or BatchLimits(),
            watchers=watchers or Watchers(),
            skips=SkipErrors.parse(skip_errors) if skip_errors else NOTHING_SKIPPED,
        )


def _require_publication(connection: Connection, publication: str | None) -> None:
    find_source(connection)
    if publication is not None:
        definitions.get_publication(connection, publication)
