"""Creates and removes what reading a database's log needs: schema `rowtide`, publication, slot and log store.

Features share it. Each is recorded, and removing the last one removes it. One process at a time may do either: the
holder of the source's lease.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, insert, inspect, select
from sqlalchemy.schema import CreateSchema, DropSchema

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.file_access import make_place
from rowtide.databases.postgres.alterations import Committing, Rehearsing, create_tables
from rowtide.databases.postgres.catalogue import ServerIdentity, find_by_id, has_table, read_server_identity
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import format_creation, view_schema
from rowtide.databases.postgres.quoting import statement
from rowtide.log import catalogue
from rowtide.log.catalogue import find_source
from rowtide.log.errors import LogStoreTaken, ManifestMissing, SchemaTaken
from rowtide.log.features import FEATURE_TABLES
from rowtide.log.postgres import control_table, membership, slot, table_publications
from rowtide.log.postgres.ddl_triggers import Triggers, ensure_triggers
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.provenance import find_owner, verify_provenance
from rowtide.log.postgres.rebinding import find_rebound, rebind_steps
from rowtide.log.postgres.table_publications import PublicationCreation
from rowtide.log.source_definition import FORMAT, SourceDefinition
from rowtide.log.store import maintenance
from rowtide.log.store.entries import Opened, StoredSource
from rowtide.log.store.location import open_store, probe_store, require_own
from rowtide.log.store.manifest import LOG_STORE, Manifest
from rowtide.storage.places import is_object_url, local_path, parse_object_url, require_place
from rowtide.storage.store import Store, delete_all

_LEASE_PATIENCE_S = 10.0
_MANIFEST = "manifest/"

_OF_FEATURES = catalogue.members_table.c.feature != catalogue.LOG

_Preparing = Callable[["StoragePlaces", ServerIdentity, str], None]


@frozen
class StoragePlaces:
    """Where a source's data is stored; `log_store` None is a folder of the lake."""

    lake: str
    log_store: str | None
    for_group: bool = False
    """Whether a log store that is made may be read by its folder's group."""

    @property
    def log_store_place(self) -> str:
        """The log store's absolute path or URL."""
        return absolute(self.log_store) if self.log_store is not None else f"{self.lake}/log"


@frozen
class OpenedSource:
    """The source that was found or created, and its manifest.

    `triggers` are the event triggers that write DDL into the log; a role without the right to create them does without.
    """

    source: SourceDefinition
    position: Position
    was_there: bool
    triggers: Triggers


@frozen
class _Recorded:
    source: SourceDefinition
    server: ServerIdentity
    was_there: bool
    has_members: bool
    triggers: Triggers


def take_source(engine: Engine, *, patience_s: float = _LEASE_PATIENCE_S) -> AdvisoryLease:
    """Take the source's lease, the right to create or remove a source. Raises `LeaseHeld`."""
    return AdvisoryLease.take(engine, "source", patience_s=patience_s)


def ensure_source(
    engine: Engine, feature: str, choose_place: Callable[[], StoragePlaces], on_wait: Callable[[str], None]
) -> OpenedSource:
    """Create what a feature needs to read the log, in this order: schema and publication, slot, log store.

    For the holder of the source's lease. Idempotent: a repeat completes an interrupted run, after removing what an
    interrupted removal left. `choose_place` is called if there is no source yet. Creating the slot waits for open
    transactions; `on_wait` is called with the one it waits for.
    """
    # First, since the remains of an interrupted removal look like a source, and would be used as a complete one.
    _finish_removal(engine)
    with translated():
        failpoint("source_record.before")
        recorded = Committing(engine).transact(partial(_record, feature, choose_place, _prepare_log_store))
        failpoint("source_record.after")
        source = recorded.source
        store = open_store(source.log_store)
        manifest = Manifest.find(store)
        was_there = recorded.was_there and manifest is not None
        if manifest is None:
            if recorded.was_there and recorded.has_members:
                # A new log store has no reader that would need the announcements.
                raise ManifestMissing(store.url("manifest"))
            # After the publication is committed, which decoding from the slot on needs, and before the log store, which
            # begins at the slot's position.
            confirmed = slot.ensure_slot(engine, source.slot, on_wait).confirmed
            failpoint("slot_creation.after")
            manifest = _open_log_store(store, as_log_source(source, recorded.server.timeline), confirmed)
        else:
            # An existing log store is continued only if it belongs to this source, and the server's log continues it:
            # otherwise its positions mean nothing here.
            require_own(source, manifest.state.source)
            with engine.connect() as connection:
                verify_provenance(connection, manifest)
    # Until the feature has registered its reader: a store without readers is never truncated.
    maintenance.ensure_placeholder(manifest)
    return OpenedSource(source, manifest.state.position, was_there, recorded.triggers)


