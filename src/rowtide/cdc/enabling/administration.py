"""Enabling and disabling databases and tables (SQL Server: sp_cdc_enable_db, sp_cdc_enable_table, their opposites)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, Executable, insert, inspect, select
from sqlalchemy.schema import CreateSchema, DropSchema

from rowtide.cdc import access, definitions
from rowtide.cdc.capture.capture import READER
from rowtide.cdc.enabling import postgres, truncation
from rowtide.cdc.enabling.errors import LogStillRead, SchemaTaken
from rowtide.cdc.enabling.instances import FEATURE, InstanceRequest
from rowtide.cdc.jobs import definitions as job_definitions
from rowtide.core.lsn import Position
from rowtide.databases.postgres.catalogue import (
    ImageCost,
    ServerIdentity,
    find_table,
    read_image_cost,
    read_server_identity,
)
from rowtide.databases.postgres.errors import translated
from rowtide.lake.paths import prepare_lake
from rowtide.log import catalogue
from rowtide.log.catalogue import SourceDefinition, find_source
from rowtide.log.entries import Opened, ReaderAdvanced, Source
from rowtide.log.errors import LogStoreTaken
from rowtide.log.manifest import Manifest
from rowtide.log.postgres import slot
from rowtide.log.postgres.ddl_triggers import Triggers, ensure_triggers, trigger_steps
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.membership import run_membership_change
from rowtide.log.store import open_store


@dataclass(frozen=True, slots=True)
class EnabledDatabase:
    """What enable-db found or made; `was_enabled` is SQL Server's notice 22905.

    `triggers` are the event triggers that tell the log of DDL: who lacks the right to make them goes on without.
    """

    source: SourceDefinition
    position: Position
    was_enabled: bool
    triggers: Triggers


def enable_database(
    engine: Engine,
    lake: str,
    log_store: str | None = None,
    on_wait: Callable[[str], None] = lambda _whom: None,
) -> EnabledDatabase:
    """Enable a database: schemas, publication, slot, log store, in this order (SQL Server: sp_cdc_enable_db).

    A repeat completes what an earlier run left undone, and changes nothing where nothing is missing. The server waits
    for transactions that are open: `on_wait` is told for which.
    """
    with translated():
        with engine.begin() as connection:
            server = read_server_identity(connection)
            slot.require_logical_decoding(connection, server)
            slot.require_free_slot(connection, slot.publication_name(server.database_id))
            found = find_source(connection)
            if found is not None and definitions.find_missing(connection):
                _complete_definitions(connection)
            source = found or _make_definitions(connection, server, prepare_lake(lake), log_store)
            triggers = ensure_triggers(connection)
        manifest = Manifest(open_store(source.log_store))
        state = manifest.load()
        if state is not None:
            _require_own(source, state.source)
            return EnabledDatabase(source, state.position, found is not None, triggers)
        confirmed = slot.ensure_slot(engine, source.slot, on_wait).confirmed
    position = _open_log_store(manifest, source, server, confirmed)
    return EnabledDatabase(source, position, was_enabled=False, triggers=triggers)


def plan_enable_database(engine: Engine) -> Sequence[Executable]:
    """Return the statements that enabling would run, for `--dry-run`."""
    with translated(), engine.connect() as connection:
        server = read_server_identity(connection)
        slot.require_logical_decoding(connection, server)
        if find_source(connection) is not None:
            return []
        name = slot.publication_name(server.database_id)
        return [
            CreateSchema(catalogue.SCHEMA),
            CreateSchema(definitions.SCHEMA),
            *access.READER_GRANTS,
            slot.create_publication_step(server, name),
            *trigger_steps(),
            slot.create_slot_step(name),
        ]


def disable_database(engine: Engine, database: str, empty_lake: Callable[[SourceDefinition], None]) -> SourceDefinition:
    """Remove what enable-db made, change tables' rows first (SQL Server: sp_cdc_disable_db).

    Refused while anything runs (`LeaseHeld`) or reads the log besides (`LogStillRead`), and to others than the owner
    (`NotOwner`). A repeat after a crash finds
    and removes what is left.
    """
    with translated(), AdvisoryLease.take(engine, "lake"), AdvisoryLease.take(engine, "log"):
        with engine.connect() as connection:
            source = access.own_source(connection, database)
            require_alone(connection)
        empty_lake(source)
        with engine.begin() as connection:
            _drop_definitions(connection, source)
        slot.drop_slot(engine, source.slot)
        _delete_log_store(source.log_store)
        # Last: until this schema is gone, a repeat finds what is still to be removed.
        with engine.begin() as connection:
            connection.execute(DropSchema(catalogue.SCHEMA, cascade=True, if_exists=True))
    return source


def enable_table(engine: Engine, database: str, table: str, request: InstanceRequest) -> str:
    """Enable a table for capture (SQL Server: sp_cdc_enable_table); return the capture instance's name.

    Raises the errors of `cdc.instances` and `cdc.access`, `TableNotFound`, `LockNotObtained`, `DatabaseNotEnabled`.
    """

    names: list[str] = []

    def plan(connection: Connection) -> Sequence[Executable]:
        instance, steps = postgres.plan_enable_table(
            connection, access.own_source(connection, database), table, request
        )
        names[:] = [instance.capture_instance]
        return steps

    run_membership_change(engine, table, plan)
    return names[0]


def plan_enable_table(engine: Engine, database: str, table: str, request: InstanceRequest) -> Sequence[Executable]:
    """Return the statements that `enable_table` would run, for `--dry-run`."""
    with translated(), engine.connect() as connection:
        return postgres.plan_enable_table(connection, access.own_source(connection, database), table, request)[1]


def find_image_cost(engine: Engine, table: str) -> ImageCost | None:
    """Say what full before images of a table cost, None where no value lies out of line. Raises `TableNotFound`."""
    with translated(), engine.connect() as connection:
        return read_image_cost(connection, find_table(connection, table))


def disable_table(engine: Engine, database: str, table: str, capture_instance: str | None) -> Sequence[Executable]:
    """Disable one instance of a table, or all (None) (SQL Server: sp_cdc_disable_table); return what ran.

    Raises `InstanceUnknown`, `LockNotObtained`, `DatabaseNotEnabled`, `NotOwner`.
    """

    def plan(connection: Connection) -> Sequence[Executable]:
        return postgres.plan_disable_table(connection, access.own_source(connection, database), table, capture_instance)

    return run_membership_change(engine, table, plan)


def plan_disable_table(engine: Engine, database: str, table: str, capture_instance: str | None) -> Sequence[Executable]:
    """Return the statements that `disable_table` would run, for `--dry-run`."""
    with translated(), engine.connect() as connection:
        return postgres.plan_disable_table(connection, access.own_source(connection, database), table, capture_instance)


def require_alone(connection: Connection) -> None:
    """Raise `LogStillRead` where the log is read for other features too."""
    others = select(catalogue.members_table.c.name).where(catalogue.members_table.c.feature != FEATURE)
    names = connection.execute(others.order_by(catalogue.members_table.c.name)).scalars().all()
    if names:
        raise LogStillRead(", ".join(names))


def _make_definitions(
    connection: Connection, server: ServerIdentity, lake: str, log_store: str | None
) -> SourceDefinition:
    for schema in (catalogue.SCHEMA, definitions.SCHEMA):
        if inspect(connection).has_schema(schema):
            raise SchemaTaken(schema)
        connection.execute(CreateSchema(schema))
    catalogue.metadata.create_all(connection)
    _complete_definitions(connection)
    name = slot.publication_name(server.database_id)
    place = _absolute(log_store) if log_store is not None else f"{lake}/log"
    open_store(place)  # one that cannot be written is not recorded
    source = SourceDefinition(
        source_id=str(uuid.uuid4()),
        system_identifier=server.system_identifier,
        publication=name,
        publication_id=slot.ensure_publication(connection, server, name),
        slot=name,
        log_store=place,
        lake=lake,
    )
    values = {name: getattr(source, name) for name in SourceDefinition.__dataclass_fields__}
    connection.execute(insert(catalogue.source_table).values(**values))
    return source


def _complete_definitions(connection: Connection) -> None:
    """Make what is missing of CDC's own tables and functions, and of the grants: an earlier version made less."""
    job_definitions.complete(connection)
    for step in (*truncation.FUNCTIONS, *access.READER_GRANTS):
        connection.execute(step)


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).absolute())


