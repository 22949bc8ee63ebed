"""The pages of the monitor: routes and rendering."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from rowtide.core.errors import find_classes
from rowtide.diagnosis.result import format_bytes, format_duration
from rowtide.monitor.exposition import Polled
from rowtide.monitor.gauge_series import GaugeSeries
from rowtide.monitor.inboxes import Inboxes
from rowtide.monitor.polling import Readiness
from rowtide.monitor.ring import Ring
from rowtide.monitor.views import (
    DatabaseView,
    count_states,
    make_overview,
)
from rowtide.monitor.views.states import WORST_FIRST
from rowtide.monitor.web.access import COOKIE, SESSION_S, Access, Operating
from rowtide.monitor.web.actions import ActionPages
from rowtide.monitor.web.api import PREFIX, Api
from rowtide.monitor.web.charts import LineChart, draw_line, severity, state_of_instance
from rowtide.monitor.web.conflicts import SECTION as CONFLICTS, ConflictPages, format_key, reason_of
from rowtide.monitor.web.database_pages import LABELS, SECTIONS, Asked, Show
from rowtide.monitor.web.graphs import draw_topology, format_rate, list_deliveries
from rowtide.monitor.web.guard import SIGN_IN, read_form, viewer_of

_FOLDER = Path(__file__).parent
DAY = timedelta(hours=24)
_MOST_CHANGES = 20


class _Names(Convertor[str]):
    """The rest of a path, whose names may have newlines."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("names", _Names())


class Polls(Protocol):
    """The results of polls; see `Polling`."""

    @property
    def is_alive(self) -> bool:
        """Whether every database is still polled."""
        ...

    def list_polled(self) -> Sequence[Polled]:
        """Return the view of each database that was polled."""
        ...

    def list_readiness(self) -> Mapping[str, Readiness]:
        """Return how long ago each database was read."""
        ...


