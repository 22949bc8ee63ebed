"""Geometry of the pictures of a page: lines of a day, and an interval with its gaps. Pure.

Templates draw what is computed here as SVG. A picture says in its summary what it shows, for those who cannot see it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta

from rowtide.core.values import frozen

WIDTH, HEIGHT = 480, 72
_HOLE = timedelta(minutes=5)
"""Without a sample for so long, the line is broken: nothing is known of that time."""
_HEADROOM = 1.1

Point = tuple[datetime, float]


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
    """Return the line of a series between two times; None if it has no sample. `show` writes a value with its unit."""
    within = [(at, value) for at, value in points if begin <= at <= end]
    if not within:
        return None
    values = [value for _, value in within]
    highest = max(max(values) * _HEADROOM, 1e-9)
    length_s = max((end - begin).total_seconds(), 1.0)

    def place(point: Point) -> tuple[float, float]:
        at, value = point
        return (
            round((at - begin).total_seconds() / length_s * WIDTH, 1),
            round(HEIGHT - max(value, 0.0) / highest * HEIGHT, 1),
        )

    pieces = [[place(point) for point in piece] for piece in _split(within)]
    hours = round((end - within[0][0]).total_seconds() / 3600)
    since = f"{hours} hours" if hours > 1 else "the last hour"
    return LineChart(
        lines=tuple(map(_as_points, pieces)),
        areas=tuple(_as_points([(piece[0][0], HEIGHT), *piece, (piece[-1][0], HEIGHT)]) for piece in pieces),
        summary=f"{name}: now {show(values[-1])}, highest {show(max(values))} in {since}",
    )


@frozen
class Interval:
    """An interval on a bar: where it begins and how wide it is, in parts of the bar's width, with what it is."""

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
    """The interval of a change table in which it can be queried, with gaps, and what lies in it."""

    gaps: tuple[Interval, ...]
    marks: tuple[Mark, ...]
    summary: str
    width: int = WIDTH
    height: int = 24


def draw_bar(
    begin: float, end: float, gaps: Sequence[tuple[float, float, str]], marks: Sequence[tuple[float, str]], summary: str
) -> Bar:
    """Return the bar of the interval from `begin` to `end`; what lies outside is drawn at the nearer end."""
    length = max(end - begin, 1e-9)

    def place(value: float) -> float:
        return round(min(max((value - begin) / length, 0.0), 1.0) * WIDTH, 1)

    return Bar(
        gaps=tuple(Interval(place(low), max(place(high) - place(low), 2.0), label) for low, high, label in gaps),
        marks=tuple(Mark(place(at), label) for at, label in marks),
        summary=summary,
    )


def _split(points: Sequence[Point]) -> Iterator[list[Point]]:
    piece: list[Point] = []
    for point in points:
        if piece and point[0] - piece[-1][0] > _HOLE:
            yield piece
            piece = []
        piece.append(point)
    yield piece


def _as_points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)
