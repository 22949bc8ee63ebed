"""Checks that the server's log continues what was read: its timeline history and the slot.

Separate from the source, so that checks do not import the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from rowtide.core.errors import Remedy, RowtideError
from rowtide.core.lsn import format_log_position
from rowtide.log.errors import WAY_AFTER_PROMOTION, HistoryDiverged, ServerPromoted
from rowtide.log.postgres import slot
from rowtide.log.postgres.stream.stream import ReplicationStream, StreamIdentity, TimelineFork
from rowtide.log.store.state import ManifestState


def verify_history(stream: ReplicationStream, state: ManifestState) -> int:
    """Return the server's timeline. Raises `HistoryDiverged` unless its history contains everything below the
    position.
    """
    identity = stream.identify()
    forks = stream.read_timeline_history(identity.timeline) if identity.timeline != state.source.timeline else ()
    difference = find_difference(identity, forks, state)
    if difference is not None:
        is_promoted = identity.system_identifier == state.source.system_identifier and bool(forks)
        way = {"way": WAY_AFTER_PROMOTION} if is_promoted else {}
        raise HistoryDiverged(difference, str(state.position), **way)
    return identity.timeline


def verify_slot_on(timeline: int, connection: Connection, name: str, state: ManifestState) -> slot.SlotState:
    """Verify the slot's present state, as `verify_seen_slot` does: for the log reader, whose position only it moves."""
    return verify_seen_slot(timeline, slot.find_slot(connection, name), name, state)


def verify_seen_slot(timeline: int, seen: slot.SlotState | None, name: str, state: ManifestState) -> slot.SlotState:
    """Verify a slot's state; on another timeline than the one that was read, raise an error that says so.

    A promoted standby, or a copy of the server, lacks the slot or has it at another position. Beside a running log
    reader, read the slot before `state`: see `slot.require_usable`.
    """
    try:
        return slot.require_usable(seen, name, state.position.log)
    except RowtideError as error:
        if timeline == state.source.timeline or error.remedy is not Remedy.STOP:
            raise
        raise ServerPromoted(timeline, state.source.timeline, error.filled_fact) from error


def find_difference(identity: StreamIdentity, forks: Sequence[TimelineFork], state: ManifestState) -> str | None:
    """Return how the server's history differs from the one that was read, None if it continues it. Pure."""
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