class Pages:
    """Serves pages of the results of polls; only requests of operators read a database."""

    def __init__(
        self,
        polls: Polls,
        ring: Ring,
        access: Access,
        operating: Operating,
        inboxes: Inboxes,
    ) -> None:
        self._polls = polls
        self._conflicts = ConflictPages(lambda: [*polls.list_readiness()], inboxes, self._render, operating)
        self._ring = ring
        # Read once: it is parsed from the metadata of the installed package.
        self._version = version("rowtide")
        self._access = access
        self._operating = operating
        self._actions = ActionPages(operating, self._render, lambda: [*polls.list_readiness()])
        # Sections that operators' connections read, beside those of what polls have found.
        self._operated = {
            CONFLICTS: self._conflicts.show_of,
            "act": self._actions.confirm,
            "audit": self._actions.show_audit,
        }
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            # Templates do not change while the monitor runs; checking for changes would read the times of all files for
            # each page.
            auto_reload=False,
        )
        self._templates.filters |= {
            "bytes": _unless_none(format_bytes),
            "duration": _unless_none(format_duration),
            "count": _unless_none(lambda value: f"{value:,.0f}"),
            "time": _unless_none(lambda at: f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"),
            "words": lambda name: name.replace("_", " "),
            "segment": lambda text: quote(text, safe=""),
            "manual": lambda number: f"/manual/{number}",
            "skew": lambda seconds: format_duration(abs(seconds)),
            "instance_state": state_of_instance,
            "severity": severity,
            "rate": format_rate,
            "reason": reason_of,
            "key": format_key,
            "states": lambda merge: count_states(merge).items(),
        }

    def count_actions(self) -> Mapping[tuple[str, str, str], int]:
        """Return how many actions have ended here, by database, action and result."""
        return self._actions.count()

    def routes(self) -> list[BaseRoute]:
        """Return the routes of all pages."""
        return [
            Route(f"{PREFIX}/databases/{{name:names}}/actions", self._actions.post_action, methods=["POST"]),
            Route(f"{PREFIX}/databases/{{name:names}}/actions", self._actions.list_actions),
            Route(f"{PREFIX}/databases/{{name:names}}/conflicts/{{id}}", self._conflicts.describe),
            *Api(self._views).routes(),
            Route("/", self.show_overview),
            Route("/topology", self.show_topology),
            Route(f"/{CONFLICTS}", self._conflicts.show_all),
            Route(f"/{CONFLICTS}/{{id}}", self._conflicts.find),
            Route("/db/{rest:names}", self.show_database, methods=["GET"]),
            Route("/db/{rest:names}", self.act, methods=["POST"]),
            Route("/manual/RT-{number:int}", self.show_manual),
            Route(SIGN_IN, self.show_sign_in, methods=["GET"]),
            Route(SIGN_IN, self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
            Mount("/static", StaticFiles(directory=_FOLDER / "static")),
        ]

    def show_overview(self, request: Request) -> Response:
        """Show all databases, the worst first."""
        polled = self._polls.list_polled()
        overview = make_overview((one.view for one in polled), (change for one in polled for change in one.changes))
        known = {one.view.name for one in polled}
        return self._render(
            request,
            "overview.html",
            title="Databases",
            overview=overview,
            not_polled=[name for name in self._polls.list_readiness() if name not in known],
            shown_changes=overview.changes[:_MOST_CHANGES],
        )

    def show_topology(self, request: Request) -> Response:
        """Show who delivers to whom, of all databases."""
        views = [one.view if one.view.is_up else one.last_read or one.view for one in self._polls.list_polled()]
        graph = draw_topology(list_deliveries(views))
        return self._render(request, "topology.html", title="Topology", graph=graph)

    def show_database(self, request: Request) -> Response:
        """Show a page of a database, which the segments of the path name."""
        name, *section = _segments(request)
        named = section[0] if section else ""
        if name not in self._polls.list_readiness():
            raise HTTPException(404)
        if named in self._operated:
            return self._operated[named](request, name, section[1:])
        show = SECTIONS.get(named)
        if show is None:
            raise HTTPException(404)
        polled = next((one for one in self._polls.list_polled() if one.view.name == name), None)
        if polled is None:
            return self._render(request, "not_polled.html", title=name, database=name)
        # While a database cannot be read, its pages show the last results, and say since when.
        view = polled.view if polled.view.is_up else polled.last_read or polled.view
        end = datetime.now(UTC)
        begin = end - DAY
        found = show(
            Asked(
                view,
                section[1:],
                request.query_params,
                partial(self._draw, name),
                lambda wanted: self._ring.list_points(name, wanted, begin),
                begin,
                end,
            )
        )
        return self._render(
            request, found.template, title=name, database=name, now_view=polled.view, view=view, **found.values
        )

    async def act(self, request: Request) -> Response:
        """Run the action of a form."""
        name, *section = _segments(request)
        if section[:1] != ["act"]:
            raise HTTPException(405)
        return await self._actions.act(request, name, section[1:])

    def _draw(self, database: str, wanted: Mapping[GaugeSeries, tuple[str, Show]]) -> Mapping[GaugeSeries, LineChart]:
        """Return the lines of a day of those series that have points; each has a name and what writes its values."""
        end = datetime.now(UTC)
        begin = end - DAY
        points = self._ring.list_points(database, wanted, begin)
        lines = {one: draw_line(points[one], begin, end, *said) for one, said in wanted.items()}
        return {one: line for one, line in lines.items() if line is not None}

    def show_manual(self, request: Request) -> Response:
        """Show what an error means, and what to do about it."""
        number = request.path_params["number"]
        found = [
            {"name": one.__name__, "meaning": inspect.getdoc(one) or "", "fact": one.fact, "hint": one.hint}
            for one in find_classes(number)
        ]
        if not found:
            raise HTTPException(404)
        return self._render(request, "manual.html", title=f"RT-{number}", found=found, refreshes=False)

    def show_sign_in(self, request: Request) -> Response:
        """Show the form for a token."""
        return self._render(request, "sign_in.html", title="Sign in", is_refused=False, refreshes=False)

    async def sign_in(self, request: Request) -> Response:
        """Sign in: start the session of a browser."""
        form = await read_form(request)
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
        """Sign out."""
        answer = RedirectResponse(SIGN_IN, status_code=303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    def show_error(self, request: Request, error: Exception) -> Response:
        """Show the page of an HTTP error."""
        code = error.status_code if isinstance(error, HTTPException) else 500
        if request.url.path.startswith(PREFIX):
            return JSONResponse({"error": _REASONS.get(code, "Not answered")}, status_code=code)
        page = self._render(request, "error.html", title=_REASONS.get(code, "Not answered"), code=code, refreshes=False)
        page.status_code = code
        return page

    def _views(self) -> dict[str, DatabaseView | None]:
        polled = {one.view.name: one.view for one in self._polls.list_polled()}
        return {name: polled.get(name) for name in self._polls.list_readiness()}

    def _render(self, request: Request, template: str, **found: Any) -> Response:
        name = found.get("database")
        base = f"/db/{quote(name, safe='')}" if name is not None else "/"
        sections = [(label, base + path) for path, label in LABELS.items()] if name is not None else []
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
                "may_act": self._operating.may_act(viewer_of(request)),
                "signs_out": COOKIE in request.cookies,
                "version": self._version,
                "WORST_FIRST": WORST_FIRST,
                **found,
            }
        )
        return HTMLResponse(content)


_REASONS = {
    403: "This is for operators, where the monitor allows actions",
    404: "There is no such page",
    405: "A page is only read",
    500: "The monitor failed",
}


def _segments(request: Request) -> list[str]:
    """Return the segments of the path after /db: a name with a slash is one segment of the path as it was sent."""
    raw: bytes = request.scope["raw_path"]
    return [unquote(segment) for segment in raw.decode("ascii").split("?")[0].split("/")[2:]]


def _own_path(path: str) -> str:
    """Return a path of this monitor, else the first page: no open redirect after signing in."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if is_own and path.isprintable() else "/"


def _unless_none(show: Callable[[Any], str]) -> Callable[[Any], str]:
    def shown(value: Any) -> str:
        return "unknown" if value is None else show(value)

    return shown
