"""Restarts the log after a gap: publication and slot are created again, and the next epoch is opened.

What the gap changed is captured if it was compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, Engine

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations, Committing, Rehearsing
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity, read_server_time
from rowtide.databases.postgres.errors import translated
from rowtide.log.catalogue import source_table
from rowtide.log.errors import HistoryDiverged
from rowtide.log.membership import ControlRow
from rowtide.log.postgres import control_table, ddl_triggers, slot, table_publications
from rowtide.log.postgres.backlog import reporting_blocker
from rowtide.log.postgres.lease import describe_holder
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.postgres.provision import as_log_source
from rowtide.log.postgres.stream.stream import NewSlot, ReplicationStream
from rowtide.log.postgres.table_publications import PublicationCreation
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store import maintenance
from rowtide.log.store.entries import Difference, Opened
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import LOG_STORE, Manifest

Announcing = Callable[[Alterations, SourceDefinition], None]
"""Announces members again, to the source as it is then."""


def restart_log(
    engine: Engine,
    source: SourceDefinition,
    announce_again: Announcing,
    reason: str,
    on_wait: Callable[[str], None],
    *,
    known_epoch: int = 0,
) -> None:
    """Create publication and slot again, announce every member again, and open the next epoch.

    If the log store was lost and is created again, or was restored to an earlier epoch, the new epoch is the one after
    `known_epoch`, the last that readers know.

    For the holder of the log lease; `announce_again` gets the new source. The epoch is opened last: after a crash
    before that, the log reader finds the slot ahead of its position, and this has to be repeated.
    """
    alterations = Committing(engine)
    with translated():
        server, renewed = alterations.transact(partial(_renew_publication, source))
        failpoint("publication_renewal.after")
        alterations.run_alone(slot.drop_slot_step(renewed.slot))
        # After the publication's commit: decoding looks up the publication as of each change, and fails if it did not
        # exist yet.
        confirmed = slot.ensure_slot(engine, renewed.slot, on_wait).confirmed
        failpoint("slot_renewal.after")
        # After the slot is created, so that the announcements are in the new epoch: members that are not announced
        # there have no changes.
        announce_again(alterations, renewed)
        # After the announcements: the recorded row proves later that this server continued from here.
        last = alterations.transact(control_table.mark_end)
    failpoint("epoch_opening.before")
    _open_epoch(renewed, server, confirmed, reason, last, known_epoch)
    failpoint("epoch_opening.after")


def rehearse_restart(alterations: Rehearsing, source: SourceDefinition, announce_again: Announcing) -> None:
    """Rehearse `restart_log`: the slot stays as it is, and no epoch is opened."""
    _, renewed = alterations.transact(partial(_renew_publication, source))
    alterations.run_alone(slot.drop_slot_step(renewed.slot))
    alterations.run_alone(slot.create_slot_step(alterations.connection, renewed.slot))
    announce_again(alterations, renewed)
    alterations.transact(control_table.mark_end)


def _renew_publication(source: SourceDefinition, connection: Connection) -> tuple[ServerIdentity, SourceDefinition]:
    server = read_server_identity(connection)
    slot.require_logical_decoding(connection, server)
    for step in table_publications.drop_steps(connection, source.publication):
        connection.execute(step)
    slot.drop_publication(connection, source.publication)
    publication_id = slot.ensure_publication(connection, server, source.publication)
    for step in control_table.renew_steps(source.publication, PublicationCreation(server.version)):
        connection.execute(step)
    # The table of announcements was made again, and event triggers write into it.
    ddl_triggers.ensure_triggers(connection)
    renewed = replace(source, publication_id=publication_id, system_identifier=server.system_identifier)
    connection.execute(
        source_table.update().values(publication_id=renewed.publication_id, system_identifier=renewed.system_identifier)
    )
    connection.execute(slot.record_version_step())
    return server, renewed


def _open_epoch(
    source: SourceDefinition,
    server: ServerIdentity,
    confirmed: int,
    reason: str,
    last: ControlRow,
    known_epoch: int,
) -> None:
    store = open_store(source.log_store)
    manifest = Manifest.find(store)
    first = 0 if manifest is None else manifest.state.epoch + 1
    manifest = manifest or Manifest(store)
    log_source = as_log_source(source, server.timeline)
    # Replay requires that epochs are opened one after the other. They are opened up to one that no reader has seen,
    # because otherwise LSNs of two histories would be the same.
    for epoch in range(first, max(first, known_epoch + 1) + 1):
        manifest.append(
            Opened(
                epoch=epoch,
                position=Position.of(epoch, confirmed),
                source=log_source,
                reason=reason,
                format=LOG_STORE.recorded if epoch == 0 else None,
                control_row=last,
            )
        )
    maintenance.ensure_placeholder(manifest)


XID = -1
"""The transaction id of a difference: no transaction has it."""


@frozen
class ReconciliationPoint:
    """The place of a difference in the log: its LSN and time, and the exported snapshot at which it ends.

    `token` is that of the log lease.
    """

    lsn: CommitLsn
    committed_at: datetime
    snapshot: str
    token: int


Compare = Callable[[ReconciliationPoint, Manifest], Difference]
"""Writes what the gap changed to pending segments; called while the exported snapshot can be imported."""


def verify_reconcilable(connection: Connection, source: SourceDefinition, manifest: Manifest) -> ServerIdentity:
    """Return the server. Raise unless the members' publication is whole, and the server is the source, or a standby of
    it that was promoted.

    Raises `ServerIsStandby`, `WalLevelNotLogical`, `NoReplicationRight`, `PublicationAltered`, `HistoryDiverged`.
    """
    server = read_server_identity(connection)
    slot.require_logical_decoding(connection, server)
    recorded = manifest.state.source.system_identifier
    if server.system_identifier != recorded:
        difference = f"system {server.system_identifier}, not {recorded}"
        raise HistoryDiverged(difference, str(manifest.state.position))
    # After a promotion this server need not have the row that the log store read last: the tables' rows are compared
    # instead.
    if server.timeline == manifest.state.source.timeline:
        verify_provenance(connection, manifest)
    slot.verify_publication(connection, source)
    return server


def reconcile_gap(
    engine: Engine,
    url: str,
    source: SourceDefinition,
    manifest: Manifest,
    reason: str,
    compare: Compare,
    announce_others: Announcing,
    on_wait: Callable[[str], None],
) -> Difference:
    """Create the slot again, and open the next epoch with what `compare` finds; for the holder of the log lease.

    `announce_others` announces members that begin again after the gap.
    """
    alterations = Committing(engine)
    with translated():
        server = alterations.transact(lambda connection: verify_reconcilable(connection, source, manifest))
        # Before the slot is dropped: from here on no earlier log reader writes a range into the earlier epoch.
        token = manifest.take_lease("log", describe_holder())
        with _slot_created(engine, url, source.slot, server, on_wait) as created:
            epoch = manifest.state.epoch + 1
            head = ReconciliationPoint(
                # The last LSN that is not streamed. So it sorts after the whole earlier epoch and before everything
                # that the slot sends. No WAL record begins at it, since records are aligned to 8 bytes.
                lsn=CommitLsn(Position.of(epoch, created.start).value - 1),
                committed_at=alterations.transact(read_server_time),
                snapshot=created.snapshot,
                token=token,
            )
            difference = compare(head, manifest)
        announce_others(alterations, source)
        last = alterations.transact(control_table.mark_end)
    failpoint("epoch_opening.before")
    manifest.append(
        Opened(
            epoch=epoch,
            position=Position.of(epoch, created.start),
            source=as_log_source(source, server.timeline),
            reason=reason,
            control_row=last,
            difference=difference,
        )
    )
    failpoint("epoch_opening.after")
    return difference


@contextmanager
def _slot_created(
    engine: Engine, url: str, name: str, server: ServerIdentity, on_wait: Callable[[str], None]
) -> Iterator[NewSlot]:
    """Create a slot in place of the present one; its snapshot can be imported in the block."""
    failpoint("slot_renewal.before")
    slot.drop_slot(engine, name)
    has_failover = server.version >= slot.FAILOVER_SLOTS_SINCE
    # The exported snapshot can be imported only while the session that created the slot runs no other command: the
    # stream stays open for the whole block.
    with closing(ReplicationStream.connect(url, application_name="rowtide difference")) as stream:
        with reporting_blocker(engine, on_wait):
            created = stream.create_slot(name, has_failover=has_failover)
        failpoint("slot_renewal.after")
        yield created
