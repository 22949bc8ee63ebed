"""Series of samples: a gauge with the values of its labels, which the monitor keeps for a day. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from rowtide.core.values import frozen

TABLE_CHANGES = "table_changes"
"""The series of the changes that a server has counted of a table: no metric, since tables may be many."""


@frozen
class GaugeSeries:
    """A gauge of a database by its metric's name, and the values of its labels in their order."""

    metric: str
    labels: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name under which its samples are kept."""
        return "\n".join((self.metric, *self.labels))


@frozen
class Point:
    """A sample of a series; `value` is None where the database was read and this was not known."""

    at: datetime
    value: float | None


LONGEST_GAP = timedelta(minutes=3)
"""Points further apart are not connected: nothing was read between them."""


def split_at_gaps(points: Sequence[Point], longest: timedelta = LONGEST_GAP) -> Iterator[tuple[Point, ...]]:
    """Yield the parts of a line, each without a gap: points with values, none further apart than `longest`.

    Points that were thinned are to be split at a multiple of their distance.
    """
    part: list[Point] = []
    for point in points:
        if part and (point.value is None or point.at - part[-1].at > longest):
            yield tuple(part)
            part = []
        if point.value is not None:
            part.append(point)
    if part:
        yield tuple(part)