def _drop_definitions(connection: Connection, source: SourceDefinition) -> None:
    if not inspect(connection).has_schema(definitions.SCHEMA):
        return
    for table in sorted({enabled.source_id for enabled in definitions.list_enabled(connection)}):
        for step in postgres.plan_release_table(connection, source, table):
            connection.execute(step)
    slot.drop_publication(connection, source.publication)
    connection.execute(DropSchema(definitions.SCHEMA, cascade=True))


def _open_log_store(manifest: Manifest, source: SourceDefinition, server: ServerIdentity, confirmed: int) -> Position:
    position = Position.of(0, confirmed)
    manifest.append(Opened(epoch=0, position=position, source=as_log_source(source, server.timeline), reason=None))
    manifest.append(ReaderAdvanced(reader=READER, position=position, cycle=0))
    return position


def as_log_source(source: SourceDefinition, timeline: int) -> Source:
    """Return the source as the manifest names it."""
    return Source(
        system_identifier=source.system_identifier,
        timeline=timeline,
        slot=source.slot,
        publication=source.publication,
        publication_id=source.publication_id,
    )


def _require_own(source: SourceDefinition, recorded: Source) -> None:
    found, wanted = (recorded.system_identifier, recorded.slot), (source.system_identifier, source.slot)
    if found != wanted:
        raise LogStoreTaken(source.log_store, " ".join(found), " ".join(wanted))


def _delete_log_store(url: str) -> None:
    store = open_store(url)
    for path in store.list(""):
        store.delete(path)
