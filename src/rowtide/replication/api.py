"""Transactional replication of one publisher: `rowtide.connect(url).replication`.

Modules that deliver or alter publications are imported by the methods that need them, so that listings answer at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Unpack

from sqlalchemy import Engine

from rowtide.core.lsn import CommitLsn
from rowtide.core.options import member_of, member_or_none, takes
from rowtide.core.redaction import hiding
from rowtide.databases.postgres.alterations import Alterations, Committing
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.events.event import scope
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.articles.requests import ArticleChange, NewPublication, PublicationThresholds, RowRepair
from rowtide.replication.conflict_decisions import ConflictWinner
from rowtide.replication.distribution.calls.skipped_commands import SkipErrors
from rowtide.replication.distributor import publication_records, retention, tracers
from rowtide.replication.distributor.claims import APPLICATION_NAME
from rowtide.replication.distributor.publication_records import Thresholds
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.script_records import CustomScript
from rowtide.replication.inspection.listings import ReplicationInspection
from rowtide.replication.publishing.handle import ArticlePublishing, ReplicationRehearsal
from rowtide.replication.subscription_settings import (
    IfExists,
    RequestedSubscription,
    SettingsChanges,
    SubscriptionSettings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowtide.log.postgres.provision import OpenedSource
    from rowtide.replication.conflict_comments import ConflictComment
    from rowtide.replication.conflict_decisions import ConflictOutcome, KeptConflict
    from rowtide.replication.distribution.run_context import Watchers
    from rowtide.replication.kept_conflicts import KeptConflicts
    from rowtide.replication.publishing.publications import LogEnding
    from rowtide.replication.publishing.publisher_log import DeliveryLoss
    from rowtide.replication.publishing.whole_schemas import AddedArticle
    from rowtide.replication.repairing import Repair
    from rowtide.replication.running.spark_backlogs import DeliveredBacklog
    from rowtide.replication.targets.subscriber_kind import SyncedSequence

_MOST_KEPT_CONNECTIONS = 2
"""What agents ask and record takes less time than opening a connection for it."""


class TransactionalReplication(ArticlePublishing, ReplicationInspection):
    """Publications of a PostgreSQL database, their subscriptions, and the agents that deliver.

    Calls raise `DatabaseNotPublished` without any publication, connection errors, and `DistributorUnreachable` and
    `DistributionMissing` where the distribution database is elsewhere; those about a publication `PublicationUnknown`,
    about an article `ArticleUnknown`, about a subscription `SubscriptionUnknown`. What else a call raises is said with
    it.
    """

    def rehearsal(self) -> ReplicationRehearsal:
        """Return what publishes without effect, to see what would be done."""
        return ReplicationRehearsal(self._url)

    def _altering(self) -> AbstractContextManager[Alterations]:
        return nullcontext(Committing(self._engine))

    def add_schema_article(self, publication: str, name: str, article_type: ArticleType | None = None) -> bool:
        """Publish the text of a view, materialized view, function or procedure (SQL Server: types "schema only").

        Returns false for a table. PostgreSQL subscribers get the object at once, or as it is now where they have it.
        Raises `ObjectNotFound`, `SchemaArticleUsesUnpublished`, `ExecutionsNotLogged`; `ScriptRefused` by a subscriber.
        """
        from rowtide.replication.publishing import schema_articles

        is_added = super().add_schema_article(publication, name, article_type)
        if is_added:
            schema_articles.renew(self._engine, publication)
        return is_added

    def add_schema(self, publication: str, schema: str, *, excluding: Sequence[str] = ()) -> Iterator[AddedArticle]:
        """Publish what a schema has: tables, and the text of views, functions and procedures.

        Yields the result of each object as it is done: one that fails does not stop the others. `excluding` are
        names and patterns of those excluded. Raises `SchemaEmpty`, `DatabaseCopied`.
        """
        from rowtide.replication.publishing import whole_schemas

        def add(name: str, article_type: ArticleType) -> None:
            if article_type is ArticleType.TABLE:
                self.add_article(publication, name)
            else:
                self.add_schema_article(publication, name, article_type)

        return whole_schemas.add_schema(self._engine, self._url, publication, schema, excluding, add)

    @takes(NewPublication)
    def add_publication(self, publication: NewPublication) -> OpenedSource:
        """Create a publication without articles (SQL Server: sp_addpublication).

        In a database that is not enabled for capture, `lake` or `log_store` is the directory in which the log reader
        stores the log. Only this user can read its folders; with `for_group`, the group can too. A repeat completes an
        interrupted call. Raises `PublicationExists`, `NameUnfit`, `NothingReadsLog` without a directory,
        `LogStoreElsewhere`, `DistributionElsewhere`.
        """
        from rowtide.replication.publishing import publications

        return publications.add_publication(self._engine, self._url, publication)

    def register_custom_scripting(
        self,
        publication: str,
        table: str,
        *,
        sql: str | None = None,
        python: str | None = None,
        name: str | None = None,
        from_lsn: CommitLsn | str | None = None,
    ) -> None:
        """Register what runs at subscribers after each schema change of a table, in its transaction.

        (SQL Server: sp_register_custom_scripting.) `sql` are statements, known by `name`; or `python` names a function
        `module:function` of the agent's, which is given a `ScriptedChange` and returns statements. It replaces the one
        before for the changes that commit from now on, or from an LSN on. Raises `CustomScriptInvalid`, `InvalidLsn`.
        """
        from rowtide.replication.publishing import changing

        script = CustomScript.of(sql=sql, python=python, name=name)
        start = CommitLsn.parse(from_lsn) if isinstance(from_lsn, str) else from_lsn
        changing.register_script(self._engine, self._url, publication, table, script, start)

    def unregister_custom_scripting(self, publication: str, table: str) -> None:
        """Let no custom script run after later schema changes (SQL Server: sp_unregister_custom_scripting)."""
        from rowtide.replication.publishing import changing

        changing.register_script(self._engine, self._url, publication, table, None)

    def find_ending(self, name: str) -> LogEnding | None:
        """Return what `drop_publication` removes besides the publication; None if the log is still read afterwards."""
        from rowtide.replication.publishing import publications

        return publications.find_ending(self._engine, name)

    def drop_publication(self, name: str) -> None:
        """Drop a publication without subscriptions, and its articles (SQL Server: sp_droppublication).

        A repeat completes an interrupted call. Raises `PublicationSubscribed`, `LockNotObtained`, and `LeaseHeld` if a
        process reads the log that ends with it.
        """
        from rowtide.replication.publishing import publications

        publications.drop_publication(self._engine, self._url, name)

    def move_distribution(self, distribution_db: str) -> int | None:
        """Move the distribution database to another database; return how many rows were copied.

        None if it was not there any more: then one that was restored at the new place is used. A repeat completes an
        interrupted call. Raises `NotADistributor`, `PasswordGiven`.
        """
        from rowtide.replication.publishing import distribution_place

        return distribution_place.move_distribution(self._engine, self._url, distribution_db)

    def find_loss(self) -> DeliveryLoss:
        """Return what `restart_log` would lose. Raises `CaptureReadsLog`."""
        from rowtide.replication.publishing import publisher_log

        return publisher_log.find_loss(self._engine, self._url)

    def restart_log(self, reason: str, *, on_wait: Callable[[str], None] = lambda _whom: None) -> DeliveryLoss:
        """Restart the log after a gap with a new publication and slot (SQL Server: sp_replrestart).

        Return what is lost. For databases whose log only publications read. Subscriptions must then be copied again
        with `reinitialize`. Raises `CaptureReadsLog`, and `LeaseHeld` while a process reads the log.
        """
        from rowtide.replication.publishing import publisher_log

        return publisher_log.restart_log(self._engine, self._url, reason, on_wait)

    @takes(ArticleChange)
    def find_copying(self, change: ArticleChange) -> tuple[str, ...]:
        """Return the subscribers that would copy a table again if its article was changed so.

        Raises as `change_article`.
        """
        from rowtide.replication.publishing import changing

        return changing.find_copying(self._engine, self._url, change)

    def find_child_tables(self, table: str) -> tuple[str, ...]:
        """Return the tables that inherit from a table; their rows are not published with it. Raises `TableNotFound`."""
        from rowtide.replication.publishing import publications

        return publications.find_child_tables(self._engine, table)

    @takes(RequestedSubscription)
    def add_subscription(self, subscription: RequestedSubscription) -> tuple[str, ...]:
        """Subscribe a database to a publication: its rows, and all changes that commit from now on.

        (SQL Server: sp_addsubscription.) Returns the unique
        constraints that the subscriber's new tables lack: deferrable ones, in a SQLite file. A call that is interrupted
        leaves nothing that takes effect. Raises `SubscriptionExists`, `NothingToSubscribe`, `LsnNotKept`,
        `DatabaseKindUnknown`, and what preparing the subscriber raises: errors of `rowtide.errors`.
        """
        from rowtide.replication.subscribing import subscriptions

        return subscriptions.add_subscription(
            self._engine, self._url, subscription.publication, subscription.subscriber, subscription.request
        )

    def drop_subscription(self, publication: str, subscriber: str, *, ignore_subscriber: bool = False) -> None:
        """End a subscription; the subscriber's tables stay as they are (SQL Server: sp_dropsubscription).

        With `ignore_subscriber`, the subscriber is not contacted. A repeat completes an interrupted call. Raises
        `SubscriberNotCleared`.
        """
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

        With `article`, a table's name, that table alone, while the others are delivered. Raises what dropping and
        adding the subscription raise; if adding is refused, the subscription remains, paused, and a repeat
        completes it.
        """
        from rowtide.replication.subscribing import joining, subscriptions

        existing = member_or_none(IfExists, if_exists, "if_exists")
        if article is not None:
            return joining.reinitialize_article(self._engine, self._url, publication, article, subscriber, existing)
        return subscriptions.reinitialize(self._engine, self._url, publication, subscriber, existing)

    def change_subscription(
        self, publication: str, subscriber: str, **changes: Unpack[SettingsChanges]
    ) -> SubscriptionSettings:
        """Change settings of a subscription and return them all (SQL Server: sp_changesubscription).

        A run takes them on within a second, at the end of a batch. Raises `SettingOutOfRange`, `SkipErrorsInvalid`,
        `StreamsUnsupported`, `PreparedTransactionsLacking`, `ConflictsNotDetectable`, `ConflictsFixed`.
        """
        from rowtide.replication.subscribing import subscriptions

        return subscriptions.change_subscription(self._engine, self._url, publication, subscriber, changes)

    def sync_sequences(self, publication: str, subscriber: str | None = None) -> Sequence[SyncedSequence]:
        """Move the sequences of subscribers' columns to where the publisher's are, none of them back.

        For a switch-over: stop writing, deliver everything, then move them. Returns those that were moved. Raises what
        connecting to a subscriber raises.
        """
        from rowtide.replication.subscribing import subscriptions

        return subscriptions.sync_sequences(self._engine, self._url, publication, subscriber)

    def pause(self, publication: str, subscriber: str | None = None) -> None:
        """Stop delivery to one subscriber of a publication, or to all.

        Undelivered changes are kept within the retention.
        """
        from rowtide.replication.subscribing import pausing

        pausing.pause(self._engine, self._url, publication, subscriber)

    def resume(self, publication: str, subscriber: str | None = None) -> None:
        """Resume delivery to one subscriber of a publication, or to all, also after an error.

        Raises `SubscriptionDeactivated`.
        """
        from rowtide.replication.subscribing import pausing

        pausing.resume(self._engine, self._url, publication, subscriber)

    def change_distribution(self, *, max_retention_hours: int) -> None:
        """Set how many hours undelivered changes are kept (SQL Server: sp_changedistributiondb).

        Raises `DistributionRetentionInvalid`.
        """
        retention.change_max_retention(self._engine, self._url, max_retention_hours)

    @takes(PublicationThresholds)
    def change_publication(self, wanted: PublicationThresholds) -> Thresholds:
        """Set from where on `health` warns of a publication's subscriptions; return it.

        (SQL Server: sp_replmonitorchangepublicationthreshold.) Changes have waited for that number of seconds, or
        that percentage of the retention is over; 0 is the default. Raises `PublicationThresholdInvalid`.
        """
        return publication_records.change_thresholds(
            self._engine, self._url, wanted.publication, wanted.latency_threshold_s, wanted.expiration_threshold
        )

    def post_tracer_token(self, publication: str) -> int:
        """Write a token to the log, and return its id (SQL Server: sp_posttracertoken)."""
        return tracers.post_token(self._engine, self._url, publication)

    @takes(RowRepair)
    def repair(self, options: RowRepair) -> Iterator[Repair]:
        """Repair the rows at subscribers that differ from the published ones, while both change; yield the outcome for
        each.

        Rows that are extra at a subscriber are deleted only with `delete_extra`. A rehearsal yields the outcomes that a
        repair would have: its transactions are rolled back. An agent that delivers meanwhile waits for each transaction
        of a repair, and continues. Idempotent; nothing is done before the first row is asked for.
        """
        from rowtide.replication import repairing
        from rowtide.replication.inspection import comparing

        wanted = comparing.find_wanted(self._engine, self._url, options)
        return repairing.repair(self._engine, self._url, wanted, options)

    def list_conflicts(self, publication: str | None = None, subscriber: str | None = None) -> Sequence[KeptConflict]:
        """Return the conflicts that subscribers have kept, newest first for each subscription.

        Raises `PublicationUnknown`, `SubscriptionUnknown`, `ConflictsUnknown` if a subscriber cannot be read.
        """
        from rowtide.replication import kept_conflicts

        found = self.read_conflicts(publication, subscriber)
        kept_conflicts.require_read(found.unread)
        return found.conflicts

    def read_conflicts(
        self, publication: str | None = None, subscriber: str | None = None, *, known: KeptConflicts | None = None
    ) -> KeptConflicts:
        """Return the conflicts of subscribers as `list_conflicts`, and the subscribers that cannot be read.

        Those of subscriptions where nothing changed since `known` was read are not read again. Raises
        `PublicationUnknown`, `SubscriptionUnknown`.
        """
        from rowtide.replication import kept_conflicts

        before = known or kept_conflicts.NO_CONFLICTS
        return kept_conflicts.read_conflicts(self._engine, self._url, publication, subscriber, before)

    def comment_on_conflicts(self, conflict_ids: Sequence[str], comment: str, commented_by: str) -> None:
        """Record a comment on conflicts, by the names that `rowtide.connect(url).conflicts` gives them."""
        from rowtide.replication.conflict_comments import add_comment

        with translated(), self._engine.begin() as connection:
            read_source(connection, self._url)
            add_comment(connection, conflict_ids, comment, commented_by)

    def list_conflict_comments(self) -> Mapping[str, Sequence[ConflictComment]]:
        """Return the comments on conflicts of delivery, by the names of conflicts."""
        from rowtide.replication.conflict_comments import list_comments

        with translated(), self._engine.connect() as connection:
            return list_comments(connection)

    def resolve(
        self,
        conflict_id: int | str,
        subscriber: str,
        winner: ConflictWinner | str,
        *,
        publication: str | None = None,
        over_later_changes: bool = False,
        again: bool = False,
        preview: bool = False,
        decided_by: str | None = None,
    ) -> ConflictOutcome:
        """Choose the side of a conflict whose rows are to be at the subscriber: its own change, which others get.

        Of a conflict that has stopped delivery only the decision is recorded; delivery follows it when it continues.
        With `preview` nothing is written. `decided_by` is the role of the connection by default. A repeat changes
        nothing. Raises `DeliveryConflictUnknown`; `ConflictSettled` if another decision was made, unless `again`;
        `ConflictRowsChanged` if later changes would be lost, unless `over_later_changes`; `ConflictOutdated`,
        `SettlingRefused`, `SubscriptionUnknown`, and what connecting to the subscriber raises.
        """
        from rowtide.replication import kept_conflicts
        from rowtide.replication.conflict_decisions import ConflictDecision

        chosen = member_of(ConflictWinner, winner, "winner")
        decision = ConflictDecision(
            int(conflict_id),
            chosen,
            decided_by,
            over_later_changes=over_later_changes,
            again=again,
            is_preview=preview,
        )
        return kept_conflicts.resolve(self._engine, self._url, publication, subscriber, decision)

    def deliver_backlogs(
        self,
        publication: str | None = None,
        *,
        spark: SparkSession | None = None,
        hide_keys: bool = False,
        **settings: Unpack[SettingsChanges],
    ) -> tuple[DeliveredBacklog, ...]:
        """Deliver large backlogs from the log store, one Spark task per subscription.

        For many subscribers, or after a long stop; `run` continues from there. `settings` and `hide_keys` as for `run`.
        Returns each task's result; an error stops its subscription only. Raises `SparkLost`.
        """
        from rowtide.lake.session import build_session
        from rowtide.replication.running.spark_backlogs import deliver_backlogs

        SubscriptionSettings(**settings)  # refused before Spark is started for nothing
        with translated(), self._engine.connect() as connection:
            read_source(connection, self._url)
        session = spark if spark is not None else build_session()
        with hiding(wanted=hide_keys):
            return deliver_backlogs(session, _open_claiming_engine(self._url), self._url, publication, settings)

    def run(
        self,
        publication: str | None = None,
        *,
        subscribers: Sequence[str] = (),
        once: bool = False,
        stop: threading.Event | None = None,
        watchers: Watchers | None = None,
        hide_keys: bool = False,
        **settings: Unpack[SettingsChanges],
    ) -> None:
        """Read the log, unless another process does, and deliver to all subscribers of a publication, or of all.

        (SQL Server: the Log Reader Agent and the Distribution Agents.) With `subscribers`, to these alone. Each
        subscription has a thread; one that another process delivers is left to it while that process runs. If one stops
        with an error, `watchers` is called and the others continue. The run ends when `stop` is set; with `once`, when
        everything committed before is delivered. Raises the error if all subscriptions have stopped with one, or with
        `once` if any has; `SubscriptionsFailed` for several. `settings` replace those of the subscriptions.
        `skip_errors` lists SQL Server error numbers or SQLSTATEs, separated by colons; a command with such an error is
        skipped and reported to `watchers`. With `hide_keys`, `***` replaces rows' keys and values in what is stored,
        logged and raised. Raises `SkipErrorsInvalid`, `SettingOutOfRange` at once.
        """
        from rowtide.replication.distribution.run_context import DeliveryContext, Watchers, emitting
        from rowtide.replication.running.run import RunScope, run_replication

        SkipErrors.parse(SubscriptionSettings(**settings).skip_errors)
        wanted = RunScope.of(publication, subscribers)
        engine = _open_claiming_engine(self._url, most_kept=_MOST_KEPT_CONNECTIONS)
        reported = emitting(watchers or Watchers())
        context = DeliveryContext(self._url, engine, stop or threading.Event(), reported, settings)
        try:
            with hiding(wanted=hide_keys), scope(parse_url(self._url).name, "replication"):
                run_replication(context, wanted, once=once)
        finally:
            engine.dispose()


def _open_claiming_engine(url: str, *, most_kept: int = 0) -> Engine:
    """Return an engine whose sessions say which process they are of."""
    from rowtide.log.postgres.lease import describe_holder

    return open_engine(url, application_name=f"{APPLICATION_NAME} {describe_holder()}", most_kept=most_kept)
