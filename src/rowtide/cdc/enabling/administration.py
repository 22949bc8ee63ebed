"""Enabling and disabling databases and tables (SQL Server: sp_cdc_enable_db, sp_cdc_enable_table, …)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, Engine, Executable, select
from sqlalchemy.schema import CreateSchema, DropSchema

from rowtide.cdc import access, definitions
from rowtide.cdc.definitions import FEATURE, READER, read_widened, set_of_database
from rowtide.cdc.enabling import joining_triggers, postgres
from rowtide.cdc.enabling.table_rules import list_rules
from rowtide.cdc.jobs import definitions as job_definitions
from rowtide.cdc.published import INSTANCES, arrow_schema, base_table_path, change_table_path, system_table_path
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.failpoints import failpoint
from rowtide.core.formats import removing
from rowtide.core.lsn import Position
from rowtide.core.tables import Widened
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations, Committing, Rehearsing
from rowtide.databases.postgres.catalogue import ImageCost, find_table, read_image_cost
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import view_schema
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.databases.urls import name_of
from rowtide.lake import tables
from rowtide.lake.small_tables import SmallTable
from rowtide.lake.stores import prepare_lake, require_not_nested
from rowtide.log import catalogue
from rowtide.log.catalogue import members_table
from rowtide.log.errors import DatabaseNotEnabled, IllegalEntry, LogStillRead
from rowtide.log.postgres import provision
from rowtide.log.postgres.ddl_triggers import Triggers
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.membership import run_membership_change
from rowtide.log.postgres.provenance import find_owner
from rowtide.log.postgres.provision import StoragePlaces
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store import maintenance
from rowtide.log.store.entries import ReaderAdvanced, ReaderLeft
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.storage.places import absolute_lake


@frozen
class EnabledDatabase:
    """What enable-db found or created; `was_enabled` is SQL Server's notice 22905.

    `triggers` are the event triggers that write DDL into the log; a role without the right to create them does without.
    """

    source: SourceDefinition
    position: Position
    was_enabled: bool
    triggers: Triggers
    widened: Widened = Widened.AUTO
    """What is done with tables whose columns get wider types, unless their instance says otherwise."""


@keeping_sessions()
def enable_database(
    engine: Engine,
    lake: str,
    log_store: str | None = None,
    on_wait: Callable[[str], None] = lambda _whom: None,
    *,
    for_group: bool = False,
    widened: Widened | None = None,
) -> EnabledDatabase:
    """Enable a database: create what reading its log needs, then capture's own objects (SQL Server: sp_cdc_enable_db).

    Idempotent: a repeat completes an interrupted run, and sets `widened` if it is given. If publications already read
    the log, its log store stays in place. Creating the slot waits for open transactions; `on_wait` is called with the
    one it waits for.
    """
    with provision.take_source(engine):
        alterations = Committing(engine)
        was_made = alterations.transact(_find_made)
        opened = provision.ensure_source(
            engine, FEATURE, lambda: _make_place(lake, log_store, for_group=for_group), on_wait
        )
        manifest = Manifest.open(open_store(opened.source.log_store))
        prepared = opened.source.lake if was_made else _prepare_alone(lake, for_group=for_group)

        def add(connection: Connection) -> SourceDefinition:
            source = _add_definitions(connection, opened.source, prepared, widened, was_made=was_made)
            if not was_made or READER not in manifest.state.readers:
                # Before the commit, because the reader must see every instance that can be enabled.
                register_reader(manifest)
            failpoint("capture_addition.before")
            return source

        source = alterations.transact(add)
        failpoint("capture_addition.after")
        # From here on the log store keeps what capture needs.
        maintenance.remove_placeholder(manifest)
    was_enabled = was_made and opened.was_there
    with translated(), engine.connect() as connection:
        counts = read_widened(connection)
    return EnabledDatabase(source, manifest.state.position, was_enabled, opened.triggers, counts)


def rehearse_enabling(
    alterations: Rehearsing, lake: str, log_store: str | None = None, widened: Widened | None = None
) -> None:
    """Rehearse `enable_database`: no slot and no folder is made. Raises as that does, but for places not writable."""
    was_made = alterations.transact(_find_made)
    if not was_made:
        require_not_nested(lake)
    source = provision.rehearse_source(alterations, FEATURE, StoragePlaces(absolute_lake(lake), log_store))
    place = source.lake if was_made else absolute_lake(lake)
    alterations.transact(partial(_add_definitions, source=source, lake=place, widened=widened, was_made=was_made))


def enable_table(alterations: Alterations, database: str, table: str, request: InstanceRequest) -> str:
    """Enable a table for capture (SQL Server: sp_cdc_enable_table); return the capture instance's name.

    Raises the errors of `cdc.instances` and `cdc.access`, `TableNotFound`, `LockNotObtained`, `DatabaseNotEnabled`.
    """

    names: list[str] = []

    def plan(connection: Connection) -> Sequence[Executable]:
        source = access.own_source(connection, database)
        instance, steps = postgres.plan_enable_table(connection, source, find_table(connection, table), request)
        names[:] = [instance.capture_instance]
        return steps

    run_membership_change(alterations, table, plan)
    return names[0]


def find_image_cost(engine: Engine, table: str) -> ImageCost | None:
    """Describe what full before images of a table cost, None if no value is TOASTed. Raises `TableNotFound`."""
    with translated(), engine.connect() as connection:
        return read_image_cost(connection, find_table(connection, table))


def find_child_tables(engine: Engine, table: str) -> tuple[str, ...]:
    """Return the qualified names of the tables that inherit from one, except partitions. Raises `TableNotFound`."""
    with translated(), engine.connect() as connection:
        return find_table(connection, table).child_tables


def disable_table(alterations: Alterations, database: str, table: str, capture_instance: str | None) -> None:
    """Disable one instance of a table, or all (None) (SQL Server: sp_cdc_disable_table).

    Raises `InstanceUnknown`, `LockNotObtained`, `DatabaseNotEnabled`, `NotOwner`.
    """

    def plan(connection: Connection) -> Sequence[Executable]:
        return postgres.plan_disable_table(connection, access.own_source(connection, database), table, capture_instance)

    with removing():
        run_membership_change(alterations, table, plan)


def require_alone(connection: Connection) -> None:
    """Raise `LogStillRead` if other features read the log, even without tables."""
    names = catalogue.list_other_members(connection, FEATURE)
    if names or catalogue.list_features(connection) - {FEATURE}:
        raise LogStillRead(", ".join(names) or "none yet, but there is a publication")


def _make_place(lake: str, log_store: str | None, *, for_group: bool) -> StoragePlaces:
    require_not_nested(lake, log_store)
    return StoragePlaces(prepare_lake(lake, for_group=for_group), log_store, for_group)


def _prepare_alone(lake: str, *, for_group: bool) -> str:
    require_not_nested(lake)
    return prepare_lake(lake, for_group=for_group)


def _find_made(connection: Connection) -> bool:
    """Return whether the database is enabled. Raises `SchemaTaken` if schema `cdc` has another owner."""
    was_made = definitions.are_made(connection)
    if not was_made:
        provision.require_free_schema(connection, definitions.SCHEMA)
    return was_made


def _add_definitions(
    connection: Connection, source: SourceDefinition, lake: str, widened: Widened | None, *, was_made: bool
) -> SourceDefinition:
    """Create schema `cdc`, or what is missing in it; a source that was made for publications gets capture's lake."""
    captured = source if was_made else replace(source, lake=lake)
    if not was_made:
        connection.execute(CreateSchema(definitions.SCHEMA))
    if definitions.find_missing(connection):
        _complete_definitions(connection)
    if widened is not None:
        set_of_database(connection, widened)
    if list_rules(connection):
        # The triggers may have been dropped, or be from another build.
        joining_triggers.ensure_triggers(connection)
    if not was_made:
        connection.execute(catalogue.source_table.update().values(lake=captured.lake))
    return captured


