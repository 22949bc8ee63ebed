"""Bridges a gap: a new slot, and the next epoch begins with what the gap changed.

The slot exports the snapshot of its start: a reader of the tables in it has exactly what is not streamed. Nothing is
durable in the log store until the epoch is opened, in one entry; after a crash before that, everything is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Engine

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.databases.postgres.alterations import Committing
from rowtide.databases.postgres.catalogue import ServerIdentity, read_server_identity, read_server_time
from rowtide.databases.postgres.errors import translated
from rowtide.log.errors import HistoryDiverged
from rowtide.log.postgres import control, slot
from rowtide.log.postgres.lease import describe_holder
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.postgres.provision import as_log_source
from rowtide.log.postgres.restarting import Announcing
from rowtide.log.postgres.stream.stream import NewSlot, ReplicationStream
from rowtide.log.postgres.waiting import reporting_blocker
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import Difference, Opened
from rowtide.log.store.manifest import Manifest

XID = -1
"""The transaction id of a difference: no transaction has it."""


@dataclass(frozen=True, slots=True)
class BridgeHead:
    """Where a difference belongs: its LSN and time, and the exported snapshot that it ends at.

    `token` is that of the log lease.
    """

    lsn: CommitLsn
    committed_at: datetime
    snapshot: str
    token: int


Compare = Callable[[BridgeHead, Manifest], Difference]
"""Writes what the gap changed to pending segments; called while the exported snapshot can be imported."""


def verify_bridgeable(connection: Connection, source: SourceDefinition, manifest: Manifest) -> ServerIdentity:
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
    if server.timeline == manifest.state.source.timeline:
        verify_provenance(connection, manifest)
    slot.verify_publication(connection, source)
    return server


def bridge_gap(
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
        server = alterations.transact(lambda connection: verify_bridgeable(connection, source, manifest))
        token = manifest.take_lease("log", describe_holder())
        with _slot_created(engine, url, source.slot, server, on_wait) as created:
            epoch = manifest.state.epoch + 1
            head = BridgeHead(
                # The last LSN that is not streamed.
                lsn=CommitLsn(Position.of(epoch, created.start).value - 1),
                committed_at=alterations.transact(read_server_time),
                snapshot=created.snapshot,
                token=token,
            )
            difference = compare(head, manifest)
        announce_others(alterations, source)
        last = alterations.transact(control.mark_end)
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
    with closing(ReplicationStream.connect(url, application_name="rowtide difference")) as stream:
        with reporting_blocker(engine, on_wait):
            created = stream.create_slot(name, has_failover=has_failover)
        failpoint("slot_renewal.after")
        yield created
