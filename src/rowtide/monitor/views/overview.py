"""All databases on one page, the worst first, and what has changed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.monitor.views.database import DatabaseView
from rowtide.monitor.views.judgements import WORST_FIRST, Judgement, worst_of
from rowtide.monitor.views.way import HopKind


@frozen
class StateChange:
    """A subject whose state another poll found to be another; None: there was no such subject, or is none any more."""

    at: datetime
    database: str
    area: str
    subject: str
    before: State | None
    after: State | None
    message: str


@frozen
class DatabaseSummary:
    """A database in the overview; `state` is its worst, `worst` are the subjects that are not healthy, worst first.

    `counts` says how many subjects are in each state, `areas` the worst state of each area.
    """

    name: str
    state: State
    is_up: bool
    polled_at: datetime
    unknown_since: datetime | None
    reason: str | None
    counts: Mapping[State, int]
    areas: Mapping[str, State]
    worst: tuple[Judgement, ...]
    slowest_s: float | None
    """The longest lag on the way of its changes, devices aside."""


@frozen
class Overview:
    """All databases, the worst first; `totals` counts databases by their states, `changes` are newest first."""

    databases: tuple[DatabaseSummary, ...]
    totals: Mapping[State, int]
    changes: tuple[StateChange, ...]


def make_overview(views: Iterable[DatabaseView], changes: Iterable[StateChange] = ()) -> Overview:
    """Return the overview of what the last poll of each database has found."""
    summaries = sorted(map(summarize, views), key=lambda one: (WORST_FIRST.index(one.state), one.name))
    counted = Counter(one.state for one in summaries)
    return Overview(
        tuple(summaries),
        {state: counted[state] for state in State},
        tuple(sorted(changes, key=lambda change: change.at, reverse=True)),
    )


def summarize(view: DatabaseView) -> DatabaseSummary:
    """Return a database as the overview shows it."""
    counted = Counter(one.state for one in view.judgements)
    by_area: dict[str, list[Judgement]] = {}
    for one in view.judgements:
        by_area.setdefault(one.area, []).append(one)
    lags = [hop.lag_s for hop in view.way if hop.lag_s is not None and hop.kind is not HopKind.DEVICES]
    unhealthy = [one for one in view.judgements if one.state is not State.HEALTHY]
    return DatabaseSummary(
        name=view.name,
        state=worst_of(view.judgements),
        is_up=view.is_up,
        polled_at=view.polled_at,
        unknown_since=view.unknown_since,
        reason=view.reason,
        counts={state: counted[state] for state in State},
        areas={area: worst_of(judged) for area, judged in by_area.items()},
        worst=tuple(sorted(unhealthy, key=lambda one: WORST_FIRST.index(one.state))),
        slowest_s=max(lags, default=None),
    )


def find_changes(before: DatabaseView, after: DatabaseView) -> Iterator[StateChange]:
    """Yield the subjects whose states differ between two polls of a database.

    Where one of them could not read the database, that alone has changed: of its subjects nothing is known.
    """
    if not (before.is_up and after.is_up):
        if before.is_up != after.is_up:
            was, now = (State.HEALTHY, State.FAILING) if before.is_up else (State.FAILING, State.HEALTHY)
            message = after.reason or "it can be read again"
            yield StateChange(after.polled_at, after.name, "database", "database", was, now, message)
        return
    known = {(one.area, one.subject): one for one in before.judgements}
    found = {(one.area, one.subject): one for one in after.judgements}
    for key, one in {**known, **found}.items():
        old = known[key].state if key in known else None
        new = found[key].state if key in found else None
        if old is not new:
            yield StateChange(after.polled_at, after.name, one.area, one.subject, old, new, one.message)
