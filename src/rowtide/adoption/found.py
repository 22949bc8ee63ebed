"""What adopting a database finds and gives up. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.adoption.errors import OriginalAlive
from rowtide.cdc.gaps.reinitialize import CaptureLoss
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import ServerIdentity
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import StoredSource
from rowtide.replication.publishing.restarting import DeliveryLoss


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
        """Describe what adopting gives up."""
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
