"""Transactional replication of one publisher: `rowtide.connect(url).replication`.

Modules that deliver or alter publications are imported by the methods that need them, so that listings answer at once.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Unpack

from sqlalchemy import Connection, Engine

from rowtide.core.earlier_names import earlier_name
from rowtide.core.lsn import CommitLsn
from rowtide.databases.kinds import DatabaseKind
from rowtide.databases.postgres.alterations import Alterations, Committing, rehearsing
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import find_source, read_source
from rowtide.replication import definitions, history, retention, tracers
from rowtide.replication.article_types import ArticleType
from rowtide.replication.articles import ArticleOptions, ArticleRequest
from rowtide.replication.claims import APPLICATION_NAME
from rowtide.replication.custom_scripts import CustomScript
from rowtide.replication.distribution.skip_errors import SkipErrors
from rowtide.replication.history import HistoricError, HistoricState
from rowtide.replication.inspection import listings
from rowtide.replication.inspection.compare_options import CompareOptions
from rowtide.replication.inspection.listings import ListedArticle, ListedPublication, ListedSubscription
from rowtide.replication.status import SubscriptionStatus, read_status
from rowtide.replication.subscription_settings import SettingsChanges, SubscriptionSettings
from rowtide.replication.sync_types import IfExists, SubscriptionOptions, SubscriptionRequest
from rowtide.replication.tracers import TracerArrival

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowtide.log.postgres.provision import OpenedSource
    from rowtide.replication.article_changes import ArticleChanges
    from rowtide.replication.distribution.watchers import Watchers
    from rowtide.replication.inspection.browsing import BrowsedCommand
    from rowtide.replication.inspection.differences import RowDifference
    from rowtide.replication.inspection.row_places import RowPlace
    from rowtide.replication.inspection.validating import ArticleValidation
    from rowtide.replication.publishing.publications import LogEnding
    from rowtide.replication.publishing.restarting import DeliveryLoss
    from rowtide.replication.publishing.whole_schemas import AddedArticle
    from rowtide.replication.repair_records import RepairedRow
    from rowtide.replication.repairing import Repair
    from rowtide.replication.spark.backlogs import DeliveredBacklog
    from rowtide.replication.targets.kept_conflicts import KeptConflict
    from rowtide.replication.targets.sequences import SyncedSequence


class ArticlePublishing(ABC):
    """What a PostgreSQL database publishes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._engine = open_engine(url)

    @abstractmethod
    def _altering(self) -> AbstractContextManager[Alterations]: ...

    def add_article(
        self,
        publication: str,
        table: str,
        *,
        if_exists: IfExists = IfExists.FAIL,
        **options: Unpack[ArticleOptions],
    ) -> None:
        """Publish a table (SQL Server: sp_addarticle). Options are the fields of `ArticleRequest`.

        The publication's subscribers get its rows while everything else is delivered; `if_exists`: what becomes of a
        table of that name that one has already.
        """
        from rowtide.replication.publishing import publications

        request = ArticleRequest(**options)
        with self._altering() as alterations:
            publications.add_article(alterations, self._url, publication, table, request, if_exists)

    def change_article(
        self,
        publication: str,
        table: str,
        *,
        if_exists: IfExists | None = None,
        **changes: Unpack[ArticleChanges],
    ) -> None:
        """Change an article, for its subscribers too.

        (SQL Server: sp_changearticle, sp_articlefilter, sp_articlecolumn.) Changes are the fields of `ArticleChange`.
        Subscribers that lack rows or values afterwards copy the table again, while everything else is delivered; see
        `find_copying`. `if_exists`: what becomes of their table; None: it is dropped, or emptied where the subscription
        kept what was there.
        """
        from rowtide.replication.article_changes import ArticleChange
        from rowtide.replication.publishing import changing

        with self._altering() as alterations:
            changing.change_article(alterations, self._url, publication, table, ArticleChange(**changes), if_exists)

    def add_schema_article(self, publication: str, name: str, article_type: ArticleType | None = None) -> bool:
        """Publish the text of a view, materialized view, function or procedure (SQL Server: types "schema only").

        Returns false for a table. PostgreSQL subscribers get the object at once, or as it is now where they have it.
        """
        from rowtide.replication.publishing import schema_articles

        with self._altering() as alterations:
            return schema_articles.add(alterations, self._url, publication, name, article_type)

    def drop_article(self, publication: str, table: str) -> None:
        """Remove a table from a publication, or an object whose text it has (SQL Server: sp_droparticle)."""
        from rowtide.replication.publishing import publications, schema_articles

        with self._altering() as alterations:
            if schema_articles.drop(alterations, self._url, publication, table):
                return
            publications.drop_article(alterations, self._url, publication, table)


