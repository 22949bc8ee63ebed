"""The Python entry point of a database: `rowtide.connect(url)`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rowtide.core.exports import naming_extras
from rowtide.core.options import member_of
from rowtide.core.redaction import hiding
from rowtide.databases.urls import parse_url
from rowtide.events.event import scope

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rowtide.actions.database_actions import Actions
    from rowtide.catalogs.entries import CatalogueKind
    from rowtide.catalogs.registration import Registration
    from rowtide.cdc.api import ChangeDataCapture
    from rowtide.cdc.lake_readers.lake import Lake
    from rowtide.cdc.running.context import CaptureWatchers
    from rowtide.cdc.scans.pace import CaptureOptions
    from rowtide.conflicts.handle import ConflictInbox
    from rowtide.diagnosis import CheckResult
    from rowtide.gateway.device import Device
    from rowtide.merge.api import MergeReplication
    from rowtide.relocation.adopting import Adoption
    from rowtide.relocation.copying import Copied, CopyProgress
    from rowtide.replication.api import TransactionalReplication
    from rowtide.rights.grants import Granted
    from rowtide.rights.purpose import Purpose
    from rowtide.targets.api import Targets
    from rowtide.tracking import ChangeTracking


class Database:
    """A database, with one attribute per feature."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection that `tracking` opened."""
        self._opened.close()

    @cached_property
    def tracking(self) -> ChangeTracking:
        """Change tracking; it holds a connection until `close`, or the end of a `with` block.

        Without either, the connection lives as long as the returned object. Raises `UrlNotRead`, `DatabaseKindUnknown`,
        and connection errors.
        """
        from rowtide.tracking import ChangeTracking
        from rowtide.tracking.api import connect as connect_for_tracking

        connection = connect_for_tracking(self.url)
        self._opened.callback(connection.close)
        return ChangeTracking(connection)

    @cached_property
    def cdc(self) -> ChangeDataCapture:
        """Change data capture. Raises `ExtraMissing` if PostgreSQL's driver is not installed."""
        with naming_extras():
            from rowtide.cdc.api import ChangeDataCapture
        return ChangeDataCapture(self.url)

    @cached_property
    def targets(self) -> Targets:
        """Tables that follow captured tables. Raises `ExtraMissing` if PostgreSQL's driver is not installed."""
        with naming_extras():
            from rowtide.targets.api import Targets
        return Targets(self.url)

    @cached_property
    def replication(self) -> TransactionalReplication:
        """Transactional replication. Raises `ExtraMissing` if PostgreSQL's driver is not installed."""
        with naming_extras():
            from rowtide.replication.api import TransactionalReplication
        return TransactionalReplication(self.url)

    @cached_property
    def merge(self) -> MergeReplication:
        """Merge replication, with this database as the hub."""
        from rowtide.merge.api import MergeReplication

        return MergeReplication(self.url)

    @cached_property
    def conflicts(self) -> ConflictInbox:
        """Conflicts of merge and of delivery, to be decided. Raises `ExtraMissing` if a driver is not installed."""
        with naming_extras():
            from rowtide.conflicts.handle import ConflictInbox
        return ConflictInbox(self.url)

    @cached_property
    def actions(self) -> Actions:
        """Actions that the audit records. Raises `ExtraMissing` if a driver is not installed."""
        with naming_extras():
            from rowtide.actions.database_actions import Actions
        return Actions(self.url)

    def run_agent(
        self,
        *,
        options: CaptureOptions | None = None,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        watchers: CaptureWatchers | None = None,
        on_event: Callable[[str], None] = lambda _event: None,
        on_step: Callable[[], None] = lambda: None,
        hide_keys: bool = False,
        jobs: Collection[str] = ("capture", "cleanup", "targets"),
        is_standby: bool = False,
    ) -> None:
        """Run the jobs of the database, and apply targets, until `stop` is set (SQL Server Agent).

        `options` are the capture job's; `jobs` says which run; `on_step` is called about every second. With
        `is_standby`, it waits for another agent to end, as every agent does that has run. With `hide_keys`, `***`
        replaces rows' keys and values in what is stored, logged and raised. Raises `ExtraMissing` if PostgreSQL's
        driver is not installed.
        """
        with naming_extras():
            from rowtide.cdc.jobs.definitions import JobType
            from rowtide.cdc.running.context import CaptureContext, CaptureWatchers, emitting
            from rowtide.cdc.running.job_agent import SharedSpark, run_jobs
            from rowtide.cdc.scans.pace import USUAL
            from rowtide.targets.api import TargetsAgent, targets_beside
        make_spark = SharedSpark(partial(self.targets.make_spark, spark)).get
        context = CaptureContext(
            self.url,
            make_spark,
            stop or threading.Event(),
            emitting(watchers or CaptureWatchers()),
            options or USUAL,
        )
        agent = TargetsAgent(self.targets, None, make_spark, on_event)
        with ExitStack() as running:
            running.enter_context(hiding(wanted=hide_keys))
            running.enter_context(scope(parse_url(self.url).name, "agent"))
            if "targets" in jobs:
                running.enter_context(targets_beside(agent, context.stop, context.watchers.on_retry))
            run_jobs(context, on_event, [job for job in JobType if job in jobs], on_step, is_standby=is_standby)

    def run_targets(
        self,
        name: str | None = None,
        *,
        spark: SparkSession | None = None,
        stop: threading.Event | None = None,
        on_event: Callable[[str], None] = lambda _event: None,
    ) -> None:
        """Apply what is published to one target, or to all, until `stop` is set.

        Raises `TargetUnknown`, `ReadingDenied`.
        """
        with naming_extras():
            from rowtide.cdc.running.job_agent import SharedSpark
            from rowtide.targets.api import TargetsAgent, run_targets
        agent = TargetsAgent(self.targets, name, SharedSpark(partial(self.targets.make_spark, spark)).get, on_event)
        with scope(parse_url(self.url).name, "targets"):
            run_targets(agent, stop or threading.Event())

    def register_catalog(
        self, kind: CatalogueKind | str, place: str, namespace: str, *, dry_run: bool = False
    ) -> Registration:
        """Register change tables, base tables and targets in a namespace of a catalogue, as often as they change.

        `kind` is `hive`, or `iceberg` for the REST catalogue that Iceberg targets write to, whose tables get comments;
        `place` is its address. With `dry_run` only say what would be done. Raises `NotOwner`, `DatabaseNotEnabled`,
        `LakeUnknown`, `CatalogueUnreachable`, `CatalogueRefused`, `CatalogueNamespaceUnknown`, `CatalogueNameTaken`,
        `NothingForCatalogue` before anything is changed.
        """
        with naming_extras():
            from rowtide.catalogs.entries import CatalogueKind
            from rowtide.catalogs.registration import register_tables
        known = member_of(CatalogueKind, kind, "kind")
        return register_tables(self.url, known, place, namespace, dry_run=dry_run)

    def find_adoption(self) -> Adoption:
        """Return what `adopt` would find and abandon. Raises as `adopt`."""
        with naming_extras():
            from rowtide.databases.postgres.connect import open_engine
            from rowtide.relocation.adopting import find_adoption
        return find_adoption(open_engine(self.url), self.url)

    def rehearsal(self) -> DatabaseRehearsal:
        """Return what adopts and moves the lake without effect, to see what would be done.

        Each feature has a `rehearsal` of its own.
        """
        return DatabaseRehearsal(self.url)

    def adopt(
        self,
        reason: str = "adopted",
        *,
        abandon_original: bool = False,
        on_wait: Callable[[str], None] = lambda _whom: None,
    ) -> Adoption:
        """Adopt this database, which was moved permanently: restored, promoted or upgraded.

        Raises `OriginalAlive` if the database that it was copied from exists, unless that is abandoned,
        `NothingToResumeFrom`, `LeaseHeld`, `NotOwner`, `DatabaseNotEnabled`.
        """
        with naming_extras():
            from rowtide.databases.postgres.connect import open_engine
            from rowtide.relocation.adopting import adopt
        engine = open_engine(self.url)
        return adopt(engine, self.url, reason, abandons_original=abandon_original, on_wait=on_wait)

    def switch_lake(
        self,
        source: str,
        target: str,
        *,
        source_log_store: str | None = None,
        target_log_store: str | None = None,
        for_group: bool = False,
        on_progress: Callable[[CopyProgress], None] = lambda _progress: None,
    ) -> Copied | None:
        """Copy this database's lake and log store as `copy_lake`, and use the copy from then on.

        Return None if an earlier call did it already. A log store outside the lake stays where it is, unless
        `target_log_store` is given. Raises as `copy_lake`, `LeaseHeld` while a process captures or reads the log,
        `LakeElsewhere`, `DatabaseNotEnabled`, `NotOwner`.
        """
        from rowtide.relocation.portions import LakePlace

        with naming_extras():
            from rowtide.databases.postgres.connect import open_engine
            from rowtide.relocation.switching import switch_lake
        places = LakePlace.of(source, source_log_store), target, target_log_store
        return switch_lake(open_engine(self.url), self.url, *places, for_group=for_group, on_progress=on_progress)

    def check(
        self,
        tables: Sequence[str] | str = (),
        *,
        lake: str | None = None,
        purpose: Purpose | str | None = None,
    ) -> tuple[CheckResult, ...]:
        """Return what is missing for capture or tracking, with remedies, most severe first.

        `purpose` is what the role of the connection is for (`monitor`, `reader`, `publisher`, `subscriber`, `merge`,
        `gateway`, `tracker`): only what that needs is checked. Raises `ExtraMissing` if PostgreSQL's driver is not
        installed, `TableNotFound` or `TableToTrackNotFound`, `NothingForLake`, `LakeNotChecked`, `NotAPublisher`,
        `PurposeUnknown`, `NameUnfit`, and connection errors.
        """
        from rowtide.diagnosis import check_database

        return check_database(self.url, tables, lake, purpose)

    def grant(
        self,
        role: str,
        purpose: Purpose | str,
        tables: Sequence[str] = (),
        *,
        group: str | None = None,
        dry_run: bool = False,
    ) -> Granted:
        """Grant a role what it lacks for a purpose, in one transaction, and return the statements.

        `purpose` is as in `check`; `tables` are those that the purpose is about, by default all that rowtide uses here.
        With `group` this role gets the rights, and `role` becomes a member of it. A role that does not exist is not
        created. Ownership of a superuser's table is listed, not changed. With `dry_run` nothing is granted. Raises
        `PurposeUnknown`, `RoleUnknown`, `GrantRefused`, `NothingToGrant`, `TableNotFound`, `SchemaOfOthers`,
        `PostgresNeeded`.
        """
        with naming_extras():
            from rowtide.rights.granting import grant, rehearse_grant
        run = rehearse_grant if dry_run else grant
        return run(self.url, role, purpose, tables, group=group)

    def health(self) -> tuple[CheckResult, ...]:
        """Return the state of everything that rowtide does in the database, worst first.

        A database that cannot be reached is reported as a result that fails. Raises `ExtraMissing`, `UrlNotRead`,
        `DatabaseKindUnknown`.
        """
        from rowtide.diagnosis import read_health

        return read_health(self.url)


