"""Geometry of the pictures of a page: lines of a day, and an interval with its gaps; how bad a state is. Pure.

Templates draw what is computed here as SVG. A picture says in its summary what it shows, for those who cannot see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.monitor.gauge_series import Point, split_at_gaps
from rowtide.monitor.views import DatabaseView, InstanceView, MonitorState

WIDTH, HEIGHT = 480, 72
_HEADROOM = 1.1
_LONGEST_GAP = timedelta(minutes=12)
"""Points of a day are five minutes apart: where two are missing, the line is broken."""


@frozen
class LineChart:
    """Lines and the areas below them, as `points` of SVG; a broken line where samples are missing."""

    lines: tuple[str, ...]
    areas: tuple[str, ...]
    summary: str
    width: int = WIDTH
    height: int = HEIGHT


def draw_line(
    points: Sequence[Point], begin: datetime, end: datetime, name: str, show: Callable[[float], str]
) -> LineChart | None:
    """Return the line of a series between two times; None if nothing is known of it. `show` writes value and unit."""
    values = [one.value for one in points if one.value is not None]
    if not values:
        return None
    highest = max(max(values) * _HEADROOM, 1e-9)
    length_s = max((end - begin).total_seconds(), 1.0)

    def place(point: Point) -> tuple[float, float]:
        value = max(point.value or 0.0, 0.0)
        x = (point.at - begin).total_seconds() / length_s * WIDTH
        return round(min(max(x, 0.0), WIDTH), 1), round(HEIGHT - value / highest * HEIGHT, 1)

    pieces = [[place(point) for point in piece] for piece in split_at_gaps(points, _LONGEST_GAP)]
    hours = round((end - points[0].at).total_seconds() / 3600)
    since = f"{hours} hours" if hours > 1 else "the last hour"
    last = points[-1].value
    now = f"now {show(last)}" if last is not None else "now unknown"
    return LineChart(
        lines=tuple(map(_as_points, pieces)),
        areas=tuple(_as_points([(piece[0][0], HEIGHT), *piece, (piece[-1][0], HEIGHT)]) for piece in pieces),
        summary=f"{name}: {now}, highest {show(max(values))} in {since}",
    )


@frozen
class Gap:
    """A gap on a bar, in parts of its width, with what it is."""

    x: float
    width: float
    label: str


@frozen
class Mark:
    """A place on a bar, with what is there."""

    x: float
    label: str


@frozen
class Bar:
    """The interval in which a change table can be read, with its gaps and what lies in it."""

    gaps: tuple[Gap, ...]
    marks: tuple[Mark, ...]
    summary: str
    width: int = WIDTH
    height: int = 24


_LEAST_WIDTH = 3.0


def draw_bar(gaps: Sequence[tuple[float, float, str]], marks: Sequence[tuple[float, str]], summary: str) -> Bar:
    """Return the bar of an interval; places are between 0, where it begins, and 1."""
    return Bar(
        gaps=tuple(
            Gap(round(low * WIDTH, 1), max(round((high - low) * WIDTH, 1), _LEAST_WIDTH), label)
            for low, high, label in gaps
        ),
        marks=tuple(Mark(round(at * WIDTH, 1), label) for at, label in marks),
        summary=summary,
    )


def _as_points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


MONITOR_ORDER = tuple(MonitorState)

_BY_SEVERITY = {
    State.FAILING: ("deactivated", "failed", "expired", "stopped", "dropped", "error", "performance critical"),
    State.WARNING: (
        *("expiring", "expiring or expired", "retrying", "never_run", "late", "paused", "uninitialized", "not running"),
        *("never_synchronised", "rows_refused", "gaps", "copied"),
    ),
    State.HEALTHY: ("healthy", "running", "readable", "applied", "member", "new"),
    State.UNKNOWN: ("unknown",),
}
_SEVERITIES = {word: state for state, words in _BY_SEVERITY.items() for word in words}


def severity(state: str) -> State:
    """Return how bad a state of a subscription, an instance or a table of a target is."""
    return _SEVERITIES[state]


def state_of_instance(one: InstanceView) -> str:
    """Return the state of a capture instance for a list."""
    if one.is_dropped:
        return "dropped"
    if one.copy is not None:
        return "copied"
    if one.interval is None:
        return "unknown"
    return "gaps" if one.gaps or one.interval.missing else "readable"


def draw_interval(view: DatabaseView, one: InstanceView) -> Bar | None:
    """Return the bar of what may be read of an instance, with gaps, consumers, and where cleanup will be."""
    interval = one.interval
    if interval is None:
        return None
    gaps = [(interval.share_of(gap.after), interval.share_of(gap.before), gap.reason) for gap in one.gaps]
    gaps += [
        (share, share, f"transaction {lsn} is missing")
        for lsn in interval.missing
        for share in (interval.share_of(lsn),)
    ]
    return draw_bar(gaps, [*_marks(view, one)], _summarise(one))


def _marks(view: DatabaseView, one: InstanceView) -> Iterator[tuple[float, str]]:
    assert one.interval is not None
    for consumer in view.consumers:
        if consumer.name in one.consumers and consumer.acknowledged_lsn is not None:
            yield one.interval.share_of(consumer.acknowledged_lsn), f"consumer {consumer.name}"
    cleanup = view.capture.cleanup if view.capture is not None else None
    if cleanup is not None and cleanup.retention_s is not None:
        share = one.interval.share_of_time(view.polled_at - timedelta(seconds=cleanup.retention_s))
        # At the begin there is nothing for cleanup to remove.
        if share:
            yield share, "cleanup removes what is before"


def _summarise(one: InstanceView) -> str:
    assert one.interval is not None
    since = (
        f"since {one.interval.low_at:%Y-%m-%d %H:%M} UTC" if one.interval.low_at is not None else "as far as it goes"
    )
    gaps = len(one.gaps) + len(one.interval.missing)
    lacking = f", with {gaps} gaps" if gaps > 1 else ", with a gap" if gaps else ""
    return f"Readable {since}{lacking}"
