"""Restarts the log after a gap: creates publication and slot again, and opens the next epoch after the gap.

What committed between the old position and the new slot's start is lost to all readers of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, Engine

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import Position
from rowtide.databases.postgres.alterations import Alterations, Committing, Rehearsing
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity
from rowtide.databases.postgres.errors import translated
from rowtide.log import placeholder_reader
from rowtide.log.announcements import ControlRow
from rowtide.log.catalogue import source_table
from rowtide.log.postgres import control, ddl_triggers, slot, table_publications
from rowtide.log.postgres.provision import as_log_source
from rowtide.log.postgres.table_publications import Making
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import Opened
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.store_format import LOG_STORE

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

    A log store that is lost is made again: its epoch then is the one after `known_epoch`, the last that readers know.

    For the holder of the log lease; `announce_again` gets the new source. The epoch is opened last: after a crash
    before that, the log reader finds the slot ahead of its position, and this has to be repeated.
    """
    alterations = Committing(engine)
    with translated():
        server, renewed = alterations.transact(partial(_renew_publication, source))
        failpoint("publication_renewal.after")
        alterations.run_alone(slot.drop_slot_step(renewed.slot))
        confirmed = slot.ensure_slot(engine, renewed.slot, on_wait).confirmed
        failpoint("slot_renewal.after")
        announce_again(alterations, renewed)
        last = alterations.transact(control.mark_end)
    failpoint("epoch_opening.before")
    _open_epoch(renewed, server, confirmed, reason, last, known_epoch)
    failpoint("epoch_opening.after")


def rehearse_restart(alterations: Rehearsing, source: SourceDefinition, announce_again: Announcing) -> None:
    """Rehearse `restart_log`: the slot stays as it is, and no epoch is opened."""
    _, renewed = alterations.transact(partial(_renew_publication, source))
    alterations.run_alone(slot.drop_slot_step(renewed.slot))
    alterations.run_alone(slot.create_slot_step(alterations.connection, renewed.slot))
    announce_again(alterations, renewed)
    alterations.transact(control.mark_end)


def _renew_publication(source: SourceDefinition, connection: Connection) -> tuple[ServerIdentity, SourceDefinition]:
    server = read_server_identity(connection)
    slot.require_logical_decoding(connection, server)
    for step in table_publications.drop_steps(connection, source.publication):
        connection.execute(step)
    slot.drop_publication(connection, source.publication)
    publication_id = slot.ensure_publication(connection, server, source.publication)
    for step in control.renew_steps(source.publication, Making(server.version)):
        connection.execute(step)
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
    epochs = range(known_epoch + 2) if manifest is None else (manifest.state.epoch + 1,)
    manifest = manifest or Manifest(store)
    log_source = as_log_source(source, server.timeline)
    for epoch in epochs:
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
    placeholder_reader.ensure(manifest)
