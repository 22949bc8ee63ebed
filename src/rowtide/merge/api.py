"""`MergeReplication`: the value of `rowtide.connect(url).merge`, used at the hub."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rowtide.agents.loop import run_agent
from rowtide.core.formats import removing
from rowtide.core.options import member_of, takes
from rowtide.core.redaction import hiding
from rowtide.merge.articles import DEFAULT_LIMITS, DeviceLimits, Partition, Subscription
from rowtide.merge.catalogue import get_publication, list_merged
from rowtide.merge.conflicts.notes import ConflictNote, add_note, list_notes
from rowtide.merge.conflicts.outcome_changes import (
    ResolutionPreview,
    ResolutionRequest,
    preview_resolution,
    resolve_conflict,
)
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.conflicts.stored_conflicts import get_conflict
from rowtide.merge.devices.credentials import is_behind_gateway
from rowtide.merge.devices.handle import MergeDevices
from rowtide.merge.errors.publishing import ArticleTableNotFound
from rowtide.merge.errors.rows import ConflictUnknown, NeverValidated
from rowtide.merge.errors.subscribing import ChangesNotUploaded
from rowtide.merge.exchange_state import generation_at, read_last_validation
from rowtide.merge.fan_out import (
    DEFAULT_WORKERS,
    SyncAllProgress,
    SyncOutcome,
    Unreachable,
    counting,
    list_pending_of,
    list_pending_of_all,
    list_targets,
    synchronise_in_threads,
    synchronise_named,
)
from rowtide.merge.inspection.handle import MergeInspection
from rowtide.merge.inspection.validating import ArticleValidation, record_validation, validate
from rowtide.merge.nodes.connecting import address, knows, open_node, open_subscriber, open_synchronised
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.publishing.exchange_requests import (
    DroppedSubscription,
    MergeValidation,
    PartitionChange,
    Reinitialization,
    RepeatedDownload,
    Synchronisation,
)
from rowtide.merge.publishing.handle import (
    MergePublishing,
    MergeRehearsal,
    adjust_identity_range,
    restore_identity_range,
)
from rowtide.merge.publishing.partition_moves import move, require_partition
from rowtide.merge.publishing.requests import (
    ExistingRows,
    ExistingSubscription,
    NewMergeSubscription,
    choose_partition,
)
from rowtide.merge.publishing.schema_changes import (
    SchemaChange,
    SchemaStatus,
    list_schema_changes,
    mark_schema_change,
    notice,
)
from rowtide.merge.publishing.schema_following import prepare_again, synchronise_following, upload_all
from rowtide.merge.publishing.snapshot_delivery import make_snapshot, subscribe_from_snapshot
from rowtide.merge.publishing.snapshots import PartitionSnapshot, SnapshotProgress
from rowtide.merge.publishing.subscriptions import (
    add_subscription,
    compare_existing,
    drop_subscription,
    reinitialize,
)
from rowtide.merge.session.history import Summary
from rowtide.merge.session.pairing import pair
from rowtide.merge.session.pending_changes import PendingChanges, Unsent, list_unsent
from rowtide.merge.session.purge import purge
from rowtide.merge.session.synchronisation import synchronise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowtide.core.errors import RowtideError

INTERVAL_S = 60.0
"""Seconds between the end of a round of synchronisations and the next (SQL Server: -PollingInterval)."""


@dataclass(slots=True)
class SynchronisationRounds:
    """An agent whose step is a round of synchronisations, after which it rests."""

    synchronise_all: Callable[[], None]

    def step(self) -> bool:
        """Synchronise all."""
        self.synchronise_all()
        return False


class MergeReplication(MergePublishing, MergeDevices, MergeInspection):
    """Merge replication of a publisher, the hub of its subscribers; each call opens its own connections."""

    def rehearsal(self) -> MergeRehearsal:
        """Return a publisher without effect, which records the statements that would run."""
        return MergeRehearsal(self.url)

    @takes(NewMergeSubscription)
    def add_subscription(self, subscription: NewMergeSubscription) -> Subscription:
        """Subscribe a database: create and fill its tables (SQL Server: sp_addmergesubscription).

        A SQLite file that does not exist is created. `host_name` and `login` are the values of host_name() and
        suser_name() that the articles' filters use, `partition` is both; `on_omission` is called with each part of the
        publisher's tables that the subscriber's database does not have. `run_as` says with whose rights the code of
        tables that belong to other roles runs at a PostgreSQL subscriber. With `snapshot`, a folder of `make_snapshot`,
        the rows come from its files; a repeat continues where a call was interrupted. Raises `MergePublicationUnknown`,
        `MergeSubscriptionExists`, `SubscriberHasTable`, `PartitionValueMissing`, `PartitionValueUnfit`,
        `OptionsContradict`; of a snapshot `SnapshotUnfit`, `SnapshotOutdated`, `SnapshotDamaged`.
        """
        stored = _as_stored(subscription)
        with (
            self._open_hub(subscription.publication) as hub,
            open_subscriber(subscription.subscriber, DEFAULT_LIMITS) as node,
        ):
            if stored.snapshot is not None:
                return subscribe_from_snapshot(hub, node, stored, stored.snapshot)
            return add_subscription(hub, node, stored)

    @takes(ExistingSubscription)
    def subscribe_existing(self, subscription: ExistingSubscription) -> Subscription:
        """Subscribe a database that has tables and rows already (SQL Server: @sync_type none).

        Rows are matched by primary key; `existing` says what happens to those that differ, or that the publisher does
        not have. Rows that the subscriber lacks are copied; with `absent_is_delete` they are deleted everywhere.
        `on_existing` is called with what each table had. Tables that are not there are created; else as
        `add_subscription`. Raises `MergePublicationUnknown`, `MergeSubscriptionExists`, `SubscriberHasTable` of a table
        that another publication merges, `NodeRestored` of a copy of a node, `TablesUnfit`,
        `RowsRefused`, `PartitionValueMissing`, `PartitionValueUnfit`, `OptionsContradict`.
        """
        stored = _as_stored(subscription)
        with (
            self._open_hub(subscription.publication) as hub,
            open_node(subscription.subscriber, DEFAULT_LIMITS) as node,
        ):
            return add_subscription(hub, node, stored)

    def compare_existing(
        self,
        publication: str,
        subscriber: str,
        *,
        partition: Partition | None = None,
        host_name: str | None = None,
        login: str | None = None,
    ) -> Sequence[ExistingRows]:
        """Return what `subscribe_existing` would find; no row is changed. Raises what that raises."""
        partition = choose_partition(partition, host_name, login)
        with self._open_hub(publication) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
            return compare_existing(hub, node, publication, address(subscriber), partition)

    def make_snapshot(
        self,
        publication: str,
        folder: Path,
        *,
        partition: Partition | None = None,
        host_name: str | None = None,
        login: str | None = None,
        on_progress: SnapshotProgress = lambda _article, _rows: None,
    ) -> PartitionSnapshot:
        """Write the rows that subscribers of a partition start with to files (SQL Server: sp_adddynamicsnapshot_job).

        An earlier snapshot in the folder is replaced. Raises `MergePublicationUnknown`, `PartitionValueMissing`,
        `PartitionValueUnfit`, `OptionsContradict`, `FileNotWritable`.
        """
        chosen = choose_partition(partition, host_name, login)
        with self._open_hub(publication) as hub:
            return make_snapshot(hub, publication, chosen, folder, on_progress)

    @takes(DroppedSubscription)
    def drop_subscription(self, dropped: DroppedSubscription) -> Summary | None:
        """End a subscription at both ends; tables and rows stay (SQL Server: sp_dropmergesubscription).

        Set `ignore_subscriber` if the subscriber no longer exists. The subscription of a device behind a gateway,
        `device:` and its name, always ends at the publisher alone. With `upload_first`, what the subscriber changed is
        uploaded before, as `reinitialize` does, and its result is returned; if the publisher refuses any of it, the
        subscription stays. `on_kept` is called with a subscription that stays at the publisher: one under another
        address, of a database that was moved or copied since it subscribed. Raises `MergeSubscriptionUnknown`; with
        `upload_first` also `ChangesNotUploaded`, and what `reinitialize` raises.
        """
        publication, summary = dropped.publication, None
        is_device = is_behind_gateway(dropped.subscriber)
        name = dropped.subscriber if is_device else address(dropped.subscriber)
        with removing(wanted=not dropped.upload_first), self._open_hub(publication) as hub:
            if dropped.ignore_subscriber or (is_device and not dropped.upload_first):
                drop_subscription(hub, None, publication, name)
                return None
            with open_node(dropped.subscriber, dropped.limits) as node:
                if dropped.upload_first:
                    summary = upload_all(hub, node, publication, name, dropped.on_upload, dropped.on_recovered)
                    if unsent := list_unsent(hub, node, publication):
                        raise ChangesNotUploaded(name, "; ".join(map(str, unsent)))
                for kept in drop_subscription(hub, node, publication, name):
                    dropped.on_kept(kept)
                return summary

    def list_unsent(self, publication: str, subscriber: str) -> Sequence[Unsent]:
        """Return what a subscriber has changed and never uploaded, for each article that has any.

        Returns nothing for a subscriber without a subscription. Raises `MergePublicationUnknown`.
        """
        with self._open_hub(publication) as hub, open_node(subscriber, DEFAULT_LIMITS) as node:
            return list_unsent(hub, node, publication)

    @takes(PartitionChange)
    def change_subscription(self, change: PartitionChange) -> Summary:
        """Move a subscriber to another partition (SQL Server: sp_changemergesubscription); return the last exchange.

        Its changes are uploaded first; then rows leave and enter as in a synchronisation. If it is interrupted, the
        next synchronisation or a repeat completes it. Raises `PartitionUnused`, `PartitionValueMissing`,
        `PartitionValueUnfit`, `OptionsContradict`, and what `sync` raises.
        """
        publication, name, wanted = change.publication, address(change.subscriber), change.chosen_partition
        with (
            hiding(wanted=change.hide_keys),
            self._open_hub(publication) as hub,
            open_synchronised(change.subscriber, change.limits) as node,
        ):
            pairing = pair(hub, node, publication, name)
            chosen = require_partition(pairing, wanted)
            synchronise_following(hub, node, publication, name, change.on_progress)
            move(hub, pair(hub, node, publication, name), chosen)
            return synchronise_following(hub, node, publication, name, change.on_progress)

    @takes(Synchronisation)
    def sync(self, wanted: Synchronisation) -> Summary:
        """Upload a subscriber's changes and download the hub's (SQL Server: the Merge Agent), or one of the two.

        The retention asks for both: a subscription counts as synchronised at the earlier of its last two (SQL Server:
        -ExchangeType). A subscriber whose publisher's tables were altered uploads, and follows, first. `limits` are
        what is accepted from the subscriber: its owner may have written anything into its database.

        With `hide_keys`, `***` replaces rows' keys and values in what is stored, logged and raised; conflicts keep
        their rows, which are needed to resolve them.

        Raises `MergePublicationUnknown`, `MergeSubscriptionUnknown`, `NodeCopied`, `NodeRestored`,
        `SubscriptionExpired`, `UploadNotComparable`, `SchemaAhead`, `MergedTableAltered`, `StoredFilterRefused`,
        `SessionReplaced`, `NodeBusy`; of a subscriber that was tampered with `MetadataMalformed`, `GenerationRefused`,
        `RowTooLarge`, `UploadTooLarge`, and the errors of its file.
        """
        with hiding(wanted=wanted.hide_keys):
            return synchronise_named(
                self.url, wanted.publication, wanted.subscriber, wanted.on_progress, wanted.exchange, wanted.limits
            )

    synchronise = sync
    """What programs call it that were written before the command was named."""

    def sync_all(
        self,
        publication: str | None = None,
        *,
        workers: int = DEFAULT_WORKERS,
        spark: SparkSession | None = None,
        on_progress: SyncAllProgress = lambda _outcome, _done, _all: None,
        hide_keys: bool = False,
        limits: DeviceLimits = DEFAULT_LIMITS,
    ) -> Sequence[SyncOutcome]:
        """Synchronise all subscribers of a publication of this hub, or of all, `workers` at a time.

        A failure is in its subscription's result, and stops no other. Subscribers are reached by the URLs that they
        subscribed with, passwords are those of the environment and password files, and each has its subscription's
        values of host_name() and suser_name(). With `spark`, subscribers that are servers are synchronised by its
        workers, files by this process. `hide_keys` as for `sync`. Returns the results in the order of subscribers.
        Raises `MergePublicationUnknown`.
        """
        with hiding(wanted=hide_keys):
            return self._sync_all(publication, workers, spark, on_progress, limits)

    def _sync_all(
        self,
        publication: str | None,
        workers: int,
        spark: SparkSession | None,
        on_progress: SyncAllProgress,
        limits: DeviceLimits,
    ) -> Sequence[SyncOutcome]:
        with open_node(self.url) as hub:
            targets = list_targets(hub, publication) if knows(hub, publication) else ()
        found, on_outcome = list[SyncOutcome](), counting(targets, on_progress)
        here = targets
        if spark is not None:
            from rowtide.merge.spark_tasks import can_be_a_task, synchronise_in_tasks

            tasks = [target for target in targets if can_be_a_task(self.url, target)]
            here = tuple(target for target in targets if target not in tasks)
            found += synchronise_in_tasks(spark, self.url, tasks, limits, on_outcome=on_outcome)
        found += synchronise_in_threads(self.url, here, limits, workers=workers, on_outcome=on_outcome)
        return sorted(found, key=lambda outcome: (outcome.subscriber, outcome.publication))

    def run(
        self,
        *,
        stop: threading.Event | None = None,
        interval_s: float = INTERVAL_S,
        workers: int = DEFAULT_WORKERS,
        on_round: Callable[[Sequence[SyncOutcome]], None] = lambda _outcomes: None,
        on_retry: Callable[[RowtideError, float], None] = lambda _error, _pause_s: None,
        hide_keys: bool = False,
        limits: DeviceLimits = DEFAULT_LIMITS,
    ) -> None:
        """Synchronise all subscribers of this hub every `interval_s` seconds until `stop` is set.

        (SQL Server: the Merge Agent with -Continuous.) A failure is in its subscription's result, and stops no other;
        an unreachable hub is retried. Raises other errors of the hub.
        """

        def synchronise_all() -> None:
            on_round(self.sync_all(workers=workers, hide_keys=hide_keys, limits=limits))

        rounds = SynchronisationRounds(synchronise_all)
        run_agent(
            lambda: nullcontext(rounds),
            stop=stop or threading.Event(),
            idle_s=interval_s,
            on_retry=on_retry,
        )

    def list_pending(
        self,
        publication: str,
        subscriber: str | None = None,
        *,
        finds_conflicts: bool = False,
        on_unreachable: Unreachable = lambda _subscriber, _error: None,
    ) -> Sequence[PendingChanges]:
        """Return what a synchronisation would send, by article and direction (SQL Server: sp_showpendingchanges).

        Nothing is written at either end. With `finds_conflicts`, the hub applies the upload in a transaction that it
        rolls back: rows are locked meanwhile, and programs' triggers fire. Without `subscriber`, all are read; for one
        that cannot be reached, only what the hub has for it is returned, and `on_unreachable` is called. Raises
        `MergePublicationUnknown`, and of one subscriber `MergeSubscriptionUnknown`, `NodeCopied`, `NodeRestored`,
        `SubscriptionExpired`, `DefinitionsDiffer`.
        """
        with self._open_hub(publication):
            pass
        if subscriber is not None:
            return list_pending_of(self.url, publication, subscriber, finds_conflicts=finds_conflicts)
        return list_pending_of_all(
            self.url, publication, finds_conflicts=finds_conflicts, on_unreachable=on_unreachable
        )

    @takes(Reinitialization)
    def reinitialize(self, wanted: Reinitialization) -> Summary | None:
        """Copy a subscriber's tables again (SQL Server: sp_reinitmergesubscription); return what was uploaded first.

        Without `upload_first`, changes that only the subscriber has are lost. With it, its rows are compared with what
        it was sent: changes that were not tracked, because a program had rebuilt a table, are uploaded too, and
        `on_recovered` is called for each such table. Rows that are missing there are copied again; with
        `absent_is_delete`, they are deleted everywhere. Raises `MergeSubscriptionUnknown`; with `upload_first` also
        `NodeCopied`, `NodeRestored`, `SessionReplaced`, `NodeBusy`, `UploadNotComparable`, `TablesUnfit`.
        """
        with self._open_hub(wanted.publication) as hub, open_node(wanted.subscriber, wanted.limits) as node:
            summary, pairing = prepare_again(
                hub,
                node,
                wanted.publication,
                address(wanted.subscriber),
                wanted.on_upload if wanted.upload_first else None,
                wanted.on_recovered,
                absent_is_delete=wanted.absent_is_delete,
            )
            reinitialize(hub, node, pairing, is_uploaded=wanted.upload_first, on_progress=wanted.on_progress)
        return summary

    @takes(MergeValidation)
    def validate(self, wanted: MergeValidation) -> Sequence[ArticleValidation]:
        """Compare a subscriber's rows with the hub's: row counts, or all values too.

        (SQL Server: sp_validatemergesubscription.) Raises `MergeSubscriptionUnknown`.
        """
        with self._open_hub(wanted.publication) as hub, open_node(wanted.subscriber, DEFAULT_LIMITS) as node:
            pairing = pair(hub, node, wanted.publication, address(wanted.subscriber))
            found = validate(hub, node, pairing, checksum=wanted.checksum, on_progress=wanted.on_progress)
            record_validation(hub, pairing, found)
            return found

    @takes(RepeatedDownload)
    def resync(self, wanted: RepeatedDownload) -> Summary:
        """Synchronise, and download again what the hub changed since a time (SQL Server: sp_resyncmergesubscription).

        Without `since`, that is since the metadata were last cleaned up; with `since_validation`, since the last
        validation that found all rows equal. A row whose version the subscriber has is written again, and one that it
        has changed itself is not. Raises as `sync`; `NeverValidated`.
        """
        name, since = address(wanted.subscriber), wanted.since
        with (
            hiding(wanted=wanted.hide_keys),
            self._open_hub(wanted.publication) as hub,
            open_synchronised(wanted.subscriber, wanted.limits) as node,
        ):
            pairing = pair(hub, node, wanted.publication, name)
            if wanted.since_validation:
                since = read_last_validation(hub.connection, pairing.at_hub.subid)
                if since is None:
                    raise NeverValidated(name)
            start = 0 if since is None else generation_at(hub.connection, pairing.hub, since.astimezone(UTC))
            return synchronise(hub, node, pairing, wanted.on_progress, repeat_from=start)

    def dummy_update(self, table: str, rowguid: str) -> bool:
        """Send a row again, as if it had been updated (SQL Server: sp_mergedummyupdate).

        Returns whether there is such a row. Raises `ArticleTableNotFound`.
        """
        with open_node(self.url) as node:
            found = [] if not node.tables.is_prepared() else list_merged(node.connection)
            article = next((each for each in found if each.is_named(table)), None)
            if article is None:
                raise ArticleTableNotFound(table)
            with node.transaction():
                return node.versions.log_update(article, rowguid.lower())

    def list_schema_changes(self, publication: str) -> Sequence[SchemaChange]:
        """Return schema changes that a subscriber has not followed (SQL Server: sp_enumeratependingschemachanges).

        Raises `MergePublicationUnknown`.
        """
        with self._open_hub(publication) as hub:
            found = get_publication(hub.connection, publication)
            notice(hub, found)
            return list_schema_changes(hub, found)

    def mark_schema_change(self, publication: str, schema_version: int, status: SchemaStatus) -> None:
        """Leave a schema change to the subscribers' users, or not (SQL Server: sp_markpendingschemachange).

        Raises `MergePublicationUnknown`, `SchemaChangeUnknown`.
        """
        with self._open_hub(publication) as hub:
            mark_schema_change(hub, publication, schema_version, status)

    def resolve(
        self,
        conflict_id: str,
        winner: Winner,
        *,
        over_later_changes: bool = False,
        again: bool = True,
        decided_by: str | None = None,
    ) -> bool:
        """Choose the side that wins a conflict, whichever won before; return whether a row was written.

        If the version that lost is chosen, the columns that it had changed are written; without column tracking, or
        where one side has no row, the whole row. If the side that won at first is chosen after the other one, what had
        given way is restored. Rows that lost with their parent are restored, or stay deleted, with it. With
        `over_later_changes` it replaces what has changed since, which becomes a conflict. `decided_by` is recorded.
        Raises `ConflictUnknown`; `MergeConflictSettled` without `again` if somebody has decided already;
        `ConflictNotAtHub`; `ConflictOfSubscriber` for a row that the subscriber refused; `ChangedSince` if later
        changes would be replaced; `ParentInInbox` if a parent of the row is not there; `StillReferenced` if a row would
        go that others reference; `RowsRefused` if the hub refuses the row; `KeyChanged`, `ColumnNeeded`, `NodeBusy`.
        """
        chosen = member_of(Winner, winner, "winner")
        request = ResolutionRequest(chosen, over_later_changes=over_later_changes, again=again, decided_by=decided_by)
        with self._open_conflict(conflict_id) as hub:
            return resolve_conflict(hub, conflict_id, request)

    def preview_resolution(self, conflict_id: str, winner: Winner) -> ResolutionPreview:
        """Return what `resolve` with `over_later_changes` would write; write nothing. Raises as `resolve`."""
        chosen = member_of(Winner, winner, "winner")
        with self._open_conflict(conflict_id) as hub:
            return preview_resolution(hub, conflict_id, chosen)

    def list_conflict_notes(self, conflict_id: str | None = None) -> Mapping[str, Sequence[ConflictNote]]:
        """Return the comments on conflicts that this node keeps, or on one, and who decided, by conflict_id."""
        with open_node(self.url) as node:
            return list_notes(node.connection, conflict_id) if node.tables.is_prepared() else {}

    def comment_on_conflicts(self, conflict_ids: Sequence[str], note: str, noted_by: str) -> None:
        """Record a comment on conflicts, in one transaction. Raises `NodeBusy`."""
        with open_node(self.url) as node:
            transact_at(node, lambda: add_note(node, conflict_ids, noted_by, note=note), is_durable=True)

    @contextmanager
    def _open_conflict(self, conflict_id: str) -> Iterator[Node]:
        """Open the hub, once it has recorded how its tables are now. Raises `ConflictUnknown`."""
        with open_node(self.url) as hub:
            if not hub.tables.is_prepared():
                raise ConflictUnknown(conflict_id)
            notice(hub, get_publication(hub.connection, get_conflict(hub, conflict_id).publication))
            yield hub

    def cleanup(self, *, on_progress: Callable[[int], None] = lambda _rows: None) -> int:
        """Remove metadata that no subscription needs (SQL Server: sp_mergemetadataretentioncleanup).

        Returns the number of metadata rows removed. Synchronisations do this once a day. Raises `NodeBusy`.
        """
        with open_node(self.url) as node:
            return purge(node, on_progress) if node.tables.is_prepared() else 0

    def adjust_identity_range(self, publication: str, article: str) -> bool:
        """Give the publisher new numbers if it has used its own (SQL Server: sp_adjustpublisheridentityrange).

        Return whether it got any. Raises `MergePublicationUnknown`, `MergeArticleUnknown`, `IdentityRangeExhausted`,
        `NodeBusy`.
        """
        with self._open_hub(publication) as hub:
            return adjust_identity_range(hub, publication, article)

    def restore_identity_range(self, publication: str, article: str) -> int:
        """Continue after all numbers that may have been given (SQL Server: sp_restoremergeidentityrange).

        For a publisher that was restored from a backup. Return the last number that counts as given. Raises
        `MergePublicationUnknown`, `MergeArticleUnknown`, `NodeBusy`.
        """
        with self._open_hub(publication) as hub:
            return restore_identity_range(hub, publication, article)


_Request = TypeVar("_Request", NewMergeSubscription, ExistingSubscription)


def _as_stored(request: _Request) -> _Request:
    """Return a request with the name that its subscriber is stored by, and its partition as one object.

    Contradictory options are found here, before any connection is open. Raises `OptionsContradict`.
    """
    partition = request.chosen_partition
    return replace(request, subscriber=address(request.subscriber), partition=partition, host_name=None, login=None)
