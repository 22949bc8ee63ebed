"""Geometry of pictures of many things: who delivers to whom as a graph, and throughput by table as a heat strip. Pure.

Templates draw what is computed here as SVG, and beside it a table with the same, for those who cannot see it.
"""

from __future__ import annotations

import math
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nsmallest
from itertools import accumulate, pairwise

from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.monitor.gauge_series import Point
from rowtide.monitor.views import DatabaseView
from rowtide.monitor.views.states import WORST_FIRST
from rowtide.monitor.web.charts import severity

_MOST_BESIDE = 6
"""The limit of subscribers of a publication that are drawn one by one; the healthy rest is one node."""
_WIDTH, _HEIGHT, _ROW, _COLUMN = 180, 32, 42, 290
_MARGIN = 8
_LETTERS = 20
"""The number of letters of usual width that fit into a node."""
_WIDE, _NARROW = frozenset("mwMW@%—…"), frozenset(" !'(),./:;I[\\]fijlrt|")
_MONITORED, _PUBLICATION, _SUBSCRIBER = "known", "publication", "subscriber"
CELLS = 48
_MOST_TABLES = 12
_CELL_WIDTH, _CELL_HEIGHT = 10, 22
_STEPS = 5


@frozen
class DeliveryPath:
    """A publication that a database delivers to, or merges with, another one; `to` is that database if it is monitored,
    too.

    `count` subscribers are drawn as one node.
    """

    source: str
    publication: str
    subscriber: str
    state: str
    severity: State
    kind: str
    to: str | None = None
    count: int = 1


@frozen
class GraphNode:
    """A database or a publication in the graph, at a place; `kind` is monitored, publication, or subscriber."""

    name: str
    label: str
    kind: str
    x: int
    y: int
    width: int
    height: int


@frozen
class Edge:
    """A line between two nodes, as a path of SVG."""

    path: str
    title: str
    state: State


@frozen
class Topology:
    """A graph of databases, from publishers on the left to the last subscribers on the right."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    deliveries: tuple[DeliveryPath, ...]
    width: int
    height: int
    summary: str


def list_deliveries(views: Iterable[DatabaseView]) -> Sequence[DeliveryPath]:
    """Return what databases deliver and merge to others, the worst first for each publication."""
    listed = list(views)
    found: list[DeliveryPath] = []
    for view in listed:
        ranked: dict[tuple[str, str], list[_Ranked]] = {}
        for one in view.subscriptions:
            to = _find_known(one.publication, one.subscriber, view, listed)
            state = str(one.monitor_state)
            ranked.setdefault((one.publication, "delivery"), []).append(
                (to is None, _rank(state), one.subscriber, state, to)
            )
        for merge in view.merges:
            if merge.role == "publisher":
                ranked[merge.publication, "merge"] = [
                    (True, _rank(one.state), one.subscriber, one.state, None) for one in merge.subscriptions
                ]
        for (publication, kind), subscribers in ranked.items():
            found += _fold(view.name, publication, kind, subscribers)
    return found


# Tuples, since ten thousand devices are ranked for each page, of which few are drawn.
_Ranked = tuple[bool, int, str, str, str | None]
"""A subscriber: whether it is no monitored database, how bad its state is, its name, state, and monitored database."""


def _rank(state: str) -> int:
    return WORST_FIRST.index(severity(state))


def _find_known(publication: str, subscriber: str, source: DatabaseView, views: Sequence[DatabaseView]) -> str | None:
    """Return the monitored database that a subscriber is, if exactly one has its name and receives the publication."""
    named = subscriber.rstrip("/").rpartition("/")[2].partition("?")[0]
    found = [
        one.name
        for one in views
        if one is not source and publication in one.delivered_here and named in (one.name, one.name.rpartition("/")[2])
    ]
    return found[0] if len(found) == 1 else None


def _fold(source: str, publication: str, kind: str, subscribers: Sequence[_Ranked]) -> Iterator[DeliveryPath]:
    """Return deliveries with the rest of many subscribers of a publication as one; those that others get stay."""
    kept = nsmallest(_MOST_BESIDE, subscribers)
    for _, _, subscriber, state, to in kept:
        yield DeliveryPath(source, publication, subscriber, state, severity(state), kind, to)
    if len(subscribers) > len(kept):
        rest = Counter(one[3] for one in subscribers)
        rest.subtract(one[3] for one in kept)
        count, worst = len(subscribers) - len(kept), min(+rest, key=_rank)
        yield DeliveryPath(source, publication, f"{count:,} more", worst, severity(worst), kind, count=count)


_Key = tuple[str, ...]
"""The identity of a node: kind, name, and, unless it is a monitored database, the database that it belongs to."""


def draw_topology(deliveries: Sequence[DeliveryPath]) -> Topology | None:
    """Return the graph of deliveries; None if there is none. What gets changes is right of what it gets them from."""
    if not deliveries:
        return None
    links = _link(deliveries)
    depths = _find_depths(deliveries)
    columns: list[list[_Key]] = [[] for _ in range(max(depths.values()) + 1)]
    for key, depth in depths.items():
        columns[depth].append(key)
    rows = _place(columns, links)
    places = {
        key: GraphNode(key[1], shorten(key[1]), key[0], _MARGIN + depth * _COLUMN, _MARGIN + rows[key], _WIDTH, _HEIGHT)
        for depth, column in enumerate(columns)
        for key in column
    }
    return Topology(
        tuple(places.values()),
        tuple(_draw_edge(places[begin], places[end], *said) for (begin, end), said in links.items()),
        tuple(deliveries),
        2 * _MARGIN + (len(columns) - 1) * _COLUMN + _WIDTH,
        2 * _MARGIN + max(rows.values()) + _HEIGHT + _ROW // 2,
        _summarise(deliveries),
    )


def shorten(text: str) -> str:
    """Return a name that fits into a node, on one line."""
    line = " ".join(text.split())
    ends = list(accumulate(map(_width_of, line)))
    if not ends or ends[-1] <= _LETTERS:
        return line
    return line[: bisect_right(ends, _LETTERS - 1)] + "…"


def _width_of(letter: str) -> float:
    """Estimate the width of a letter, in letters of usual width; the server does not know the browser's font."""
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in ("W", "F"):
        return 1.7
    if letter in _WIDE:
        return 1.6
    return 0.6 if letter in _NARROW else 1.15 if letter.isupper() else 1.0


