"""Whether the log is read. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rowtide.findings.finding import Advice, Command
from rowtide.findings.quantities import format_bytes, format_duration
from rowtide.health.facts import ReadingFacts
from rowtide.health.judgements import Area, Judgement, State
from rowtide.log.postgres.status import ReadingStatus, seconds_between

LATE_S = 300.0
"""What waits for longer is late."""
_SUBJECT = "log reader"


def judge_reading(facts: ReadingFacts, run: Command, blockers: Collection[str] = ()) -> Iterator[Judgement]:
    """Judge the log reader; `blockers` are what keeps it from reading: slot, publication, log store."""
    status, lag_s = facts.status, facts.status.lag_s
    is_late = lag_s is None or lag_s > LATE_S
    behind = _describe_lag(status)
    if blockers:
        stands = f"it runs ({status.reader})" if status.reader is not None else "it does not run"
        fact = f"{stands} and cannot go on; {behind}"
        mend = Advice(f"Mend {' and '.join(sorted(set(blockers)))} first.")
        yield Judgement(Area.LOG, _SUBJECT, State.FAILING, fact, mend)
    elif status.reader is None and _has_failed(facts):
        assert facts.last_error is not None
        ago = format_duration(seconds_between(facts.last_error.time, status.now) or 0.0)
        fact = f"it stopped {ago} ago with {facts.last_error.text.rstrip('.')}; {behind}"
        advice = f"Do what the error asks for, then run `{run}`."
        yield Judgement(Area.LOG, _SUBJECT, State.FAILING, fact, Advice(advice))
    elif status.reader is None:
        state = State.WARNING if is_late else State.WELL
        yield Judgement(Area.LOG, _SUBJECT, state, f"it does not run; {behind}", run if is_late else None)
    elif is_late:
        advice = (
            "See whether it catches up: `rowtide health` again in a minute; the server's load and disk may slow it."
        )
        fact = f"it runs ({status.reader}), late: {behind}"
        yield Judgement(Area.LOG, _SUBJECT, State.WARNING, fact, Advice(advice))
    else:
        yield Judgement(Area.LOG, _SUBJECT, State.WELL, f"it runs ({status.reader}); {behind}")


def _has_failed(facts: ReadingFacts) -> bool:
    """An error after which the log was read on is history."""
    error = facts.last_error
    return error is not None and (facts.status.as_of is None or error.time > facts.status.as_of)


def _describe_lag(status: ReadingStatus) -> str:
    if status.unread_bytes == 0:
        return "all of the log is read"
    lag_s = status.lag_s
    if status.unread_bytes is None:
        read = "how far the log is read is not known"
    else:
        read = "nothing was read yet" if lag_s is None else f"read up to {format_duration(lag_s)} ago"
    kept = f", the server keeps {format_bytes(status.kept_bytes)} of WAL" if status.kept_bytes is not None else ""
    return f"{read}{kept}"
