"""Tracer tokens on their way to a subscriber. Pure."""

from __future__ import annotations

from rowtide.core.lsn import Position
from rowtide.log.membership import Traced
from rowtide.log.state import ManifestState, events_between


def find_token(state: ManifestState, publication: str, from_position: Position, to_position: Position) -> Traced | None:
    """Return the first token of a publication in a range."""
    events = events_between(state, from_position, to_position)
    return next((event for event in events if isinstance(event, Traced) and event.publication == publication), None)