class DatabaseRehearsal:
    """`adopt` and `switch_lake` without effect; `statements` has what they would run."""

    def __init__(self, url: str) -> None:
        self.statements: list[str] = []
        self._url = url

    def adopt(self, *, abandon_original: bool = False) -> Adoption:
        """Return what was found; slots, log store and lake stay as they are. Raises as `Database.adopt`."""
        with naming_extras():
            from rowtide.databases.postgres.alterations import rehearsing
            from rowtide.databases.postgres.connect import open_engine
            from rowtide.relocation.adopting import rehearse_adoption
        with rehearsing(open_engine(self._url), self.statements) as alterations:
            return rehearse_adoption(alterations, self._url, abandons_original=abandon_original)

    def switch_lake(
        self,
        source: str,
        target: str,
        *,
        source_log_store: str | None = None,
        target_log_store: str | None = None,
    ) -> Copied | None:
        """Return what would be copied. Raises as `Database.switch_lake`, but `LeaseHeld`."""
        from rowtide.relocation.portions import LakePlace

        with naming_extras():
            from rowtide.databases.postgres.alterations import rehearsing
            from rowtide.databases.postgres.connect import open_engine
            from rowtide.relocation.switching import rehearse_switch
        places = LakePlace.of(source, source_log_store), target, target_log_store
        with rehearsing(open_engine(self._url), self.statements) as alterations:
            return rehearse_switch(alterations, self._url, *places)


