"""Adopt a database that was moved permanently: record its new identity, and open the log's next epoch.

As after a gap, changes that committed between the log store's position and the new slot's start are lost, and recorded
as lost. The log store's identity is changed last, so that a repeat after a crash completes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, Engine, Executable, text

from rowtide.cdc import access, definitions as cdc_definitions
from rowtide.cdc.gaps import reinitialize as capture
from rowtide.cdc.gaps.reinitialize import CaptureLoss
from rowtide.cdc.lake_continuity import find_contradiction, is_behind
from rowtide.cdc.published import read_publication
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position, format_log_position
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations, Committing, Rehearsing
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote, statement
from rowtide.log import catalogue, errors
from rowtide.log.catalogue import source_table
from rowtide.log.postgres import control_table, ddl_triggers, provision, slot, table_publications
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.postgres.log_restart import rehearse_restart, restart_log
from rowtide.log.postgres.provenance import find_difference, verify_history, verify_slot_on
from rowtide.log.postgres.rebinding import find_rebound, rebind_steps
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.log.postgres.table_publications import PublicationCreation
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import StoredSource
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState
from rowtide.relocation.errors import NothingToResumeFrom, OriginalAlive
from rowtide.replication.distributor.subscription_records import list_subscriptions
from rowtide.replication.publishing import publisher_log as publishing
from rowtide.replication.publishing.publisher_log import DeliveryLoss
from rowtide.storage.places import local_folder


@frozen
class Adoption:
    """A database that may have been moved.

    `source` is the identity recorded in it, `log_source` the one that its log store was read from last. `blocker` is
    why the log cannot be continued; None if nothing was moved, and there is nothing to adopt. `originals` are the
    databases on this server to which slot, log store and lake belong; originals elsewhere cannot be seen from here.
    `last_reader` is the last log reader. `missing` are members whose tables do not exist here.
    """

    source: SourceDefinition
    server: ServerIdentity
    log_source: StoredSource
    blocker: str | None
    originals: tuple[str, ...]
    is_slot_there: bool
    last_reader: str | None
    after: Position
    log_end: str
    instances: tuple[str, ...]
    subscribers: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to adopt."""
        return self.blocker is not None

    def describe(self) -> Iterator[str]:
        """Yield the findings, one line each."""
        here, slot, log = self.server, self.source.slot, self.log_source
        yield f"Recorded: slot {slot} of system {self.source.system_identifier}; lake {self.source.lake}."
        yield (
            f"Log store {self.source.log_store}: read for slot {log.slot} of system {log.system_identifier}, "
            f"timeline {log.timeline}, up to {self.after}."
        )
        yield (
            f"Here: database {here.database} (oid {here.database_id}) of system {here.system_identifier}, "
            f"timeline {here.timeline}."
        )
        yield f"Slot {slot} is {'in this database' if self.is_slot_there else 'not in this database'}."
        if self.blocker is None:
            return
        yield f"Its log cannot be read on: {self.blocker}."
        if self.originals:
            yield f"The original is still on this server: {', '.join(self.originals)}."
        else:
            reader = f"; its log was last read by {self.last_reader}" if self.last_reader is not None else ""
            yield f"Whether the original still runs elsewhere cannot be seen from here{reader}."
        if self.missing:
            yield f"Tables are not here of: {', '.join(self.missing)}."

    @property
    def loss(self) -> str:
        """Describe what adopting discards."""
        parts = []
        if self.originals:
            parts.append(f"log store and lake for {', '.join(self.originals)}, which stops")
        if self.instances or not self.subscribers:
            parts.append(str(CaptureLoss(self.after, self.log_end, self.instances)))
        if self.subscribers:
            parts.append(str(DeliveryLoss(self.after, self.log_end, self.subscribers)))
        return "; ".join(parts)

    def require_allowed(self, *, abandons_original: bool) -> None:
        """Raise `OriginalAlive` if the original exists and is not abandoned."""
        if self.is_needed and self.originals and not abandons_original:
            raise OriginalAlive(self.server.database, ", ".join(self.originals))