def _keys(one: DeliveryPath) -> tuple[_Key, _Key, _Key]:
    """Return the nodes of a delivery: the source, its publication, and who gets it."""
    publication = (_PUBLICATION, one.publication, one.source, one.kind)
    if one.to is not None:
        return (_MONITORED, one.source), publication, (_MONITORED, one.to)
    # Subscribers of several publications are one node, what is left of many is each publication's own.
    whose = publication if one.count > 1 else ()
    return (_MONITORED, one.source), publication, (_SUBSCRIBER, one.subscriber, *whose)


def _link(deliveries: Sequence[DeliveryPath]) -> Mapping[tuple[_Key, _Key], tuple[str, State]]:
    """Return the lines, each with its label and state: of a publication the worst of its subscriptions."""
    links: dict[tuple[_Key, _Key], tuple[str, State]] = {}
    for one in deliveries:
        source, publication, target = _keys(one)
        _, worst = links.get((source, publication), ("", State.HEALTHY))
        state = min(worst, one.severity, key=WORST_FIRST.index)
        links[source, publication] = f"{one.source} publishes {one.publication}", state
        title = f"{one.publication} from {one.source} to {one.subscriber}: {one.state}"
        links[publication, target] = title, one.severity
    return links


def _find_depths(deliveries: Sequence[DeliveryPath]) -> Mapping[_Key, int]:
    """Return the column of each node: right of all before it, where there is no ring."""
    depths: dict[_Key, int] = {}
    for one in deliveries:
        source, publication, target = _keys(one)
        depths[source] = 0
        depths.setdefault(publication, 1)
        depths.setdefault(target, 2)
    is_back = {one: one.to is not None and _leads(one.to, one.source, deliveries) for one in deliveries}
    for _ in range(len(depths)):
        before = dict(depths)
        for one in deliveries:
            source, publication, target = _keys(one)
            depths[publication] = depths[source] + 1
            if not is_back[one]:
                depths[target] = max(depths[target], depths[publication] + 1)
        if depths == before:
            break
    return depths


def _leads(start: str, end: str, deliveries: Sequence[DeliveryPath]) -> bool:
    """Return whether changes of a database come to another one."""
    reached, new = {start}, [start]
    while new:
        here = new.pop()
        for one in deliveries:
            if one.source == here and one.to is not None and one.to not in reached:
                reached.add(one.to)
                new.append(one.to)
    return end in reached