def register_reader(manifest: Manifest) -> None:
    """Register at the log's present position: earlier segments may be truncated.

    If that position is truncated just after it was read, register at the next one. A reader that an interrupted
    disabling left has the cycle of a lake that was emptied.
    """
    if READER in manifest.refresh().readers:
        manifest.append(ReaderLeft(READER))
    while True:
        position = manifest.refresh().position
        try:
            manifest.append(ReaderAdvanced(reader=READER, position=position))
        except IllegalEntry:
            if manifest.state.low <= position:
                raise
        else:
            return


def _complete_definitions(connection: Connection) -> None:
    """Create the tables, functions and grants of CDC that were dropped."""
    job_definitions.complete(connection)
    for step in (postgres.REFUSE, postgres.CLOSE, *access.READER_GRANTS):
        connection.execute(step)


_SYSTEM_TABLES = ("lsn_time_mapping", "snapshots", "ddl_history", "instances", "cycles")


@frozen
class Disabling:
    """What disabling a database removes.

    `members` are its capture instances, and the articles if those are removed too; `owner` owns the log store and the
    lake, which then stay; None if they are this database's.
    """

    source: SourceDefinition
    members: tuple[str, ...]
    owner: str | None

    def __str__(self) -> str:
        names = ", ".join(self.members) or "none"
        if self.owner is None:
            return (
                f"capture instances ({names}) with all their change rows in the lake {self.source.lake}, the log store "
                f"{self.source.log_store}, and slot and publication {self.source.slot}"
            )
        return f"the metadata in this database: capture instances and articles ({names}); nothing else: {self.kept}"

    @property
    def kept(self) -> str:
        """Describe what stays as it is."""
        return (
            f"log store {self.source.log_store} and lake {self.source.lake} belong to {self.owner}, and stay as they "
            "are, as do slots of other databases"
        )