def rehearse_source(alterations: Rehearsing, feature: str, place: StoragePlaces) -> SourceDefinition:
    """Rehearse `ensure_source` without creating slot or folder. Raises as `ensure_source`."""
    recorded = alterations.transact(partial(_record, feature, lambda: place, _require_free))
    name = recorded.source.slot
    if _find_manifest(recorded.source.log_store) is None and slot.find_slot(alterations.connection, name) is None:
        alterations.run_alone(slot.create_slot_step(alterations.connection, name))
    return recorded.source


def remove_source(engine: Engine, source: SourceDefinition) -> None:
    """Remove what `ensure_source` created; for the holder of the source's lease and the log's.

    Only when no feature needs it. The schema is dropped last: until then, a repeat finds what is still to be removed.
    """
    with translated():
        failpoint("source_removal.before")
        with engine.begin() as connection:
            catalogue.forget_features(connection)
            _drop_publications(connection, source)
        failpoint("publication_removal.after")
        # Before the log store: a slot without it would retain WAL that nothing can read any more.
        slot.drop_slot(engine, source.slot)
        failpoint("slot_removal.after")
        with engine.connect() as connection:
            # A copy of the database names the original's log store, which stays.
            is_own = find_owner(connection, source) is None
        if is_own:
            _delete_log_store(source)
        failpoint("log_store_removal.after")
        with engine.begin() as connection:
            connection.execute(DropSchema(catalogue.SCHEMA, cascade=True, if_exists=True))
        failpoint("source_removal.after")


def disown_source(engine: Engine, source: SourceDefinition) -> None:
    """Remove a source whose log store belongs to another database: only what this database itself contains.

    Slots of other databases, log store and lake are not touched. For the holder of the leases, as above. A repeat
    completes it after a crash: everything but the slot is removed in one transaction.
    """
    with translated():
        slot.drop_slot(engine, source.slot)
        failpoint("disowning.before")
        with engine.begin() as connection:
            _forget_source(connection, source)
        failpoint("disowning.after")


def require_free_schema(connection: Connection, name: str) -> None:
    """Raise `SchemaTaken` if a schema that a feature is to create exists and is not rowtide's."""
    if inspect(connection).has_schema(name):
        raise SchemaTaken(name)


def absolute(place: str) -> str:
    """Return a path or URL as it is recorded. Raises `PlaceUnnamed`, `StorageUrlMalformed`."""
    require_place(place)
    if is_object_url(place):
        return str(parse_object_url(place))
    return place if "://" in place else str(Path(place).absolute())


def as_log_source(source: SourceDefinition, timeline: int) -> StoredSource:
    """Return the source as the manifest identifies it."""
    return StoredSource(
        system_identifier=source.system_identifier,
        timeline=timeline,
        slot=source.slot,
        publication=source.publication,
        publication_id=source.publication_id,
    )


def _finish_removal(engine: Engine) -> None:
    with translated(), engine.connect() as connection:
        left = find_source(connection)
        is_needed = left is not None and catalogue.list_features(connection)
    if left is not None and not is_needed:
        # A log reader that still runs would write segments into the store that is deleted.
        with AdvisoryLease.take(engine, "log"):
            remove_source(engine, left)


def _record(
    feature: str, choose_place: Callable[[], StoragePlaces], prepare: _Preparing, connection: Connection
) -> _Recorded:
    """Record a source, unless there is one, and that a feature needs it. `prepare` is for a new one's log store."""
    server = read_server_identity(connection)
    slot.require_logical_decoding(connection, server)
    slot.require_free_slot(connection, slot.publication_name(server.database_id))
    found = find_source(connection)
    source = found or _record_source(connection, server, choose_place(), prepare)
    catalogue.record_feature(connection, feature)
    has_members = bool(connection.execute(select(catalogue.members_table.c.member_id).where(_OF_FEATURES)).first())
    return _Recorded(source, server, found is not None, has_members, ensure_triggers(connection))


