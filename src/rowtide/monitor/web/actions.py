"""Actions by a browser or a program: confirmed, done once, and answered with the entry that the audit has.

A page offers an action as a link to `{base}/act/{path_of(kind)}?{arguments}`, by the macro `act` of `parts.html`, where
`may_act` says so. The link leads to an address with a new id, whose page says what the action does, and has its form: a
double click, or a repeat after going back, has the same id, and is answered with the same entry. A GET never acts.

The audit is read, and actions are done, through the operators' URL of a database: these are the requests that do not
answer from what polls have found.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from rowtide.actions.database_actions import Actions, parse_kind
from rowtide.actions.entries import (
    RETENTION_DAYS,
    ActionEntry,
    ActionKind,
    ActionOutcome,
    Channel,
    normalize_id,
)
from rowtide.actions.errors import ActionIdInvalid, ActionIdTaken, ActionIncomplete, ActionUnknown
from rowtide.core.errors import Denied, Invalid, NotFound, RowtideError
from rowtide.core.values import frozen
from rowtide.events.catalogue import ActionEnded
from rowtide.events.event import emit
from rowtide.monitor.labels import without_row_values, without_users
from rowtide.monitor.web.access import Operating, find_subscriber
from rowtide.monitor.web.api import to_json
from rowtide.monitor.web.database_pages import Render
from rowtide.monitor.web.guard import CSRF, FormProofs, is_own_site, read_body, read_form, viewer_of
from rowtide.monitor.web.listing import list_rows
from rowtide.monitor.web.offered_actions import OFFERED, accepted, command_of, kind_of

ACTION_ID, TYPED = "id", "typed"
IDEMPOTENCY_KEY = "idempotency-key"
_PATIENCE_S = 3.0
"""How long a request waits for the end of an action; after it, the page of its entry is shown, and shown again."""
_MOST_KEPT = 200
_MOST_LISTED = 500
_REFUSED = "refused"
"""An action that fails before it begins has no entry in the audit."""


@frozen
class _Asked:
    """A request for an action."""

    database: str
    kind: ActionKind
    arguments: Mapping[str, Any]
    action_id: str
    actor: str
    channel: Channel


class _Doing:
    """An action in a thread of its own, which may outlive its request."""

    def __init__(self, do: Callable[[], ActionEntry | None]) -> None:
        self.entry: ActionEntry | None = None
        self.failure: RowtideError | None = None
        self._do = do
        self._thread = threading.Thread(target=self._run, name="action", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for the end, up to the timeout of a request."""
        self._thread.join(_PATIENCE_S)

    @property
    def is_running(self) -> bool:
        """Whether it has no end yet."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.entry = self._do()
        except RowtideError as error:
            self.failure = error


class ActionPages:
    """The pages of actions and of the audit, and the same as JSON."""

    def __init__(self, operating: Operating, render: Render, list_names: Callable[[], Sequence[str]]) -> None:
        self._operating = operating
        self._render = render
        self._list_names = list_names
        self._proofs = FormProofs()
        self._doing: OrderedDict[str, _Doing] = OrderedDict()
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._starting = threading.Lock()

    def confirm(self, request: Request, name: str, segments: Sequence[str]) -> Response:
        """Show the confirmation of an action, with its form."""
        self._require_operator(request)
        kind = self._find_kind(name, segments)
        if ACTION_ID not in request.query_params:
            # The id is part of the address: a form that is sent twice, or again after a step back, names the same
            # action, which is done once.
            query = urlencode([*request.query_params.multi_items(), (ACTION_ID, str(uuid4()))])
            return RedirectResponse(f"{request.scope['raw_path'].decode('ascii')}?{query}", status_code=303)
        return self._show_form(request, name, kind, accepted(kind, request.query_params))

    async def act(self, request: Request, name: str, segments: Sequence[str]) -> Response:
        """Run the action of a form, and redirect to its entry of the audit."""
        self._require_operator(request)
        kind = self._find_kind(name, segments)
        form = await read_form(request)
        if not self._proofs.is_made_here(request, form):
            raise HTTPException(403)
        return await run_in_threadpool(self._act, request, name, kind, form)

    def _act(self, request: Request, name: str, kind: ActionKind, form: Mapping[str, str]) -> Response:
        arguments = accepted(kind, {**request.query_params, **form})
        action_id = request.query_params.get(ACTION_ID, "")
        wanted = self._typed_of(name, kind, arguments)
        if wanted is not None and form.get(TYPED, "") != wanted:
            return self._show_form(request, name, kind, arguments, is_mistyped=True)
        try:
            doing = self._start(_Asked(name, kind, arguments, normalize_id(action_id), _actor(request), Channel.WEB))
        except RowtideError as error:
            return self._show_refusal(request, name, error)
        doing.wait()
        if doing.failure is not None:
            return self._show_refusal(request, name, doing.failure)
        # Redirected: reloading the entry's page repeats nothing.
        return RedirectResponse(f"{_base(name)}/audit/{normalize_id(action_id)}", status_code=303)

    def show_audit(self, request: Request, name: str, segments: Sequence[str]) -> Response:
        """Show the entries of a database's audit, or one."""
        if len(segments) > 1:
            raise HTTPException(404)
        try:
            if not segments:
                return self._show_entries(request, name)
            entry = self._audit_of(name).find_entry(segments[0])
        except ActionIdInvalid as error:
            raise HTTPException(404) from error
        except RowtideError as error:
            return self._show_refusal(request, name, error, "The audit cannot be read")
        doing = self._doing.get(segments[0])
        if entry is None and doing is not None and doing.failure is not None:
            return self._show_refusal(request, name, doing.failure)
        is_running = doing is not None and doing.is_running
        if entry is None and not is_running:
            raise HTTPException(404)
        return self._render(
            request,
            "action_entry.html",
            title="Action",
            database=name,
            entry=self._show(request, (entry,))[0] if entry is not None else None,
            is_running=is_running,
            refreshes=is_running,
        )

    def _show_entries(self, request: Request, name: str) -> Response:
        listed = list_rows(
            self._audit_of(name).list_entries(limit=_MOST_LISTED),
            request.query_params,
            # A search sees only what the viewer sees.
            names=lambda one: (one.action, without_users(one.subject), one.actor),
            state=lambda one: one.outcome,
        )
        listed = replace(listed, rows=self._show(request, listed.rows))
        return self._render(
            request, "action_audit.html", title="Audit", database=name, listed=listed, most=_MOST_LISTED
        )

    async def post_action(self, request: Request) -> Response:
        """Run the action of a program's request: `{"action": ..., "arguments": {...}}`, with an Idempotency-Key."""
        self._require_operator(request)
        name = self._require_known(request.path_params["name"])
        # A page of another site cannot send this type without a CORS preflight, which fails.
        if not is_own_site(request) or request.headers.get("content-type", "").split(";")[0] != "application/json":
            raise HTTPException(415)
        body = await read_body(request)
        try:
            return await run_in_threadpool(self._post_action, request, name, body)
        except RowtideError as error:
            return JSONResponse({"error": str(error)}, status_code=_status_of(error))

    def _post_action(self, request: Request, name: str, body: bytes) -> Response:
        kind, arguments = _parse_asked(body)
        action_id = normalize_id(request.headers.get(IDEMPOTENCY_KEY, ""))
        doing = self._start(_Asked(name, kind, arguments, action_id, _actor(request), Channel.API))
        doing.wait()
        if doing.failure is not None:
            raise doing.failure
        entry = doing.entry or Actions(self._operating.get_url(name)).find_entry(action_id)
        if entry is None:
            return JSONResponse({"action_id": action_id, "outcome": ActionOutcome.BEGUN}, status_code=202)
        return JSONResponse(
            to_json(self._show(request, (entry,))[0]), status_code=202 if entry.ended_at is None else 200
        )

    def list_actions(self, request: Request) -> Response:
        """Return the entries of a database's audit."""
        name = self._require_known(request.path_params["name"])
        try:
            entries = self._show(request, self._audit_of(name).list_entries(limit=_MOST_LISTED))
        except RowtideError as error:
            return JSONResponse({"error": str(error)}, status_code=_status_of(error))
        return JSONResponse(to_json(entries))

    def _audit_of(self, name: str) -> Actions:
        """Return the audit of a database, read as operators, or as the monitor. Raises `OperatorUrlMissing`."""
        return Actions(self._operating.find_reading_url(name) or self._operating.get_url(name))

    def _show(self, request: Request, entries: Sequence[ActionEntry]) -> Sequence[ActionEntry]:
        """Return entries as a viewer sees them: without users of URLs, and of an error the number, unless they act."""
        write = without_users if self._operating.may_act(viewer_of(request)) else without_row_values
        return [
            replace(one, subject=without_users(one.subject), result=without_users(write(one.result or "")) or None)
            for one in entries
        ]

    def _start(self, asked: _Asked) -> _Doing:
        """Return the action of an id, begun now unless it was before. Raises what refuses it before it begins."""
        url = self._operating.get_url(asked.database)
        # Both requests of a double click wait for the same action: the second does not read an entry without an end.
        with self._starting:
            known = self._doing.get(asked.action_id)
            if known is not None and known.is_running:
                return known
            # Of one that has ended, the audit has the entry.
            doing = self._doing[asked.action_id] = _Doing(
                lambda: self._do(url, asked) if known is None else self._perform(url, asked)
            )
            while len(self._doing) > _MOST_KEPT:
                self._doing.popitem(last=False)
            return doing

    def count(self) -> Mapping[tuple[str, str, str], int]:
        """Return how many actions have ended, by database, action and result."""
        with self._starting:
            return dict(self._ended)

    def _do(self, url: str, asked: _Asked) -> ActionEntry | None:
        """Do an action, and count and report how it ends. Raises what refuses it before it begins."""
        try:
            entry = self._perform(url, asked)
        except RowtideError as error:
            self._report(asked, _REFUSED, error.number)
            raise
        if entry is not None and entry.ended_at is not None:
            self._report(asked, entry.outcome, entry.error_number)
        return entry

    def _perform(self, url: str, asked: _Asked) -> ActionEntry | None:
        arguments = dict(asked.arguments)
        if "subscriber" in arguments and "publication" in arguments:
            arguments["subscriber"] = find_subscriber(
                url, asked.kind, str(arguments["publication"]), str(arguments["subscriber"])
            )
        return Actions(url).perform(
            asked.kind,
            arguments,
            actor=asked.actor,
            channel=asked.channel,
            action_id=asked.action_id,
            keep_days=self._operating.audit_days.get(asked.database, RETENTION_DAYS),
        )

    def _report(self, asked: _Asked, outcome: str, number: int | None) -> None:
        with self._starting:
            self._ended[asked.database, asked.kind, outcome] += 1
        code = f"RT-{number}" if number is not None else ""
        emit(ActionEnded(asked.database, asked.kind, asked.actor, outcome, code))

    def _show_form(
        self,
        request: Request,
        name: str,
        kind: ActionKind,
        arguments: Mapping[str, str | bool],
        *,
        is_mistyped: bool = False,
    ) -> Response:
        page = self._render(
            request,
            "action_confirm.html",
            title=OFFERED[kind].label,
            database=name,
            kind=kind,
            offered=OFFERED[kind],
            arguments=arguments,
            command=command_of(kind, arguments, name),
            typed=self._typed_of(name, kind, arguments),
            is_mistyped=is_mistyped,
            hidden={CSRF: self._proofs.make(request)},
            refreshes=False,
        )
        page.status_code = 400 if is_mistyped else 200
        return page

    def _show_refusal(
        self, request: Request, name: str, error: RowtideError, title: str = "Nothing was done"
    ) -> Response:
        page = self._render(request, "action_refused.html", title=title, database=name, error=error, refreshes=False)
        page.status_code = _status_of(error)
        return page

    def _typed_of(self, name: str, kind: ActionKind, arguments: Mapping[str, str | bool]) -> str | None:
        typed = OFFERED[kind].typed
        return None if typed is None else name if typed == "database" else str(arguments.get(typed, ""))

    def _find_kind(self, name: str, segments: Sequence[str]) -> ActionKind:
        self._require_known(name)
        kind = kind_of(segments)
        if kind is None:
            raise HTTPException(404)
        return kind

    def _require_known(self, name: str) -> str:
        """Require a database that is monitored: one that was removed is not acted on. Raises `HTTPException`."""
        if name not in self._list_names():
            raise HTTPException(404)
        return name

    def _require_operator(self, request: Request) -> None:
        if not self._operating.may_act(viewer_of(request)):
            raise HTTPException(403)


def _parse_asked(body: bytes) -> tuple[ActionKind, Mapping[str, Any]]:
    try:
        asked = json.loads(body)
        action, arguments = asked["action"], asked.get("arguments", {})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ActionIncomplete("the action", "the body is no JSON object with `action` and `arguments`") from error
    if not isinstance(arguments, dict) or not all(isinstance(one, str | bool) for one in arguments.values()):
        raise ActionIncomplete(str(action), "arguments are texts, true or false")
    return parse_kind(str(action)), arguments


def _actor(request: Request) -> str:
    viewer = viewer_of(request)
    assert viewer is not None
    assert viewer.name is not None
    return viewer.name


def _base(name: str) -> str:
    return f"/db/{quote(name, safe='')}"


def _status_of(error: RowtideError) -> int:
    match error:
        case ActionIdTaken():
            return 409
        case ActionUnknown() | Invalid():
            return 400
        case NotFound() | Denied():
            return 409
        case _:
            return 503
