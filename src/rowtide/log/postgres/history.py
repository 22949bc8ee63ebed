"""Whether the server's log goes on from what was read: its history, and the slot.

Separate from the source, so that checks do not import the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import format_log_position
from rowtide.log.errors import HistoryDiverged, ServerPromoted
from rowtide.log.postgres import slot
from rowtide.log.postgres.stream import ReplicationStream, StreamIdentity, TimelineFork
from rowtide.log.state import ManifestState


def verify_history(stream: ReplicationStream, state: ManifestState) -> int:
    """Return the server's timeline; raise `HistoryDiverged` unless its history contains all below our position."""
    identity = stream.identify()
    forks = stream.read_timeline_history(identity.timeline) if identity.timeline != state.source.timeline else ()
    difference = find_difference(identity, forks, state)
    if difference is not None:
        raise HistoryDiverged(difference, str(state.position))
    return identity.timeline


def verify_slot_on(timeline: int, connection: Connection, name: str, state: ManifestState) -> slot.SlotState:
    """As `verify_seen_slot`, of the slot as it is now: for who reads the log, whose position nobody else moves."""
    return verify_seen_slot(timeline, slot.find_slot(connection, name), name, state)


def verify_seen_slot(timeline: int, seen: slot.SlotState | None, name: str, state: ManifestState) -> slot.SlotState:
    """Verify a slot; on another timeline than the one that was read, say that the server is not the same one.

    A standby that was promoted, or a copy of the server, has no slot of ours, or one that stands elsewhere. Beside a
    log reader the slot is read before `state`: see `slot.require_usable`.
    """
    try:
        return slot.require_usable(seen, name, state.position.log)
    except RowtideError as error:
        if timeline == state.source.timeline or error.remedy is not Remedy.STOP:
            raise
        raise ServerPromoted(timeline, state.source.timeline, error.filled_fact) from error


def find_difference(identity: StreamIdentity, forks: Sequence[TimelineFork], state: ManifestState) -> str | None:
    """Say in what the server's history differs from the one that was read, None if it goes on from it. Pure."""
    if identity.system_identifier != state.source.system_identifier:
        return f"system {identity.system_identifier}, not {state.source.system_identifier}"
    if identity.flushed < state.position.log:
        return f"its log ends at {format_log_position(identity.flushed)}"
    if identity.timeline == state.source.timeline:
        return None
    ends = {fork.timeline: fork.end for fork in forks}
    end = ends.get(state.source.timeline)
    if end is None:
        return f"timeline {identity.timeline} does not come from timeline {state.source.timeline}"
    if end < state.position.log:
        return f"timeline {state.source.timeline} ended at {format_log_position(end)}"
    return None
