"""The ways in which rowtide calls a subscriber, each measured by itself: one more is one more row here."""

from __future__ import annotations

from dataclasses import dataclass, field

from rowtide.replication.distribution.batches import BatchLimits


@dataclass(frozen=True, slots=True)
class Calling:
    """A way of calling, how it is asked for, and what it is to reach of PostgreSQL's own transactions a second."""

    name: str
    of_native: float
    limits: BatchLimits = field(default_factory=BatchLimits)


CALLINGS = (Calling("rowtide, per call", 0.3),)