def find_disabling(engine: Engine, database: str) -> Disabling:
    """Return what `disable_database` would remove. Raises `DatabaseNotEnabled`, `NotOwner`, `LogStillRead`."""
    with removing(), translated(), engine.connect() as connection:
        return _find(connection, database)


def disable_database(
    engine: Engine, database: str, remove_change_rows: Callable[[SourceDefinition], None]
) -> Disabling:
    """Remove what enable-db created, change rows first (SQL Server: sp_cdc_disable_db); return what was removed.

    Refused while a process runs (`LeaseHeld`) or another feature reads the log (`LogStillRead`), and to roles other
    than the owner (`NotOwner`). A repeat after a crash removes what is left.
    """
    with (
        removing(),
        translated(),
        AdvisoryLease.take(engine, "lake"),
        AdvisoryLease.take(engine, "log"),
        provision.take_source(engine),
    ):
        with engine.connect() as connection:
            disabling = _find(connection, database)
        if disabling.owner is not None:
            provision.disown_source(engine, disabling.source)
            return disabling
        remove_change_rows(disabling.source)
        with engine.begin() as connection:
            _drop_definitions(connection, disabling.source)
        provision.remove_source(engine, disabling.source)
    return disabling


def empty_lake(source: SourceDefinition) -> None:
    """Remove the rows of every change table and of the lake's system tables. Idempotent."""
    instances = SmallTable.open(system_table_path(source.lake, "instances"))
    names: set[str] = set()
    for rows in instances.stream(arrow_schema(INSTANCES, "capture_instance")) if instances is not None else ():
        names.update(map(str, rows["capture_instance"].unique().to_pylist()))
    for name in sorted(names):
        tables.empty_table(change_table_path(source.lake, name))
        tables.empty_table(base_table_path(source.lake, name))
    for name in _SYSTEM_TABLES:
        tables.empty_table(system_table_path(source.lake, name))


def _find(connection: Connection, database: str) -> Disabling:
    """Also finds what an interrupted enabling or disabling left."""
    source = catalogue.find_recorded(connection)
    if source is None:
        raise DatabaseNotEnabled(name_of(database))
    is_captured = definitions.are_made(connection)
    if is_captured:
        access.require_owner(connection, database)
    owner = catalogue.find_original(connection, source)
    if owner is None:
        owner = find_owner(connection, source)
    if owner is None:
        if not is_captured and not catalogue.list_features(connection) <= {FEATURE}:
            raise DatabaseNotEnabled(name_of(database))
        require_alone(connection)
    columns = members_table.c
    names = connection.execute(select(columns.name).where(columns.feature != catalogue.LOG).order_by(columns.name))
    return Disabling(source, tuple(names.scalars()), owner)


def _drop_definitions(connection: Connection, source: SourceDefinition) -> None:
    if not definitions.are_made(connection):
        return
    for table in sorted({enabled.source_id for enabled in definitions.list_enabled(connection)}):
        for step in postgres.plan_release_table(connection, source, table):
            connection.execute(step)
    for schema in (definitions.SCHEMA, view_schema(definitions.SCHEMA)):
        connection.execute(DropSchema(schema, cascade=True, if_exists=True))
