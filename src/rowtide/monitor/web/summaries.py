"""What pages say of databases, made of the views of their last polls and of a day of samples. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.diagnosis.result import format_bytes, format_duration
from rowtide.monitor.ring import HistoricSample
from rowtide.monitor.views import DatabaseView, Judgement
from rowtide.monitor.web.charts import LineChart, draw_line

WORST_FIRST = tuple(State)
DAY = timedelta(hours=24)


@frozen
class DatabaseSummary:
    """A database on the first page: its state is the worst of its subjects, failing where it cannot be read."""

    name: str
    path: str
    state: State
    view: DatabaseView | None
    worst: tuple[Judgement, ...]
    counts: Mapping[State, int]


def summarise(name: str, view: DatabaseView | None, *, most: int = 3) -> DatabaseSummary:
    """Return what the first page says of a database; without a view it was not polled yet."""
    judged = judgements_worst_first(view) if view is not None else ()
    return DatabaseSummary(
        name=name,
        path=database_path(name),
        state=judged[0].state if judged else State.UNKNOWN,
        view=view,
        worst=tuple(one for one in judged if one.state is not State.HEALTHY)[:most],
        counts=Counter(one.state for one in judged),
    )


def judgements_worst_first(view: DatabaseView) -> tuple[Judgement, ...]:
    """Return what `health` says of each subject, the worst first."""
    return tuple(sorted(view.judgements, key=lambda one: (WORST_FIRST.index(one.state), one.area, one.subject)))


_SEVERITIES = {
    **dict.fromkeys(("deactivated", "failed", "expired"), State.FAILING),
    **dict.fromkeys(("expiring", "retrying", "never_run", "stopped", "late", "paused"), State.WARNING),
    **dict.fromkeys(("never_synchronised", "rows_refused"), State.WARNING),
    "healthy": State.HEALTHY,
}


def severity(state: str) -> State:
    """Return how bad a state of a subscription is: of `SUBSCRIPTION_STATES` or `MERGE_STATES`."""
    return _SEVERITIES[state]


def database_path(name: str) -> str:
    """Return the path of a database's page; a name may have any character."""
    return f"/db/{quote(name, safe='')}"


@frozen
class Hop:
    """A place that a change passes: how far it is behind, and what else is known of it, as names and texts.

    `lag_s` is None where it is not known; `chart` is its line of a day.
    """

    title: str
    state: State | None
    facts: tuple[tuple[str, str], ...]
    lag_s: float | None = None
    chart: LineChart | None = None
    path: str | None = None


def follow_change(view: DatabaseView, samples: Sequence[HistoricSample], now: datetime) -> tuple[Hop, ...]:
    """Return the way of a change: server log, reader, log store, capture, then those who read."""
    states = _states(view)
    base = database_path(view.name)

    def chart(metric: str, name: str, show: Callable[[float], str], *labels: str) -> LineChart | None:
        return draw_series(samples, now, metric, name, show, *labels)

    hops: list[Hop] = []
    if view.log is not None:
        slot = view.log.slot
        hops.append(
            Hop(
                "Server log",
                states("server", "slot"),
                (
                    *((("slot", slot.name), ("status", slot.wal_status)) if slot is not None else ()),
                    *_facts(
                        ("kept for the slot", slot.retained_bytes if slot is not None else None, format_bytes),
                        ("until the slot is at risk", slot.safe_bytes if slot is not None else None, format_bytes),
                        ("oldest transaction", max(view.oldest_transactions_s.values(), default=None), format_duration),
                    ),
                ),
                chart=chart("rowtide_slot_retained_wal_bytes", "Kept for the slot", format_bytes, slot.name)
                if slot is not None
                else None,
            )
        )
        hops.append(
            Hop(
                "Log reader",
                states("log", ""),
                (*_runs(view, "log_reader"), *_facts(("not read yet", view.log.lag_bytes, format_bytes))),
                view.log.lag_s,
                chart("rowtide_log_read_lag_seconds", "Behind", format_duration),
            )
        )
        hops.append(
            Hop(
                "Log store",
                None,
                _facts(
                    ("size", view.log.store_bytes, format_bytes),
                    ("not captured yet", view.log.unread_bytes, format_bytes),
                ),
                chart=chart("rowtide_log_store_bytes", "Size", format_bytes),
            )
        )
    if view.capture is not None:
        hops.append(
            Hop(
                "Capture",
                states("capture", ""),
                (
                    *_runs(view, "capture"),
                    *_facts(("recorded gaps", view.capture.gaps, str)),
                    *((("snapshots at work", str(len(view.capture.copying))),) if view.capture.copying else ()),
                ),
                view.capture.lag_s,
                chart("rowtide_capture_lag_seconds", "Behind", format_duration),
                f"{base}/capture",
            )
        )
    if view.targets or view.consumers:
        lags = [one.lag_s for one in view.targets if one.lag_s is not None] + [one.lag_s for one in view.consumers]
        hops.append(
            Hop(
                "Targets and consumers",
                State.FAILING if any(one.is_stopped for one in view.targets) else None,
                (("tables of targets", str(len(view.targets))), ("consumers", str(len(view.consumers)))),
                max(lags, default=None),
                path=f"{base}/capture",
            )
        )
    if view.subscriptions:
        late = [one.latency_s for one in view.subscriptions if one.latency_s is not None]
        hops.append(
            Hop(
                "Subscribers",
                states("replication", "subscription"),
                (
                    ("subscriptions", str(len(view.subscriptions))),
                    ("not delivered yet", format_bytes(max(one.undelivered_bytes for one in view.subscriptions))),
                ),
                max(late, default=None),
                path=f"{base}/replication",
            )
        )
    if view.merges:
        ages = [one.sync_age_s for merge in view.merges for one in merge.subscriptions if one.sync_age_s is not None]
        hops.append(
            Hop(
                "Devices",
                states("merge", ""),
                (
                    ("subscriptions", str(sum(len(merge.subscriptions) for merge in view.merges))),
                    ("open conflicts", str(sum(merge.conflicts_open for merge in view.merges))),
                    *_facts(("longest without synchronising", max(ages, default=None), format_duration)),
                ),
                path=f"{base}/merge",
            )
        )
    return tuple(hops)


def draw_series(
    samples: Iterable[HistoricSample], now: datetime, metric: str, name: str, show: Callable[[float], str], *labels: str
) -> LineChart | None:
    """Return the line of a gauge over the last day; None if there is no sample of it."""
    key = "\n".join((metric, *labels))
    points = [(one.at, one.values[key]) for one in samples if key in one.values]
    return draw_line(points, now - DAY, now, name, show)


def _states(view: DatabaseView) -> Callable[[str, str], State | None]:
    """Return what finds the worst state of an area's subjects that begin with a text."""

    def find(area: str, subject: str) -> State | None:
        found = [one.state for one in view.judgements if one.area == area and one.subject.startswith(subject)]
        return min(found, key=WORST_FIRST.index, default=None)

    return find


def _facts(*given: tuple[str, float | None, Callable[[float], str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, show(value)) for name, value, show in given if value is not None)


def _runs(view: DatabaseView, agent: str) -> Iterator[tuple[str, str]]:
    if agent in view.agents:
        yield "agent", "runs" if view.agents[agent] else "does not run"