_FEATURES = (capture, publishing)


def find_adoption(engine: Engine, url: str) -> Adoption:
    """Return what adopting a database would find and discard, without changes.

    Raises `DatabaseNotEnabled`, `NotOwner`, `NothingToResumeFrom`, and what reading a server's log requires.
    """
    with translated(), engine.connect() as connection:
        return _find(connection, url)[0]


def adopt(
    engine: Engine,
    url: str,
    reason: str,
    *,
    abandons_original: bool,
    on_wait: Callable[[str], None] = lambda _whom: None,
) -> Adoption:
    """Adopt a database that was moved permanently; return what was found. A repeat after a crash completes it.

    The server waits for open transactions: `on_wait` is called with them. Raises `OriginalAlive` unless the original is
    abandoned, `LeaseHeld` while a process of rowtide runs here, and as `find_adoption`.
    """
    with (
        translated(),
        AdvisoryLease.take(engine, "lake"),
        AdvisoryLease.take(engine, "log"),
        provision.take_source(engine),
    ):
        with engine.connect() as connection:
            found, state = _find(connection, url)
        found.require_allowed(abandons_original=abandons_original)
        if not found.is_needed:
            return found
        slot.drop_slot(engine, found.source.slot)
        failpoint("adoption_record.before")
        source = Committing(engine).transact(partial(_record, found, state))
        failpoint("adoption_record.after")
        # The original may still run on another server, so its processes are fenced before the log continues with this
        # one.
        _fence(source)
        known_epoch = _find_known_epoch(source)
        restart_log(engine, source, _announce_again, reason, on_wait, known_epoch=known_epoch)
    return found


def rehearse_adoption(alterations: Rehearsing, url: str, *, abandons_original: bool) -> Adoption:
    """Rehearse `adopt`: slots, log store and lake stay as they are. Raises as that does, but `LeaseHeld`."""
    found, state = alterations.transact(partial(_find, url=url))
    found.require_allowed(abandons_original=abandons_original)
    if found.is_needed:
        alterations.run_alone(slot.drop_slot_step(found.source.slot))
        source = alterations.transact(partial(_record, found, state))
        rehearse_restart(alterations, source, _announce_again)
    return found


def _find(connection: Connection, url: str) -> tuple[Adoption, ManifestState]:
    source = catalogue.find_recorded(connection)
    server = read_server_identity(connection)
    if source is None:
        raise errors.DatabaseNotEnabled(server.database)
    if cdc_definitions.are_made(connection):
        access.require_owner(connection, server.database)
    slot.require_logical_decoding(connection, server)
    state = _load(source, server)
    here = (server.system_identifier, slot.publication_name(server.database_id))
    owners = {(source.system_identifier, source.slot), (state.source.system_identifier, state.source.slot)}
    others = sorted(owners - {here})
    rebound = find_rebound(connection, source, state.members) or ()
    subscriptions = list_subscriptions(connection)
    found = Adoption(
        source=source,
        server=server,
        log_source=state.source,
        blocker=_name(others) if others else _find_blocker(connection, url, source, state),
        originals=tuple(name for other in others if (name := _find_here(connection, server, *other)) is not None),
        is_slot_there=slot.find_slot(connection, source.slot) is not None,
        last_reader=state.leases["log"].holder if "log" in state.leases else None,
        after=state.position,
        log_end=format_log_position(slot.read_log_end(connection)),
        instances=capture.list_names(connection),
        subscribers=tuple(dict.fromkeys(redact(known.subscriber) for known in subscriptions)),
        missing=tuple(member.name for member in rebound if member.table is None),
    )
    return found, state


def _load(source: SourceDefinition, server: ServerIdentity) -> ManifestState:
    """Read the manifest of an existing log store; never create one."""
    folder = local_folder(source.log_store)
    if folder is None or folder.is_dir():
        manifest = Manifest.find(open_store(source.log_store))
        if manifest is not None:
            return manifest.state
    raise NothingToResumeFrom(source.log_store, server.database)


