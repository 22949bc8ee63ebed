"""Sequences of published columns, as the publisher and a subscriber have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedSequence:
    """The sequence of a published column: its last value, whether it has given it out, and its step."""

    schema: str
    table: str
    column: str
    last_value: int
    is_called: bool
    increment: int


@dataclass(frozen=True, slots=True)
class SyncedSequence:
    """A subscriber's sequence that was moved: what it would have given next, and what it gives now."""

    subscriber: str
    table: str
    column: str
    before: int
    now: int
