"""Pages of conflicts: of all databases and of one, of a conflict, and of a cause with what a decision would do.

Values of rows are shown to those who may see them alone; to others a page has the columns that differ.
"""

from __future__ import annotations

import csv
import io
import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import merge
from itertools import islice
from typing import Any
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from rowtide.conflicts.errors import InboxConflictUnknown
from rowtide.conflicts.inbox import (
    Choice,
    ConflictDetail,
    ConflictGroup,
    ConflictSource,
    DecisionPreview,
    InboxConflict,
    InboxState,
    compare_versions,
    group,
)
from rowtide.core.errors import NotFound, RowtideError
from rowtide.core.values import frozen
from rowtide.monitor.inboxes import ANY, MOST_PREVIEWED, ConflictIndex, Inboxes, InboxReading
from rowtide.monitor.labels import without_users
from rowtide.monitor.web.access import HIDDEN_VALUE, Operating
from rowtide.monitor.web.api import to_json
from rowtide.monitor.web.database_pages import Render
from rowtide.monitor.web.guard import viewer_of
from rowtide.monitor.web.listing import PAGE_ROWS, Listed, choose_page

SECTION = "conflicts"
AGES = {
    "hour": ("the last hour", timedelta(hours=1), False),
    "day": ("the last day", timedelta(days=1), False),
    "older-day": ("older than a day", timedelta(days=1), True),
    "older-week": ("older than a week", timedelta(days=7), True),
}
"""How old conflicts are: a word of the query, what the page says, the age, and whether older ones are meant."""
_MOST_CAUSES = 50
_ROWS = frozenset({"key", "publisher_row", "subscriber_row", "base_row"})


@frozen
class ListedConflict:
    """A conflict in a list, with the database that keeps it."""

    database: str
    conflict: InboxConflict

    @property
    def path(self) -> str:
        """The path of its page."""
        return path_of(self.database, self.conflict.conflict_id)


@frozen
class ListedCause:
    """A cause of conflicts of a database."""

    database: str
    group: ConflictGroup

    @property
    def path(self) -> str:
        """The path of its page."""
        return path_of(self.database, self.group.cause)


@frozen
class Wanted:
    """Which conflicts a page lists, by its query: the words of filters, empty for any; open ones by default."""

    table: str
    kind: str
    age: str
    state: str
    cause: str

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Wanted:
        """Return what a query asks for; a word that is none is none."""
        age, state = query.get("age", ""), query.get("open", InboxState.OPEN)
        return cls(
            query.get("table", ""),
            query.get("kind", ""),
            age if age in AGES else "",
            state if state in (*InboxState, ANY) else InboxState.OPEN,
            query.get("cause", ""),
        )

    @property
    def given(self) -> Mapping[str, str]:
        """The query that asks for it."""
        words = {"table": self.table, "kind": self.kind, "age": self.age, "open": self.state, "cause": self.cause}
        return {name: word for name, word in words.items() if word and word != InboxState.OPEN}

    def select(
        self, database: str, index: ConflictIndex, text: str, now: datetime
    ) -> tuple[Sequence[InboxConflict], Sequence[ConflictGroup]]:
        """Return the conflicts that are wanted, oldest first, and their causes; `text` is what a search looks for."""
        found, causes = index.listed[self.state], index.causes[self.state]
        if self.table or self.kind or self.cause:
            found, causes = [one for one in found if self._is_of(one)], [one for one in causes if self._is_of(one)]
        if not self.age and not text:
            return found, causes
        if self.age:
            _, age, is_older = AGES[self.age]
            first = bisect_left(found, now - age, key=lambda one: one.created)
            found = found[:first] if is_older else found[first:]
        if text and text not in database.casefold():
            found = [one for one in found if text in index.texts[one.conflict_id]]
        return found, group(found)

    def _is_of(self, one: InboxConflict | ConflictGroup) -> bool:
        """Return whether a conflict or cause is of the table, kind and cause that are wanted."""
        return self.table in ("", one.table) and self.kind in ("", one.kind) and self.cause in ("", one.cause)