def _name(others: Sequence[tuple[str, str]]) -> str:
    return "it belongs to " + " and ".join(f"slot {slot_name} of system {system}" for system, slot_name in others)


def _find_here(connection: Connection, server: ServerIdentity, system_identifier: str, slot_name: str) -> str | None:
    """Return the name of another database of this server, given its slot; None if there is none."""
    if system_identifier != server.system_identifier:
        return None
    found = connection.execute(text(_DATABASE), {"slot": slot_name}).scalar()
    return str(found) if found is not None else None


def _find_blocker(connection: Connection, url: str, source: SourceDefinition, state: ManifestState) -> str | None:
    """Return why the log cannot be continued: the server was promoted, restored to an earlier state, or copied."""
    if source.publication_id != state.source.publication_id:
        return "its publication was made again, and the log's next epoch was not opened"
    stream = ReplicationStream.connect(url, application_name="rowtide adopt")
    try:
        timeline = verify_history(stream, state)
        difference = find_difference(connection, state)
        if difference is not None:
            return difference
        verify_slot_on(timeline, connection, source.slot, state)
    except (errors.HistoryDiverged, errors.ServerPromoted) as error:
        return error.filled_fact
    except (errors.SlotMissing, errors.SlotInvalidated, errors.SlotAdvanced):
        # On the same server and timeline it is a gap, which `reinitialize` handles.
        return _find_contradiction(source, state)
    finally:
        stream.close()
    return _find_contradiction(source, state)


def _find_contradiction(source: SourceDefinition, state: ManifestState) -> str | None:
    """Return how the log store differs from the one that the lake was captured from, None if it does not."""
    lake_state = SystemTables(source.lake, source.source_id).read()
    if is_behind(lake_state, state):
        return f"the lake is at cycle {lake_state.cycle}, which the log store is past"
    store = open_store(source.log_store)
    return find_contradiction(source.lake, lake_state.position, state, store, is_read_on=False)


def _find_known_epoch(source: SourceDefinition) -> int:
    """Return the last epoch of the log that the lake knows."""
    published = read_publication(source.lake)
    return published.lsn.epoch if published is not None and published.lsn is not None else 0


def _record(found: Adoption, state: ManifestState, connection: Connection) -> SourceDefinition:
    """Record the present identity in the caller's transaction, and return it.

    The publication is created in the same transaction: a repeat recognizes by its oid that the members' tables were
    bound.
    """

    def run(*steps: Executable) -> None:
        for step in steps:
            connection.execute(step)

    name = slot.publication_name(found.server.database_id)
    rebound = find_rebound(connection, found.source, state.members)
    for old in sorted({found.source.publication, name}):
        run(*table_publications.drop_steps(connection, old), statement(f"drop publication if exists {quote(old)}"))
    run(slot.create_publication_step(found.server, name))
    source = replace(
        found.source,
        system_identifier=found.server.system_identifier,
        publication=name,
        publication_id=slot.ensure_publication(connection, found.server, name),
        slot=name,
    )
    run(*control_table.renew_steps(name, PublicationCreation(found.server.version)))
    values = ("system_identifier", "publication", "publication_id", "slot")
    run(source_table.update().values({column: getattr(source, column) for column in values}))
    run(slot.record_version_step())
    if rebound is not None:
        run(*rebind_steps(connection, rebound))
        for feature in _FEATURES:
            run(*feature.rebind_steps(connection, rebound))
    ddl_triggers.ensure_triggers(connection)
    return source


def _announce_again(alterations: Alterations, source: SourceDefinition) -> None:
    for feature in _FEATURES:
        feature.announce_again(alterations, source)


def _fence(source: SourceDefinition) -> None:
    """Fence the log store against processes elsewhere that read or capture: their further writes are refused."""
    manifest = Manifest.open(open_store(source.log_store))
    manifest.take_lease("log", describe_holder())
    manifest.take_lease("lake", describe_holder())


_DATABASE = "select datname::text from pg_database where 'rowtide_' || oid = :slot"
