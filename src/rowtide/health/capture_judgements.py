"""Whether changes are captured, and old change rows removed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rowtide.agents.schedule import Schedule
from rowtide.cdc.status import CaptureStatus, CleanupStatus
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.findings.finding import Advice, shell
from rowtide.findings.quantities import format_duration, format_names
from rowtide.health.judgements import Area, Judgement, State
from rowtide.health.log_judgements import LATE_S
from rowtide.log.postgres.status import seconds_between
from rowtide.targets.definitions import TableState
from rowtide.targets.listing import NEW, ListedTarget

if TYPE_CHECKING:
    from rowtide.cdc.ddl.history import ListedChange
    from rowtide.cdc.instances import Instance
    from rowtide.cdc.status.outdated import RowsLeft

CLEANUP_GRACE = timedelta(days=1)
"""A cleanup that was due may begin so late: the agent may be stopped for maintenance."""
_CAPTURE, _CLEANUP = "capture", "cleanup"


def judge_capturing(facts: CaptureStatus) -> Iterator[Judgement]:
    """Judge capture: whether it runs, is behind, or has stopped with an error."""
    run = shell("rowtide", "cdc", "run")
    is_late = (seconds_between(facts.oldest_waiting, facts.now) or 0.0) > LATE_S
    behind = _describe_lag(facts)
    if facts.capture is None and facts.last_error is not None and _is_current(facts.last_error.time, facts):
        ago = format_duration(seconds_between(facts.last_error.time, facts.now) or 0.0)
        fact = f"it stopped {ago} ago with {facts.last_error.text.rstrip('.')}; {behind}"
        advice = "Do what the error asks for, then run `rowtide cdc run`."
        yield Judgement(Area.CAPTURE, _CAPTURE, State.FAILING, fact, Advice(advice))
    elif facts.capture is None:
        state = State.WARNING if is_late else State.WELL
        yield Judgement(Area.CAPTURE, _CAPTURE, state, f"it does not run; {behind}", run if is_late else None)
    elif is_late:
        last_error = f"; its last error: {facts.last_error.text}" if facts.last_error is not None else ""
        fact = f"it runs ({facts.capture}), late: {behind}{last_error}"
        advice = "See whether it catches up: `rowtide health` again in a minute; `rowtide cdc errors` lists errors."
        yield Judgement(Area.CAPTURE, _CAPTURE, State.WARNING, fact, Advice(advice))
    else:
        yield Judgement(Area.CAPTURE, _CAPTURE, State.WELL, f"it runs ({facts.capture}); {behind}")


def judge_snapshots(facts: CaptureStatus) -> Iterator[Judgement]:
    """Judge the copies of captured tables: which failed."""
    for instance, error in facts.failed_snapshots:
        advice = f"Do what the error asks for, then run `rowtide cdc resnapshot {instance}`."
        fact = f"its rows were not copied: {error.rstrip('.')}"
        yield Judgement(Area.CAPTURE, f"snapshot of {instance}", State.WARNING, fact, Advice(advice))


def judge_outdated(changes: Sequence[ListedChange]) -> Iterator[Judgement]:
    """Judge instances whose tables were changed without change rows since they were copied."""
    for change in changes:
        command = " ".join(change.ddl_command.split())
        shown = f"{command[:_SHOWN]}…" if len(command) > _SHOWN else command
        fact = (
            f"a statement changed values or rows of {change.source_schema}.{change.source_table} without change rows, "
            f"at {change.ddl_lsn}: {shown}; targets, and consumers of changes, have them as they were before"
        )
        again = shell("rowtide", "cdc", "resnapshot", change.capture_instance)
        yield Judgement(Area.CAPTURE, f"instance {change.capture_instance}", State.WARNING, fact, again)


def judge_lost_keys(instances: Sequence[Instance]) -> Iterator[Judgement]:
    """Judge instances whose keys no longer identify rows."""
    for instance in instances:
        table = quote_qualified(instance.source_schema, instance.source_table)
        key = ", ".join(column.name for column in instance.index_columns)
        fact = (
            f"the key ({key}) of {instance.source_schema}.{instance.source_table} no longer identifies its rows since "
            f"{CommitLsn(instance.key_lost_at or 0)}: tables as of an LSN and net changes are refused, targets stop"
        )
        again = shell("rowtide", "cdc", "disable-table", table, "--capture-instance", instance.capture_instance)
        advice = (
            "Give the table a key that is not deferrable, of columns that are not null; then run "
            f"`{again}` and `{shell('rowtide', 'cdc', 'enable-table', table)}`."
        )
        name = f"instance {instance.capture_instance}"
        yield Judgement(Area.CAPTURE, name, State.FAILING, fact, Advice(advice))


def judge_rows_left(tables: Sequence[RowsLeft]) -> Iterator[Judgement]:
    """Judge disabled instances whose rows could not be removed from the lake."""
    for table in tables:
        fact = f"it was disabled, but its rows cannot be removed: {table.error.filled_fact.rstrip('.')}"
        advice = "Put back what was removed from that folder, or remove the folder; then run `rowtide cdc run`."
        yield Judgement(Area.CAPTURE, f"instance {table.capture_instance}", State.WARNING, fact, Advice(advice))


_SHOWN = 80
"""So many characters of a statement are shown."""


def judge_targets(tables: Sequence[ListedTarget]) -> Iterator[Judgement]:
    """Judge the tables of targets: which have stopped, or do not follow columns."""
    see = shell("rowtide", "cdc", "targets")
    for table in tables:
        if table.state == TableState.STOPPED:
            fact = f"its table of {table.instance} has stopped: {(table.note or '').rstrip('.')}"
            yield Judgement(Area.CAPTURE, f"target {table.target}", State.FAILING, fact, see)
        elif table.note is not None:
            fact = f"its table of {table.instance}: {table.note.rstrip('.')}"
            yield Judgement(Area.CAPTURE, f"target {table.target}", State.WARNING, fact, see)
    new = tuple(f"{table.target} ({table.instance})" for table in tables if table.state == NEW)
    if new:
        fact = f"no apply is recorded of {format_names(new)}"
        yield Judgement(Area.CAPTURE, "new targets", State.WELL, fact)
    following = [table for table in tables if table.state not in (NEW, TableState.STOPPED)]
    if following:
        lags = [table.lag_seconds for table in following if table.lag_seconds is not None]
        behind = f", the last by {format_duration(max(lags))}" if lags and max(lags) >= 1 else ""
        fact = f"{len(following)} tables follow what is published{behind}"
        yield Judgement(Area.CAPTURE, "targets", State.WELL, fact)


def judge_cleanup(facts: CleanupStatus) -> Iterator[Judgement]:
    """Judge whether change rows go when their retention is over."""
    if facts.oldest_instance is None:
        return
    clean = shell("rowtide", "cdc", "cleanup")
    if facts.last_failure is not None:
        ago = format_duration(seconds_between(facts.last_failure.time, facts.now) or 0.0)
        fact = f"its last run failed {ago} ago: {facts.last_failure.text}"
        yield Judgement(Area.CAPTURE, _CLEANUP, State.FAILING, fact, clean)
        return
    since = facts.last_cleaned or facts.oldest_instance + (facts.retention or timedelta())
    overdue = _find_overdue(facts, since)
    last = _describe_last(facts)
    if overdue is not None:
        agent = "the agent runs" if facts.agent is not None else "no agent runs"
        fact = f"change rows older than their retention are kept: {last}, {agent}, and {overdue}"
        yield Judgement(Area.CAPTURE, _CLEANUP, State.WARNING, fact, clean)
    else:
        yield Judgement(Area.CAPTURE, _CLEANUP, State.WELL, last)


def _is_current(time: datetime, facts: CaptureStatus) -> bool:
    """An error after which all was published is history."""
    return facts.published_as_of is None or time > facts.published_as_of


def _describe_lag(facts: CaptureStatus) -> str:
    gaps = f"; {_count(facts.gaps)}: {facts.gaps[-1]}" if facts.gaps else ""
    if facts.oldest_waiting is None:
        return f"all that was read is published; instances: {facts.instances}{gaps}"
    waits = format_duration(seconds_between(facts.oldest_waiting, facts.now) or 0.0)
    return f"what was read since {waits} ago is not published{gaps}"


def _count(gaps: Sequence[str]) -> str:
    return "1 recorded gap" if len(gaps) == 1 else f"{len(gaps)} recorded gaps, the last"


def _find_overdue(facts: CleanupStatus, since: datetime) -> str | None:
    """Return in words why a cleanup is overdue, None where none is."""
    if facts.schedule is None:
        return "no job cleans up" if facts.now > since + CLEANUP_GRACE else None
    due = Schedule(facts.schedule).next_after(since)
    if due is None or facts.now <= due + CLEANUP_GRACE:
        return None
    return f"one was due {format_duration((facts.now - due).total_seconds())} ago"


def _describe_last(facts: CleanupStatus) -> str:
    kept = format_duration(facts.retention.total_seconds()) if facts.retention is not None else "for ever"
    if facts.last_cleaned is None:
        return f"change rows stay {kept}; nothing was cleaned up yet"
    return (
        f"change rows stay {kept}; cleaned up {format_duration((facts.now - facts.last_cleaned).total_seconds())} ago"
    )
