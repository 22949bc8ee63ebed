"""The pages of a database, made of its view and a day of samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from rowtide.core.values import frozen
from rowtide.diagnosis import Area, State
from rowtide.diagnosis.result import format_bytes, format_duration
from rowtide.monitor.gauge_series import TABLE_CHANGES, GaugeSeries, Point
from rowtide.monitor.views import DatabaseView, HopKind, Judgement, count_numbers, list_worst
from rowtide.monitor.views.states import WORST_FIRST
from rowtide.monitor.web.charts import MONITOR_ORDER, LineChart, draw_interval, state_of_instance
from rowtide.monitor.web.graphs import HeatStrip, draw_heat, draw_topology, list_deliveries
from rowtide.monitor.web.listing import PAGE_ROWS, list_rows

Show = Callable[[float], str]
"""Writes a value with its unit."""
_Draw = Callable[[Mapping[GaugeSeries, tuple[str, Show]]], Mapping[GaugeSeries, LineChart]]


class Render(Protocol):
    """Makes a page of a template."""

    def __call__(self, request: Request, template: str, **found: Any) -> Response: ...


@frozen
class Asked:
    """The request for a page of a database; `rest` are the segments of the path after the section."""

    view: DatabaseView
    rest: Sequence[str]
    query: Mapping[str, str]
    draw: _Draw
    read_points: Callable[[Collection[GaugeSeries]], Mapping[GaugeSeries, Sequence[Point]]]
    """Returns the samples of series between `begin` and `end`."""
    begin: datetime
    end: datetime


@frozen
class Shown:
    """A template, and what it shows."""

    template: str
    values: Mapping[str, Any]


def _way(asked: Asked) -> Shown:
    _require_no_more(asked)
    view = asked.view
    first = [hop for hop in view.way if hop.kind not in _READERS]
    readers = sorted((hop for hop in view.way if hop.kind in _READERS), key=lambda hop: WORST_FIRST.index(hop.state))
    hops = [*first, *readers[:_MOST_READERS]]
    wanted: dict[GaugeSeries, tuple[str, Show]] = {}
    for hop in hops:
        if hop.lag_series is not None:
            wanted[hop.lag_series] = ("Behind", format_duration)
        elif hop.bytes_series is not None:
            wanted[hop.bytes_series] = ("Size", format_bytes)
    return Shown(
        "database.html",
        {
            "hops": hops,
            "more_readers": len(readers) - _MOST_READERS,
            "charts": asked.draw(wanted),
            "strip": _draw_heat(asked),
            "judged": [one for one in view.judgements if one.state is not State.HEALTHY],
            "healthy": sum(one.state is State.HEALTHY for one in view.judgements),
        },
    )


def _draw_heat(asked: Asked) -> HeatStrip | None:
    """Return the throughput of tables, the busiest of those whose changes are counted."""
    series = {table: GaugeSeries(TABLE_CHANGES, (table,)) for table in asked.view.table_changes}
    if not series:
        return None
    points = asked.read_points([*series.values()])
    return draw_heat({table: points[one] for table, one in series.items()}, asked.begin, asked.end)


def _capture(asked: Asked) -> Shown:
    _require_no_more(asked)
    view, lag = asked.view, GaugeSeries("rowtide_capture_lag_seconds")
    listed = list_rows(
        sorted(view.capture.instances if view.capture is not None else (), key=lambda one: one.name),
        asked.query,
        names=lambda one: (one.name, f"{one.schema}.{one.table}"),
        state=state_of_instance,
    )
    return Shown(
        "capture.html",
        {
            "chart": asked.draw({lag: ("Behind", format_duration)}).get(lag),
            "listed": listed,
            "bars": {one.name: draw_interval(view, one) for one in listed.rows},
            "targets": sorted(view.targets, key=lambda one: (not one.is_stopped, -(one.lag_s or 0.0)))[:PAGE_ROWS],
            "judged": _of_areas(view, Area.LOG, Area.CAPTURE, Area.TABLES),
        },
    )


def _instance(asked: Asked) -> Shown:
    (name,) = asked.rest if len(asked.rest) == 1 else ("",)
    instances = asked.view.capture.instances if asked.view.capture is not None else ()
    found = next((one for one in instances if one.name == name), None)
    if found is None:
        raise HTTPException(404)
    targets = [one for one in asked.view.targets if one.instance == name]
    series = {GaugeSeries("rowtide_target_lag_seconds", (one.target, name)): one.target for one in targets}
    charts = asked.draw({one: (f"{target} behind", format_duration) for one, target in series.items()})
    return Shown(
        "instance.html",
        {
            "instance": found,
            "bar": draw_interval(asked.view, found),
            "consumers": [one for one in asked.view.consumers if one.name in found.consumers],
            "targets": targets,
            "charts": [*charts.values()],
        },
    )


def _replication(asked: Asked) -> Shown:
    if asked.rest:
        return _subscription(asked)
    view = asked.view
    subscriptions = [one for publication in view.publications for one in publication.subscriptions]
    return Shown(
        "replication.html",
        {
            "listed": list_rows(
                sorted(subscriptions, key=lambda one: (MONITOR_ORDER.index(one.monitor_state), one.publication)),
                asked.query,
                names=lambda one: (one.publication, one.subscriber),
                state=lambda one: one.monitor_state,
            ),
            "graph": draw_topology(list_deliveries([view])),
            "without": [one.name for one in view.publications if not one.subscriptions],
            "judged": _of_areas(view, Area.REPLICATION),
        },
    )


def _subscription(asked: Asked) -> Shown:
    found = next((one for one in asked.view.subscriptions if [one.publication, one.subscriber] == [*asked.rest]), None)
    if found is None:
        raise HTTPException(404)
    labels = (found.publication, found.subscriber)
    wanted: dict[GaugeSeries, tuple[str, Show]] = {
        GaugeSeries("rowtide_subscription_latency_seconds", labels): ("Latency", format_duration),
        GaugeSeries("rowtide_subscription_undelivered_bytes", labels): ("Not delivered", format_bytes),
    }
    errors = [one for one in asked.view.errors if (one.publication, one.subscriber) == labels]
    return Shown("subscription.html", {"one": found, "charts": [*asked.draw(wanted).values()], "errors": errors})


def _merge(asked: Asked) -> Shown:
    _require_no_more(asked)
    devices = [one for merge in asked.view.merges for one in list_worst(merge)]
    return Shown(
        "merge.html",
        {
            "listed": list_rows(
                devices,
                asked.query,
                names=lambda one: (one.subscriber, one.publication, one.partition or ""),
                state=lambda one: one.state,
            ),
            "judged": _of_areas(asked.view, Area.MERGE),
        },
    )


def _check(asked: Asked) -> Shown:
    _require_no_more(asked)
    listed = list_rows(
        asked.view.checks, asked.query, names=lambda one: (one.subject, one.message), state=lambda one: one.state
    )
    return Shown("check.html", {"listed": listed})


def _errors(asked: Asked) -> Shown:
    _require_no_more(asked)
    listed = list_rows(
        asked.view.errors,
        asked.query,
        names=lambda one: (one.number, one.publication or "", one.subscriber or ""),
        state=lambda one: one.source,
    )
    return Shown("errors.html", {"listed": listed, "counted": count_numbers(asked.view.errors)[:_MOST_READERS]})


def _of_areas(view: DatabaseView, *areas: Area) -> Sequence[Judgement]:
    """Return the unhealthy subjects of some areas, the worst first."""
    found = [one for one in view.judgements if one.area in areas and one.state is not State.HEALTHY]
    return sorted(found, key=lambda one: WORST_FIRST.index(one.state))


def _require_no_more(asked: Asked) -> None:
    """Require that a path ends with its section. Raises `HTTPException`."""
    if asked.rest:
        raise HTTPException(404)


_READERS = (HopKind.TARGET, HopKind.SUBSCRIBER, HopKind.DEVICES)
_MOST_READERS = 12

SECTIONS: Mapping[str, Callable[[Asked], Shown]] = {
    "": _way,
    "capture": _capture,
    "instances": _instance,
    "replication": _replication,
    "merge": _merge,
    "check": _check,
    "errors": _errors,
}
LABELS = {
    "": "Way of a change",
    "/capture": "Capture",
    "/replication": "Replication",
    "/merge": "Merge",
    "/conflicts": "Conflicts",
    "/check": "Check",
    "/errors": "Errors",
    "/audit": "Audit",
}
