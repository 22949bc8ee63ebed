"""What is known of a tracked table before anything is judged, whatever its database."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.tracking.options import TrackedTable

OLD_DAYS = 30
"""Tombstones above this age are old: applications that have not synchronised since copy the table again."""


@dataclass(frozen=True, slots=True)
class TrackingLoss:
    """Why a table's tracking is lost, and since when that is known, in UTC; None where it was found out now.

    `is_dropped` says that the table is not there any more, `lacks_key` that it has not the key that it goes by.
    """

    why: str
    since: str | None
    is_dropped: bool = False
    lacks_key: bool = False


@dataclass(frozen=True, slots=True)
class Tombstones:
    """A table's tombstones, how many of them are old, and the age of the oldest."""

    count: int
    old_count: int
    oldest_days: float


NO_TOMBSTONES = Tombstones(0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class TrackedFacts:
    """A tracked table, what of its tracking was lost, and what its deletes have left."""

    tracked: TrackedTable
    loss: TrackingLoss | None
    tombstones: Tombstones