def _place(columns: Sequence[Sequence[_Key]], links: Iterable[tuple[_Key, _Key]]) -> Mapping[_Key, int]:
    """Return the height of each node: in the middle of those right of it, where there is room."""
    following: dict[_Key, list[_Key]] = {}
    for begin, end in links:
        following.setdefault(begin, []).append(end)
    placed: dict[_Key, int] = {}
    for column in reversed(columns):
        wanted: list[tuple[int, _Key]] = []
        for key in column:
            heights = [placed[one] for one in following.get(key, ()) if one in placed]
            wanted.append((sum(heights) // len(heights) if heights else len(wanted) * _ROW, key))
        free = 0
        for height, key in sorted(wanted, key=lambda one: one[0]):
            placed[key] = max(height, free)
            free = placed[key] + _ROW
    return placed


def _draw_edge(begin: GraphNode, end: GraphNode, title: str, state: State) -> Edge:
    y1, y2 = begin.y + _HEIGHT // 2, end.y + _HEIGHT // 2
    if end.x > begin.x:
        x1, x2 = begin.x + _WIDTH, end.x
        middle = (x1 + x2) // 2
        return Edge(f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}", title, state)
    # Back, as between databases that publish to each other: below the nodes.
    x1, x2 = begin.x + _WIDTH // 2, end.x + _WIDTH // 2
    y1, y2 = begin.y + _HEIGHT, end.y + _HEIGHT
    low = max(y1, y2) + _ROW // 2
    return Edge(f"M{x1},{y1} C{x1},{low} {x2},{low} {x2},{y2}", title, state)


def _summarise(deliveries: Sequence[DeliveryPath]) -> str:
    publications = len({(one.source, one.publication, one.kind) for one in deliveries})
    said = ", ".join(
        [
            _count(publications, "publication"),
            _count(len({one.source for one in deliveries}), "publisher"),
            _count(sum(one.count for one in deliveries), "subscription"),
        ]
    )
    failing = sum(one.severity is State.FAILING for one in deliveries)
    return f"{said}; {failing} failing" if failing else said


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


@frozen
class HeatCell:
    """A part of the time; `step` is 0 where nothing changed, up to 5 for the most, None where it is not known."""

    x: int
    step: int | None
    title: str


@frozen
class HeatRow:
    """The throughput of a table."""

    table: str
    y: int
    cells: tuple[HeatCell, ...]
    total: int
    highest_s: float


@frozen
class HeatStrip:
    """Changes of tables over a time, the busiest first."""

    rows: tuple[HeatRow, ...]
    width: int
    height: int
    summary: str
    cell_width: int = _CELL_WIDTH
    cell_height: int = _CELL_HEIGHT


def draw_heat(counters: Mapping[str, Sequence[Point]], begin: datetime, end: datetime) -> HeatStrip | None:
    """Return the strip of tables, given what was counted of each by the time; None if nothing changed, or is known.

    A counter that went back was begun again.
    """
    rates = {table: _rates(points, begin, end) for table, points in counters.items()}
    totals = {table: sum(changes for changes, _ in cells if changes is not None) for table, cells in rates.items()}
    busiest = sorted((table for table, total in totals.items() if total), key=lambda table: (-totals[table], table))
    if not busiest:
        return None
    shown = busiest[:_MOST_TABLES]
    highest = max(rate for table in shown for _, rate in rates[table] if rate is not None)
    length = (end - begin) / CELLS
    rows = tuple(
        HeatRow(
            table,
            number * (_CELL_HEIGHT + 4),
            tuple(
                HeatCell(place * _CELL_WIDTH, _step(rate, highest), _say(begin + place * length, rate))
                for place, (_, rate) in enumerate(rates[table])
            ),
            totals[table],
            max(rate for _, rate in rates[table] if rate is not None),
        )
        for number, table in enumerate(shown)
    )
    return HeatStrip(
        rows,
        CELLS * _CELL_WIDTH,
        len(rows) * (_CELL_HEIGHT + 4),
        f"Changes of {_count(len(rows), 'table')} in {round((end - begin).total_seconds() / 3600)} hours; the "
        f"busiest is {shown[0]}, with up to {format_rate(highest)}",
    )


def _rates(points: Sequence[Point], begin: datetime, end: datetime) -> Sequence[tuple[int | None, float | None]]:
    """Return the changes of each part of the time, and how many a second; None where nothing is known."""
    length_s = (end - begin).total_seconds() / CELLS
    changes: list[int | None] = [None] * CELLS
    seconds = [0.0] * CELLS
    known = [point for point in points if point.value is not None]
    for before, after in pairwise(known):
        place = math.floor((after.at - begin).total_seconds() / length_s)
        if 0 <= place < CELLS and before.value is not None and after.value is not None:
            grown = after.value - before.value
            changes[place] = (changes[place] or 0) + int(grown if grown >= 0 else after.value)
            seconds[place] += (after.at - before.at).total_seconds()
    return [
        (count, None if count is None else count / max(passed, 1e-9))
        for count, passed in zip(changes, seconds, strict=True)
    ]


def _step(rate: float | None, highest: float) -> int | None:
    """Return how dark a cell is: by the logarithm, so that a busy table does not hide the others."""
    if rate is None:
        return None
    if rate <= 0:
        return 0
    return max(1, math.ceil(_STEPS * math.log1p(rate) / math.log1p(highest)))


def _say(at: datetime, rate: float | None) -> str:
    return f"{at:%H:%M} UTC: {format_rate(rate) if rate is not None else 'not known'}"


def format_rate(rate: float) -> str:
    """Return a rate with its unit, by the hour where it is below one a minute."""
    if rate == 0:
        return "no changes"
    if rate < 1 / 60:
        return f"{rate * 3600:,.1f} changes an hour"
    return (
        f"{_count(round(rate), 'change')} a second" if rate >= 10 else f"{_count(round(rate * 60), 'change')} a minute"
    )