class ConflictPages:
    """Makes the pages of conflicts: of databases whose rows operators may read, for every viewer."""

    def __init__(
        self,
        list_databases: Callable[[], Sequence[str]],
        inboxes: Inboxes,
        render: Render,
        operating: Operating,
    ) -> None:
        self._list_databases = list_databases
        self._inboxes = inboxes
        self._render = render
        self._operating = operating

    def show_all(self, request: Request) -> Response:
        """Show the conflicts of all databases."""
        return self._show_list(request, self._list_databases(), title="Conflicts")

    def find(self, request: Request) -> Response:
        """Lead to a conflict by its id alone: to the first database that keeps it."""
        wanted = request.path_params["id"]
        for database, reading in self._read(self._list_databases()).items():
            for one in reading.conflicts if reading is not None else ():
                if wanted in (one.conflict_id, one.cause):
                    return RedirectResponse(path_of(database, wanted), status_code=303)
        raise HTTPException(404)

    def show_of(self, request: Request, database: str, rest: Sequence[str]) -> Response:
        """Show the conflicts of a database, or one of them, or a cause."""
        if not rest:
            return self._show_list(request, [database], title=database, database=database)
        if len(rest) > 1:
            raise HTTPException(404)
        reading = self._inboxes.read(database)
        if reading is None:
            raise HTTPException(404)
        (name,) = rest
        of_cause = reading.index.by_cause.get(name)
        return self._show_cause(request, database, of_cause) if of_cause else self._show_one(request, database, name)

    def describe(self, request: Request) -> Response:
        """Return a conflict with its columns, notes and who wrote its versions, as JSON."""
        database = request.path_params["name"]
        if database not in self._list_databases():
            raise HTTPException(404)
        try:
            detail = self._inboxes.show(database, request.path_params["id"])
        except RowtideError as error:
            status = 404 if isinstance(error, InboxConflictUnknown) else 409 if isinstance(error, NotFound) else 503
            return JSONResponse({"error": without_users(str(error))}, status_code=status)
        return JSONResponse(to_json(detail if self._sees(request) else _without_values(detail)))

    def _show_list(self, request: Request, databases: Sequence[str], **shown: Any) -> Response:
        everything = self._read(databases)
        read = {name: reading for name, reading in everything.items() if reading is not None}
        indexes = [reading.index for reading in read.values()]
        sees, query = self._sees(request), request.query_params
        wanted, text, now = Wanted.parse(query), query.get("q", "").strip(), datetime.now(UTC)
        selected = {name: wanted.select(name, reading.index, text.casefold(), now) for name, reading in read.items()}
        found = {name: several for name, (several, _) in selected.items()}
        if query.get("format") == "csv":
            return _download(_select(found), sees=sees)
        page = _list_page(found, query, wanted)
        causes = [ListedCause(name, one) for name, (_, several) in selected.items() for one in several]
        open_ones = [index.listed[InboxState.OPEN] for index in indexes]
        return self._render(
            request,
            "conflicts.html",
            listed=page,
            wanted=wanted,
            ages=AGES,
            causes=sorted(causes, key=lambda one: -one.group.conflicts)[:_MOST_CAUSES],
            tables=sorted({name for index in indexes for name in index.tables}),
            kinds=sorted({name for index in indexes for name in index.kinds}),
            total=sum(len(index.listed[ANY]) for index in indexes),
            open_count=sum(map(len, open_ones)),
            oldest=min((several[0].created for several in open_ones if several), default=None),
            read=read,
            unconnected=[name for name, reading in everything.items() if reading is None],
            csv_query="?" + urlencode({**wanted.given, "q": page.text, "format": "csv"}),
            sees=sees,
            has_databases=len(databases) > 1,
            **shown,
        )

    def _show_one(self, request: Request, database: str, conflict_id: str) -> Response:
        try:
            detail = self._inboxes.show(database, conflict_id)
        except InboxConflictUnknown as error:
            raise HTTPException(404) from error
        except RowtideError as error:
            return self._render(
                request, "conflict_unread.html", title=database, database=database, reason=without_users(str(error))
            )
        choice = _choice_of(request)
        return self._render(
            request,
            "conflict.html",
            title=f"Conflict in {detail.conflict.table}",
            database=database,
            one=detail.conflict,
            columns=detail.columns,
            notes=detail.notes,
            written=detail.written,
            choices=_choices(detail.conflict),
            **self._preview(request, database, conflict_id, choice),
        )

    def _show_cause(self, request: Request, database: str, conflicts: Sequence[InboxConflict]) -> Response:
        (cause,) = group(conflicts)
        # Open conflicts come first.
        ordered = sorted(conflicts, key=lambda one: one.state is not InboxState.OPEN)
        example = ordered[0]
        choice = _choice_of(request) if cause.open_conflicts else None
        return self._render(
            request,
            "cause.html",
            title=f"Conflicts in {cause.table}",
            database=database,
            cause=cause,
            example=example,
            columns=compare_versions(example),
            conflicts=[ListedConflict(database, one) for one in ordered[:MOST_PREVIEWED]],
            choices=_choices(example),
            **self._preview(request, database, cause.cause, choice),
        )

    def _preview(self, request: Request, database: str, name: str, choice: Choice | None) -> dict[str, Any]:
        """Return what a page shows of a decision; a preview takes locks for a moment: viewers do not make any."""
        sees = self._sees(request)
        previews: Sequence[DecisionPreview] = ()
        if choice is not None and sees:
            previews = self._inboxes.preview(database, name, choice)
        return {
            "sees": sees,
            "choice": choice if sees else None,
            "previews": previews,
            "path": path_of(database, name),
            # A preview is not repeated while its page is open.
            "refreshes": choice is None,
        }

    def _sees(self, request: Request) -> bool:
        """Return whether the viewer may see values of rows."""
        return self._operating.sees_values(viewer_of(request))

    def _read(self, databases: Sequence[str]) -> Mapping[str, InboxReading | None]:
        return {name: self._inboxes.read(name) for name in databases}