def register(spark: SparkSession, lake: str) -> tuple[str, ...]:
    """Register SQL Server's query functions in a Spark session; return their names."""
    from rowtide.cdc.queries.sql_functions import register as register_functions

    return register_functions(spark, lake)


def register_source(spark: SparkSession) -> None:
    """Register the data source `rowtide`: streams and batches of published changes, of any lake.

    `spark.readStream.format("rowtide").option("instance", name).load(lake)`, and `spark.read` alike. Object stores are
    reached by the environment's variables of now. The permissions of the lake's files decide who may read it.
    """
    with naming_extras():
        from rowtide.cdc.spark_source.sources import register_source as register

    register(spark)


def copy_lake(
    source: str,
    target: str,
    *,
    source_log_store: str | None = None,
    target_log_store: str | None = None,
    for_group: bool = False,
    on_progress: Callable[[CopyProgress], None] = lambda _progress: None,
) -> Copied:
    """Copy a lake and its log store, or complete a copy: verified, and while capture continues.

    A log store that is not named is the folder `log` of its lake. Folders are created private to this user, or with
    `for_group` readable by their group. Raises `PlacesOverlap`, `NothingToCopy`, `CopyDiverged`, `CopyDamaged`,
    `CopyOvertaken`, `CopyReadFailed`, `CopyWriteFailed`, `LakeNotWritable`, `LogStoreNotWritable`.
    """
    from rowtide.relocation.copying import copy_lake as copy
    from rowtide.relocation.portions import LakePlace

    return copy(
        LakePlace.of(source, source_log_store),
        LakePlace.of(target, target_log_store),
        for_group=for_group,
        on_progress=on_progress,
    )


def open_lake(path: str) -> Lake:
    """Open a lake by its path, without Spark and without a database; see `rowtide.cdc.Lake`.

    The permissions of the lake's files decide who may read it, not roles of the source database. Raises `LakeUnknown`,
    `LakeReadFailed`, `PlaceUnnamed`.
    """
    from rowtide.cdc.lake_readers.lake import Lake
    from rowtide.storage.places import absolute_lake

    lake = Lake(absolute_lake(path))
    lake.get_max_lsn()
    return lake


def device(
    path: str | Path,
    url: str,
    token: str | None = None,
    *,
    claims: Callable[[], str] | None = None,
    publication: str | None = None,
) -> Device:
    """Return a file that is synchronised over HTTP with the hub at `url`, whose database it cannot reach.

    `token` is the device's; without it, the one that `register` has kept beside the file. `claims` returns the JSON Web
    Token of the device's user, where the gateway asks for one. A file of several publications needs `publication`.
    Raises `GatewayUrlInvalid`.
    """
    from rowtide.gateway.device import Device

    return Device(path, url, token, claims=claims, publication=publication)


def connect(url: str) -> Database:
    """Return a handle for a database, which opens connections only when used. URLs are SQLAlchemy's."""
    return Database(url)
