"""Errors that agents have recorded in the last 48 hours, by their numbers: texts may have values of rows. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from rowtide.agents.runs import RunOutcome
from rowtide.core.values import frozen
from rowtide.monitor.labels import number_of, without_users
from rowtide.monitor.snapshot import PolledFigures, known_of

KEPT = timedelta(hours=48)


@frozen
class ErrorView:
    """An error that an agent recorded: `source` is the agent (capture, a job's name, log reader, or distribution).

    `number` is as in docs/reference/errors.md, else the class of an error that has none. Of distribution also the
    subscription is known.
    """

    at: datetime
    source: str
    number: str
    publication: str | None = None
    subscriber: str | None = None


def view_errors(figures: PolledFigures, now: datetime) -> tuple[ErrorView, ...]:
    """Return the errors, newest first."""
    found = (error for error in _list(figures) if error.at >= now - KEPT)
    return tuple(sorted(found, key=lambda error: error.at, reverse=True))


def count_numbers(errors: Iterable[ErrorView]) -> tuple[tuple[str, int], ...]:
    """Return how often each number was recorded, the most frequent first."""
    return tuple(Counter(error.number for error in errors).most_common())


def _list(figures: PolledFigures) -> Iterator[ErrorView]:
    for scan in known_of(figures.scan_errors):
        if scan.at is not None:
            yield ErrorView(scan.at, "capture", _with_prefix(scan.code))
    for run in known_of(figures.runs):
        at = run.ended_at or run.started_at
        if run.outcome in (RunOutcome.FAILED, RunOutcome.LOST) and at is not None:
            yield ErrorView(at, run.job, number_of(run.message or "") or run.outcome.value)
    for one in known_of(figures.delivery_errors):
        if one.at is not None:
            source = "log reader" if one.publication is None else "distribution"
            subscriber = without_users(one.subscriber) if one.subscriber is not None else None
            yield ErrorView(one.at, source, _with_prefix(one.code), one.publication, subscriber)


def _with_prefix(code: str) -> str:
    return f"RT-{code}" if code.isdigit() else code
