"""The pages: which there are, and what each is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from rowtide.diagnosis import Area, State
from rowtide.diagnosis.result import format_bytes, format_duration
from rowtide.monitor.exposition import Polled
from rowtide.monitor.polling import Readiness
from rowtide.monitor.ring import HistoricSample, Ring
from rowtide.monitor.views import DatabaseView, Judgement, MergeSubscriptionView, SubscriptionView, count_states
from rowtide.monitor.web.access import COOKIE, SESSION_S, Access
from rowtide.monitor.web.api import PREFIX, Api
from rowtide.monitor.web.guard import SIGN_IN, viewer_of
from rowtide.monitor.web.listing import Listed, list_rows
from rowtide.monitor.web.summaries import (
    DAY,
    WORST_FIRST,
    database_path,
    draw_series,
    follow_change,
    judgements_worst_first,
    severity,
    summarise,
)

_FOLDER = Path(__file__).parent
_MOST_FORM_BYTES = 4096


class Polls(Protocol):
    """What polls have found; see `Polling`."""

    @property
    def is_alive(self) -> bool:
        """Whether every database is still polled."""
        ...

    def list_polled(self) -> Sequence[Polled]:
        """Return what is known of each database that was polled."""
        ...

    def list_readiness(self) -> Mapping[str, Readiness]:
        """Return how long ago each database was read."""
        ...


class Pages:
    """Makes the pages of what polls have found; no request reads a database."""

    def __init__(self, polling: Polls, ring: Ring, access: Access) -> None:
        self._polling = polling
        self._ring = ring
        self._access = access
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "bytes": _unless_none(format_bytes),
            "duration": _unless_none(format_duration),
            "count": _unless_none(lambda value: f"{value:,.0f}"),
            "time": _unless_none(lambda at: f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"),
            "milliseconds": lambda seconds: f"{seconds * 1000:,.0f} ms",
            "words": lambda name: name.replace("_", " "),
            "severity": severity,
            "states": lambda merge: count_states(merge).items(),
        }

    def routes(self) -> list[BaseRoute]:
        """Return the routes of all pages."""
        return [
            *Api(self._views).routes(),
            Route("/", self.show_overview),
            Route("/db/{rest:path}", self.show_database),
            Route(SIGN_IN, self.show_sign_in, methods=["GET"]),
            Route(SIGN_IN, self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Mount("/static", StaticFiles(directory=_FOLDER / "static")),
        ]

    def show_overview(self, request: Request) -> Response:
        """Show all databases, the worst first."""
        summaries = sorted(
            (summarise(name, view) for name, view in self._views().items()),
            key=lambda one: (WORST_FIRST.index(one.state), one.name),
        )
        totals = Counter(one.state for one in summaries)
        return self._render(
            request,
            "overview.html",
            title="Databases",
            summaries=summaries,
            totals=[(one, totals[one]) for one in WORST_FIRST],
        )

    def show_database(self, request: Request) -> Response:
        """Show a page of a database, which the segments of the path name."""
        name, *section = _segments(request)
        views = self._views()
        show = _SECTIONS.get(tuple(section))
        if name not in views or show is None:
            raise HTTPException(404)
        view = views[name]
        if view is None:
            return self._render(request, "not_polled.html", title=name, database=name)
        samples = self._ring.list_samples(name, datetime.now(UTC) - DAY)
        template, found = show(view, samples, request)
        return self._render(request, template, title=name, database=name, view=view, **found)

    def show_sign_in(self, request: Request) -> Response:
        """Show where a browser says its token."""
        return self._render(request, "sign_in.html", title="Sign in", is_refused=False, refreshes=False)

    async def sign_in(self, request: Request) -> Response:
        """Begin the session of a browser."""
        form = await _read_form(request)
        cookie = self._access.begin_session(form.get("token", ""))
        if cookie is None:
            page = self._render(request, "sign_in.html", title="Sign in", is_refused=True, refreshes=False)
            page.status_code = 403
            return page
        answer = RedirectResponse(_own_path(request.query_params.get("next", "/")), status_code=303)
        is_secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
        answer.set_cookie(
            COOKIE, cookie, max_age=int(SESSION_S), httponly=True, samesite="strict", secure=is_secure, path="/"
        )
        return answer

    async def sign_out(self, _request: Request) -> Response:
        """End the session of a browser."""
        answer = RedirectResponse(SIGN_IN, status_code=303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def show_error(self, request: Request, error: Exception) -> Response:
        """Show why there is no page."""
        code = error.status_code if isinstance(error, HTTPException) else 500
        if request.url.path.startswith(PREFIX):
            return JSONResponse({"error": _REASONS.get(code, "Not answered")}, status_code=code)
        page = self._render(request, "error.html", title=_REASONS.get(code, "Not answered"), code=code, refreshes=False)
        page.status_code = code
        return page

    def _views(self) -> dict[str, DatabaseView | None]:
        polled = {one.view.name: one.view for one in self._polling.list_polled()}
        return {name: polled.get(name) for name in self._polling.list_readiness()}

    def _render(self, request: Request, template: str, **found: Any) -> Response:
        name = found.get("database")
        base = database_path(name) if name is not None else "/"
        sections = [(label, base + path) for path, label in _LABELS.items()] if name is not None else []
        raw = request.scope["raw_path"].decode("ascii")
        content = self._templates.get_template(template).render(
            {
                "refreshes": True,
                "database": None,
                "base": base,
                "sections": sections,
                "here": raw,
                "query": f"?{request.url.query}" if request.url.query else "",
                "viewer": viewer_of(request),
                "signs_out": COOKIE in request.cookies,
                "version": version("rowtide"),
                "now": datetime.now(UTC),
                "WORST_FIRST": WORST_FIRST,
                **found,
            }
        )
        return HTMLResponse(content)


Shown = tuple[str, Mapping[str, Any]]
"""A template and what it shows."""
_Show = Callable[[DatabaseView, Sequence[HistoricSample], Request], Shown]


def _way(view: DatabaseView, samples: Sequence[HistoricSample], _request: Request) -> Shown:
    judged = judgements_worst_first(view)
    return "database.html", {
        "hops": follow_change(view, samples, datetime.now(UTC)),
        "judged": [one for one in judged if one.state is not State.HEALTHY],
        "healthy": sum(one.state is State.HEALTHY for one in judged),
    }


def _capture(view: DatabaseView, samples: Sequence[HistoricSample], request: Request) -> Shown:
    now = datetime.now(UTC)
    return "capture.html", {
        "chart": draw_series(samples, now, "rowtide_capture_lag_seconds", "Behind", format_duration),
        "listed": list_rows(
            sorted(view.targets, key=lambda one: (not one.is_stopped, one.target, one.instance)),
            request.query_params,
            names=lambda one: (one.target, one.instance),
            state=lambda one: "stopped" if one.is_stopped else "applied",
        ),
        "judged": _of_areas(view, Area.LOG, Area.CAPTURE, Area.TABLES),
    }


def _replication(view: DatabaseView, _samples: Sequence[HistoricSample], request: Request) -> Shown:
    return "replication.html", {
        "listed": _list_subscriptions(view.subscriptions, request),
        "judged": _of_areas(view, Area.REPLICATION),
    }


def _merge(view: DatabaseView, _samples: Sequence[HistoricSample], request: Request) -> Shown:
    devices = [one for merge in view.merges for one in merge.subscriptions]
    return "merge.html", {"listed": _list_subscriptions(devices, request), "judged": _of_areas(view, Area.MERGE)}


def _check(view: DatabaseView, _samples: Sequence[HistoricSample], _request: Request) -> Shown:
    return "check.html", {"judged": judgements_worst_first(view)}


_Subscribed = TypeVar("_Subscribed", SubscriptionView, MergeSubscriptionView)


def _list_subscriptions(rows: Sequence[_Subscribed], request: Request) -> Listed[_Subscribed]:
    return list_rows(
        sorted(rows, key=lambda one: (WORST_FIRST.index(severity(one.state)), one.publication, one.subscriber)),
        request.query_params,
        names=lambda one: (one.publication, one.subscriber),
        state=lambda one: one.state,
    )


def _of_areas(view: DatabaseView, *areas: Area) -> Sequence[Judgement]:
    """Return what is not healthy of some areas."""
    return [one for one in judgements_worst_first(view) if one.area in areas and one.state is not State.HEALTHY]


_SECTIONS: Mapping[tuple[str, ...], _Show] = {
    (): _way,
    ("capture",): _capture,
    ("replication",): _replication,
    ("merge",): _merge,
    ("check",): _check,
}
_LABELS = {
    "": "Way of a change",
    "/capture": "Capture",
    "/replication": "Replication",
    "/merge": "Merge",
    "/check": "Check",
}
_REASONS = {404: "There is no such page", 405: "A page is only read", 500: "The monitor failed"}


def _segments(request: Request) -> list[str]:
    """Return the segments of the path after /db: a name with a slash is one segment of the path as it was sent."""
    raw: bytes = request.scope["raw_path"]
    return [unquote(segment) for segment in raw.decode("ascii").split("?")[0].split("/")[2:]]


def _own_path(path: str) -> str:
    """Return a path of this monitor; another address would lead a browser that has just signed in elsewhere."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_own and path.isprintable() else "/"


async def _read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a small form. Raises `HTTPException` of a longer one."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_FORM_BYTES:
            raise HTTPException(413)
    return {name: values[-1] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}


def _unless_none(show: Callable[[Any], str]) -> Callable[[Any], str]:
    def shown(value: Any) -> str:
        return "unknown" if value is None else show(value)

    return shown