def _record_source(
    connection: Connection, server: ServerIdentity, place: StoragePlaces, prepare: _Preparing
) -> SourceDefinition:
    require_free_schema(connection, catalogue.SCHEMA)
    connection.execute(CreateSchema(catalogue.SCHEMA))
    create_tables(connection, catalogue.metadata)
    connection.execute(statement(format_creation(catalogue.SCHEMA, FORMAT)))
    name = slot.publication_name(server.database_id)
    # Before the row is inserted, but within its transaction, so that a folder that cannot be written leaves no record
    # of a source.
    prepare(place, server, name)
    source = SourceDefinition(
        source_id=str(uuid.uuid4()),
        system_identifier=server.system_identifier,
        publication=name,
        publication_id=slot.ensure_publication(connection, server, name),
        slot=name,
        log_store=place.log_store_place,
        lake=place.lake,
    )
    connection.execute(insert(catalogue.source_table).values(**asdict(source)))
    connection.execute(slot.record_version_step())
    for step in control_table.publish_steps(name, PublicationCreation(server.version)):
        connection.execute(step)
    return source


def _prepare_log_store(place: StoragePlaces, server: ServerIdentity, name: str) -> None:
    """Create the folder; raise before anything is recorded if it cannot be written, or has another source's log."""
    folder = local_path(place.log_store_place)
    if folder is not None:
        with suppress(OSError):
            make_place(Path(folder).absolute(), for_group=place.for_group)
    # Raises if the folder could not be created.
    probe_store(place.log_store_place)
    _require_free(place, server, name)


def _find_manifest(log_store: str) -> Manifest | None:
    """Return the manifest of a log store; where there is none, no folder is made."""
    folder = local_path(log_store)
    return Manifest.find(open_store(log_store)) if folder is None or (Path(folder) / "manifest").is_dir() else None


def _open_log_store(store: Store, source: StoredSource, confirmed: int) -> Manifest:
    manifest = Manifest(store)
    position = Position.of(0, confirmed)
    # At the slot's position: the server will send everything after it, and nothing before it.
    manifest.append(Opened(epoch=0, position=position, source=source, reason=None, format=LOG_STORE.recorded))
    failpoint("log_store_opening.after")
    return manifest


def _require_free(place: StoragePlaces, server: ServerIdentity, name: str) -> None:
    """Raise if the log store has another source's log."""
    manifest = _find_manifest(place.log_store_place)
    if manifest is None:
        return
    state = manifest.state
    found, wanted = (state.source.system_identifier, state.source.slot), (server.system_identifier, name)
    if found != wanted:
        raise LogStoreTaken(place.log_store_place, " ".join(found), " ".join(wanted))


def _forget_source(connection: Connection, source: SourceDefinition) -> None:
    """Restore the replica identities of the members' tables, and drop what was created in the database."""
    connection.execute(table_publications.make_record_step())
    # In a database that was restored from a dump, other tables may have the recorded oids.
    rebound = find_rebound(connection, source)
    for step in rebind_steps(connection, rebound) if rebound is not None else ():
        connection.execute(step)
    columns = catalogue.members_table.c
    captured = select(columns.source_table_id).where(_OF_FEATURES).distinct()
    for source_id in connection.execute(captured).scalars().all():
        identities = membership.earlier_identities(connection, source_id)
        steps = membership.leave_steps(source, None, identities, source_id)
        for step in [*membership.lock_steps(find_by_id(connection, source_id)), *steps]:
            connection.execute(step)
    for table in FEATURE_TABLES:
        if has_table(connection, table.schema, table.name):
            for dropped in (table.schema, view_schema(table.schema)):
                connection.execute(DropSchema(dropped, cascade=True, if_exists=True))
    _drop_publications(connection, source)
    connection.execute(DropSchema(catalogue.SCHEMA, cascade=True))


def _drop_publications(connection: Connection, source: SourceDefinition) -> None:
    for step in table_publications.drop_steps(connection, source.publication):
        connection.execute(step)
    slot.drop_publication(connection, source.publication)


def _delete_log_store(source: SourceDefinition) -> None:
    """The manifest is deleted last, newest entries first, so that a repeat can still read to which source it
    belongs.
    """
    store = open_store(source.log_store)
    paths = store.list("")
    delete_all(store, [path for path in paths if not path.startswith(_MANIFEST)])
    for path in sorted((path for path in paths if path.startswith(_MANIFEST)), key=_number_of, reverse=True):
        store.delete(path)


def _number_of(path: str) -> int:
    return int("".join(character for character in path if character.isdecimal()) or 0)