class ReplicationRehearsal(ArticlePublishing):
    """The same calls without effect; `statements` has what they would run."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.statements: list[str] = []

    def _altering(self) -> AbstractContextManager[Alterations]:
        return rehearsing(self._engine, self.statements)


class TransactionalReplication(ArticlePublishing):
    """Publications of a PostgreSQL database, their subscriptions, and the agents that deliver."""

    def rehearsal(self) -> ReplicationRehearsal:
        """Return what publishes without effect, to see what would be done."""
        return ReplicationRehearsal(self._url)

    def _altering(self) -> AbstractContextManager[Alterations]:
        return nullcontext(Committing(self._engine))

    def add_schema_article(self, publication: str, name: str, article_type: ArticleType | None = None) -> bool:
        from rowtide.replication.publishing import schema_articles

        is_added = super().add_schema_article(publication, name, article_type)
        if is_added:
            schema_articles.renew(self._engine, publication)
        return is_added

    def add_schema(self, publication: str, schema: str, *, excluding: Sequence[str] = ()) -> Iterator[AddedArticle]:
        """Publish what a schema has: tables, and the text of views, functions and procedures.

        Yields what became of each object while it goes on; `excluding` are names and patterns of those left out.
        """
        from rowtide.replication.publishing import whole_schemas

        def add(name: str, article_type: ArticleType) -> None:
            if article_type is ArticleType.TABLE:
                self.add_article(publication, name)
            else:
                self.add_schema_article(publication, name, article_type)

        return whole_schemas.add_schema(self._engine, publication, schema, excluding, add)

    def add_publication(
        self,
        name: str,
        *,
        lake: str | None = None,
        log_store: str | None = None,
        for_group: bool = False,
        replicate_ddl: bool = True,
        distribution_db: str | None = None,
        on_wait: Callable[[str], None] = lambda _whom: None,
    ) -> OpenedSource:
        """Create a publication without articles (SQL Server: sp_addpublication).

        With `replicate_ddl`, columns that are added to its tables are added at subscribers.

        In a database that is not enabled for capture, `lake` or `log_store` is the directory in which the log reader
        stores the log. Only this user can read its folders; with `for_group`, the group can too. `distribution_db` is
        the URL, without a password, of another database that holds what the publisher's publications, articles and
        subscriptions are (SQL Server: sp_adddistributor); later publications find it. The first publication
        waits for open transactions; `on_wait` is called with what it waits for.
        """
        from rowtide.replication.publishing import publications

        return publications.add_publication(
            self._engine,
            self._url,
            name,
            lake=lake,
            log_store=log_store,
            for_group=for_group,
            replicate_ddl=replicate_ddl,
            distribution_db=distribution_db,
            on_wait=on_wait,
        )

    def register_custom_scripting(
        self,
        publication: str,
        table: str,
        *,
        sql: str | None = None,
        python: str | None = None,
        name: str | None = None,
        from_lsn: CommitLsn | None = None,
    ) -> None:
        """Register what runs at subscribers after each schema change of a table, in its transaction.

        (SQL Server: sp_register_custom_scripting.) `sql` are statements, known by `name`; or `python` names a function
        `module:function` of the agent's, which is given a `ScriptedChange` and returns statements. It replaces the one
        before for the changes that commit from now on, or from an LSN on.
        """
        from rowtide.replication.publishing import custom_scripting

        script = CustomScript.of(sql=sql, python=python, name=name)
        custom_scripting.register_script(self._engine, self._url, publication, table, script, from_lsn)

    def unregister_custom_scripting(self, publication: str, table: str) -> None:
        """Let no custom script run after later schema changes (SQL Server: sp_unregister_custom_scripting)."""
        from rowtide.replication.publishing import custom_scripting

        custom_scripting.register_script(self._engine, self._url, publication, table, None)

    def find_ending(self, name: str) -> LogEnding | None:
        """Return what `drop_publication` removes besides the publication; None if the log is still read afterwards."""
        from rowtide.replication.publishing import publications

        return publications.find_ending(self._engine, name)

    def drop_publication(self, name: str) -> None:
        """Drop a publication without subscriptions, and its articles (SQL Server: sp_droppublication)."""
        from rowtide.replication.publishing import publications

        publications.drop_publication(self._engine, self._url, name)

    def move_distribution(self, distribution_db: str) -> int | None:
        """Move the distribution database to another database; return how many rows were copied.

        None if it was not there any more: then one that was restored at the new place is used.
        """
        from rowtide.replication.publishing import distribution_place

        return distribution_place.move_distribution(self._engine, self._url, distribution_db)

    def find_loss(self) -> DeliveryLoss:
        """Return what `restart_log` would give up."""
        from rowtide.replication.publishing import restarting

        return restarting.find_loss(self._engine, self._url)

    def restart_log(self, reason: str, *, on_wait: Callable[[str], None] = lambda _whom: None) -> DeliveryLoss:
        """Restart the log after a gap with a new publication and slot (SQL Server: sp_replrestart).

        Return what is lost. For databases whose log only publications read. Subscriptions must then be copied again
        with `reinitialize`.
        """
        from rowtide.replication.publishing import restarting

        return restarting.restart_log(self._engine, self._url, reason, on_wait)

    def find_copying(self, publication: str, table: str, **changes: Unpack[ArticleChanges]) -> tuple[str, ...]:
        """Return the subscribers that would copy a table again if its article was changed so."""
        from rowtide.replication.article_changes import ArticleChange
        from rowtide.replication.publishing import changing

        return changing.find_copying(self._engine, self._url, publication, table, ArticleChange(**changes))

    def find_child_tables(self, table: str) -> tuple[str, ...]:
        """Return the tables that inherit from a table; their rows are not published with it. Raises `TableNotFound`."""
        from rowtide.replication.publishing import publications

        return publications.find_child_tables(self._engine, table)

    def add_subscription(
        self, publication: str, subscriber: str, **options: Unpack[SubscriptionOptions]
    ) -> tuple[str, ...]:
        """Subscribe a database to a publication: its rows, and all changes that commit from now on.

        (SQL Server: sp_addsubscription.) Options are the fields of `SubscriptionRequest`. Returns the unique
        constraints that the subscriber's new tables lack: deferrable ones, in a SQLite file.
        """
        from rowtide.replication.subscribing import subscriptions

        return subscriptions.add_subscription(
            self._engine, self._url, publication, subscriber, SubscriptionRequest(**options)
        )

    def drop_subscription(self, publication: str, subscriber: str, *, ignore_subscriber: bool = False) -> None:
        """End a subscription; the subscriber's tables stay as they are (SQL Server: sp_dropsubscription)."""
        from rowtide.replication.subscribing import subscriptions

        subscriptions.drop_subscription(
            self._engine, self._url, publication, subscriber, ignore_subscriber=ignore_subscriber
        )

    def reinitialize(
        self,
        publication: str,
        subscriber: str | None = None,
        *,
        article: str | None = None,
        if_exists: IfExists | None = None,
    ) -> tuple[str, ...]:
        """Copy the tables again to a subscriber, or to all; return which (SQL Server: sp_reinitsubscription).

        `if_exists` None: tables are dropped first, or emptied where the subscription kept what was there.

        With `article`, a table's name, that table alone, while the others are delivered.
        """
        from rowtide.replication.subscribing import articles, subscriptions

        if article is not None:
            return articles.reinitialize_article(self._engine, self._url, publication, article, subscriber, if_exists)
        return subscriptions.reinitialize(self._engine, self._url, publication, subscriber, if_exists)

    def change_subscription(
        self, publication: str, subscriber: str, **changes: Unpack[SettingsChanges]
    ) -> SubscriptionSettings:
        """Change settings of a subscription and return them all (SQL Server: sp_changesubscription).

        A run takes them on within a second, at the end of a batch.
        """
        from rowtide.replication.subscribing import subscriptions

        return subscriptions.change_subscription(self._engine, self._url, publication, subscriber, changes)

    def sync_sequences(self, publication: str, subscriber: str | None = None) -> Sequence[SyncedSequence]:
        """Move the sequences of subscribers' columns to where the publisher's are, none of them back.

        For a switch-over: stop writing, deliver everything, then move them. Returns those that were moved.
        """
        from rowtide.replication.subscribing import sequences

        return sequences.sync_sequences(self._engine, self._url, publication, subscriber)

    def list_conflicts(self, publication: str | None = None, subscriber: str | None = None) -> Sequence[KeptConflict]:
        """Return the conflicts that subscribers have kept, newest first for each subscription.

        Raises `PublicationUnknown`, `SubscriptionUnknown`, and what connecting to the subscribers raises.
        """
        from rowtide.replication.inspection import conflicts

        return conflicts.list_conflicts(self._engine, self._url, publication, subscriber)

    def pause(self, publication: str, subscriber: str | None = None) -> None:
        """Stop delivery to one subscriber of a publication, or to all.

        Undelivered changes are kept within the retention.
        """
        from rowtide.replication.subscribing import pausing

        pausing.pause(self._engine, self._url, publication, subscriber)

    def resume(self, publication: str, subscriber: str | None = None) -> None:
        """Resume delivery to one subscriber of a publication, or to all."""
        from rowtide.replication.subscribing import pausing

        pausing.resume(self._engine, self._url, publication, subscriber)

    def change_distribution(self, *, max_retention_hours: int) -> None:
        """Set how many hours undelivered changes are kept (SQL Server: sp_changedistributiondb)."""
        retention.change_max_retention(self._engine, self._url, max_retention_hours)

    def script_procedures(self, publication: str, subscriber: str | None = None) -> Sequence[str]:
        """Return the statements that prepare a subscriber; without a subscriber, those for PostgreSQL.

        (SQL Server: sp_scriptpublicationcustomprocs.) Does not connect to the subscriber.
        """
        from rowtide.replication.targets.kinds import kind_named, kind_of

        kind = kind_named(DatabaseKind.POSTGRESQL) if subscriber is None else kind_of(subscriber)
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
        """Return subscriptions with their queued commands (SQL Server: sp_helpsubscription)."""
        return listings.list_subscriptions(self._engine, self._url, publication)

    def status(self, publication: str | None = None) -> tuple[SubscriptionStatus, ...]:
        """Return the progress of subscriptions, without connecting to subscribers."""
        return read_status(self._engine, self._url, publication)

    def list_history(self, publication: str | None = None) -> Sequence[HistoricState]:
        """Return the agents' history of the last 48 hours, newest first."""
        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return history.list_history(connection, publication) if definitions.is_made(connection) else ()

    history = earlier_name("history", list_history)

    def list_errors(self, publication: str | None = None) -> Sequence[HistoricError]:
        """Return the agents' errors of the last 48 hours, newest first."""
        with translated(), self._engine.connect() as connection:
            _require_publication(connection, publication)
            return history.list_errors(connection, publication) if definitions.is_made(connection) else ()

    errors = earlier_name("errors", list_errors)

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
        """Write a token to the log, and return its id (SQL Server: sp_posttracertoken)."""
        return tracers.post_token(self._engine, self._url, publication)

    def list_tracer_tokens(self, publication: str) -> Sequence[TracerArrival]:
        """Return the latency of tokens to the log store and to each subscriber.

        (SQL Server: sp_helptracertokens, sp_helptracertokenhistory.)
        """
        return tracers.list_tokens(self._engine, self._url, publication)

    tracer_tokens = earlier_name("tracer_tokens", list_tracer_tokens)

    def validate(
        self, publication: str, *, checksum: bool = False, **options: Unpack[CompareOptions]
    ) -> Sequence[ArticleValidation]:
        """Compare subscribers' rows with the published ones, by row counts or also by checksums of their values.

        (SQL Server: sp_publication_validation.) Both may change meanwhile: the published rows are compared as they were
        at the subscriber's position.
        """
        from rowtide.replication.inspection import validating

        wanted = validating.find_wanted(self._engine, self._url, publication, options)
        return validating.validate(self._engine, self._url, wanted, options, with_checksum=checksum)

    def find_differences(self, publication: str, **options: Unpack[CompareOptions]) -> Iterator[RowDifference]:
        """Return the rows in which subscribers differ from the published ones, as `validate` compares them.

        They are yielded as they are found, in any number.
        """
        from rowtide.replication.inspection import differences, validating

        wanted = validating.find_wanted(self._engine, self._url, publication, options)
        return differences.find_differences(self._engine, self._url, wanted, options)

    def repair(
        self,
        publication: str,
        *,
        delete_extra: bool = False,
        is_rehearsal: bool = False,
        **options: Unpack[CompareOptions],
    ) -> Iterator[Repair]:
        """Make the rows that differ at subscribers what is published, while both change; yield what became of each.

        Rows that are extra at a subscriber are deleted only with `delete_extra`. A rehearsal yields what would become
        of each: its transactions are rolled back. An agent that delivers meanwhile waits
        for each transaction of a repair, and goes on. Idempotent; nothing is done before the first row is asked for.
        """
        from rowtide.replication import repairing
        from rowtide.replication.inspection import validating

        wanted = validating.find_wanted(self._engine, self._url, publication, options)
        return repairing.repair(
            self._engine, self._url, wanted, options, delete_extra=delete_extra, is_rehearsal=is_rehearsal
        )

    def list_repairs(self, publication: str | None = None) -> Sequence[RepairedRow]:
        """Return the rows that were repaired at subscribers, newest first; kept as long as the subscription."""
        from rowtide.replication import repair_records

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

    def deliver_backlogs(
        self, publication: str | None = None, *, spark: SparkSession | None = None, **settings: Unpack[SettingsChanges]
    ) -> tuple[DeliveredBacklog, ...]:
        """Deliver large backlogs from the log store, one Spark task per subscription.

        For many subscribers, or after a long stop; `run` continues from there. `settings` as for `run`.
        """
        from rowtide.lake.session import build_session
        from rowtide.replication.spark.backlogs import deliver_backlogs

        with translated(), self._engine.connect() as connection:
            read_source(connection, self._url)  # before Spark is started for nothing
        session = spark if spark is not None else build_session()
        return deliver_backlogs(session, _open_claiming_engine(self._url), self._url, publication, settings)

    def run(
        self,
        publication: str | None = None,
        *,
        subscribers: Sequence[str] = (),
        once: bool = False,
        stop: threading.Event | None = None,
        watchers: Watchers | None = None,
        **settings: Unpack[SettingsChanges],
    ) -> None:
        """Read the log, unless another process does, and deliver to all subscribers of a publication, or of all.

        (SQL Server: the Log Reader Agent and the Distribution Agents.) With `subscribers`, to these alone. Each
        subscription has a thread; one that another process delivers is left to it while that process runs. If one stops
        with an error, `watchers` is called and the others continue. The run ends when `stop` is set; with `once`, when
        everything committed before is delivered. Raises the error if all subscriptions have stopped with one, or with
        `once` if any has; `SubscriptionsFailed` for several. `settings` replace those of the subscriptions.
        `skip_errors` lists SQL Server error numbers or SQLSTATEs, separated by colons; a command with such an error is
        skipped and reported to `watchers`. Raises `SkipErrorsInvalid`, `SettingOutOfRange` at once.
        """
        from rowtide.replication.distribution.context import DeliveryContext
        from rowtide.replication.distribution.watchers import Watchers
        from rowtide.replication.running.run import run_replication
        from rowtide.replication.running.scope import RunScope

        SkipErrors.parse(SubscriptionSettings(**settings).skip_errors)
        scope = RunScope.of(publication, subscribers)
        context = DeliveryContext(
            self._url,
            _open_claiming_engine(self._url),
            stop or threading.Event(),
            watchers or Watchers(),
            settings,
        )
        run_replication(context, scope, once=once)


def _open_claiming_engine(url: str) -> Engine:
    """Return an engine whose sessions say which process they are of."""
    from rowtide.log.postgres.lease import describe_holder

    return open_engine(url, application_name=f"{APPLICATION_NAME} {describe_holder()}")


def _require_publication(connection: Connection, publication: str | None) -> None:
    find_source(connection)
    if publication is not None:
        definitions.get_publication(connection, publication)