def _without_values(detail: ConflictDetail) -> ConflictDetail:
    """Return a conflict with values of rows hidden; which are absent, and which differ, stays visible."""

    def hide(value: str | None) -> str | None:
        return None if value is None else HIDDEN_VALUE

    one = detail.conflict
    return replace(
        detail,
        conflict=replace(
            one,
            key=hide(one.key),
            publisher_row=hide(one.publisher_row),
            subscriber_row=hide(one.subscriber_row),
            base_row=hide(one.base_row),
            reason=reason_of(one, sees=False),
        ),
        columns=tuple(
            replace(each, publisher=HIDDEN_VALUE, subscriber=HIDDEN_VALUE, base=HIDDEN_VALUE) for each in detail.columns
        ),
        notes=tuple(replace(note, note=hide(note.note)) for note in detail.notes),
    )


def path_of(database: str, name: str) -> str:
    """Return the path of a conflict's page, or of a cause's."""
    return f"/db/{quote(database, safe='')}/{SECTION}/{quote(name, safe='')}"


def reason_of(one: InboxConflict, sees: bool) -> str:  # noqa: FBT001 - a filter of templates
    """Return why a side won; why a database refused a row may name its values."""
    is_refusal = one.source is ConflictSource.MERGE and ("failed" in one.kind or "held" in one.kind)
    return HIDDEN_VALUE if is_refusal and not sees else one.reason


def format_key(text: str | None) -> str | None:
    """Return a key as a person reads it: a row's rowguid, or its columns with their values."""
    if text is None or not text.startswith(("{", "[")):
        return text
    key = json.loads(text)
    if isinstance(key, list):
        return ", ".join(str(value) for value in key)
    return ", ".join(f"{name} = {value}" for name, value in key.items())


_Selected = Mapping[str, Sequence[InboxConflict]]
"""The selected conflicts by database, each in order."""


def _select(selected: _Selected, begin: int = 0, end: int | None = None) -> Iterator[ListedConflict]:
    """Yield a slice of all conflicts, the oldest first."""
    if len(selected) == 1:
        # Most lists are of one database: a late page of thousands skips the earlier ones without iterating over them.
        ((name, several),) = selected.items()
        yield from (ListedConflict(name, one) for one in several[begin:end])
    else:
        named = (map(partial(ListedConflict, name), several) for name, several in selected.items())
        yield from islice(merge(*named, key=lambda one: one.conflict.created), begin, end)


def _list_page(selected: _Selected, query: Mapping[str, str], wanted: Wanted) -> Listed[ListedConflict]:
    """Return the page of conflicts that a query asks for."""
    count = sum(map(len, selected.values()))
    page, pages = choose_page(query, count)
    return Listed(
        rows=list(_select(selected, (page - 1) * PAGE_ROWS, page * PAGE_ROWS)),
        total=count,
        found=count,
        page=page,
        pages=pages,
        text=query.get("q", "").strip(),
        state="",
        states={},
        others=wanted.given,
    )


def _choice_of(request: Request) -> Choice | None:
    word = request.query_params.get("choice", "")
    return Choice(word) if word in set(Choice) else None


def _choices(one: InboxConflict) -> Sequence[tuple[Choice, str]]:
    """Return what can be decided about a conflict, in words."""
    if one.won is None:
        return [(Choice.PUBLISHER, "the publisher wins"), (Choice.SUBSCRIBER, "the subscriber wins")]
    return [(Choice.KEEP, f"keep the {one.won}'s"), (Choice.OTHERWISE, "decide otherwise")]


def _download(listed: Iterable[ListedConflict], *, sees: bool) -> Response:
    """Return conflicts as CSV, with the columns of `rowtide conflicts list`."""
    text = io.StringIO()
    writer = csv.writer(text)
    names = [one.name for one in fields(InboxConflict)]
    writer.writerow(["database", *names])
    writer.writerows([one.database, *_cells(one.conflict, names, sees=sees)] for one in listed)
    headers = {"Content-Disposition": 'attachment; filename="conflicts.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _cells(one: InboxConflict, names: Sequence[str], *, sees: bool) -> Iterator[str]:
    for name in names:
        value = getattr(one, name)
        if value is None:
            yield ""
        elif name in _ROWS and not sees:
            yield HIDDEN_VALUE
        elif name == "reason":
            yield reason_of(one, sees)
        else:
            yield value.isoformat() if isinstance(value, datetime) else str(value)
