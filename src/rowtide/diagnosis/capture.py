"""Whether the log is read, changes are captured, and old change rows removed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rowtide.agents.loop import PastError
from rowtide.agents.schedule import Schedule
from rowtide.cdc.status import CaptureStatus, CleanupStatus
from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.diagnosis.codes import Code
from rowtide.diagnosis.result import (
    CheckResult,
    ShellCommand,
    counts,
    failing,
    format_bytes,
    format_duration,
    format_names,
    healthy,
    shell,
    sizes,
    times,
    warning,
)
from rowtide.log.postgres.backlog import ReadingStatus, seconds_between
from rowtide.targets.definitions import TableState
from rowtide.targets.listing import NEW, ListedTarget

if TYPE_CHECKING:
    from rowtide.cdc.instances import Instance
    from rowtide.cdc.introspection import RowsLeft
    from rowtide.cdc.published import ListedChange


@frozen
class ReadingFacts:
    """The progress of the log reader; `last_error` is the newest that `replication run` has recorded of it."""

    status: ReadingStatus
    last_error: PastError | None = None


_LOOK_AGAIN = "See whether it catches up: `rowtide health` again in a minute"
LATE_S = 300.0
"""Work that has waited for longer is late."""


def check_reading(facts: ReadingFacts, run: ShellCommand, blockers: Collection[str] = ()) -> CheckResult:
    """Check the log reader; `blockers` are the problems of slot, publication and log store that stop it."""
    status = facts.status
    measures = (*times(lag_s=status.lag_s), *sizes(unread_bytes=status.unread_bytes, kept_bytes=status.kept_bytes))
    return replace(_describe_reading(facts, run, blockers), measures=measures)


def _describe_reading(facts: ReadingFacts, run: ShellCommand, blockers: Collection[str]) -> CheckResult:
    subject, status, lag_s = "log reader", facts.status, facts.status.lag_s
    is_late = lag_s is None or lag_s > LATE_S
    behind = _describe_unread(status)
    runs = f"it runs ({status.reader})" if status.reader is not None else "it does not run"
    if blockers:
        first = f"Repair {' and '.join(sorted(set(blockers)))} first."
        return failing(Code.LOG_READER_BLOCKED, subject, f"{runs} and cannot continue; {behind}", first)
    if status.reader is None and facts.last_error is not None and _has_failed(facts.last_error, status):
        advice = f"Do what the error asks for, then run `{run}`."
        message = f"{_describe_error(facts.last_error, status.now)}; {behind}"
        return failing(Code.LOG_READER_FAILED, subject, message, advice)
    if status.reader is None and is_late:
        return warning(Code.LOG_READER_STOPPED, subject, f"{runs}; {behind}", run)
    if is_late:
        advice = f"{_LOOK_AGAIN}; the server's load and disk may slow it."
        return warning(Code.LOG_READER_LATE, subject, f"{runs}, late: {behind}", advice)
    return healthy(Code.LOG_READER_HEALTHY, subject, f"{runs}; {behind}")


def _describe_error(error: PastError, now: datetime) -> str:
    ago = format_duration(seconds_between(error.time, now) or 0.0)
    return f"it stopped {ago} ago with {error.text.rstrip('.')}"


def _has_failed(error: PastError, status: ReadingStatus) -> bool:
    """An error after which the log was read on is history."""
    return status.as_of is None or error.time > status.as_of


def _describe_unread(status: ReadingStatus) -> str:
    if status.unread_bytes == 0:
        return "all of the log is read"
    lag_s = status.lag_s
    if status.unread_bytes is None:
        read = "how far the log is read is not known"
    else:
        read = "nothing was read yet" if lag_s is None else f"read up to {format_duration(lag_s)} ago"
    kept = f", the server keeps {format_bytes(status.kept_bytes)} of WAL" if status.kept_bytes is not None else ""
    return f"{read}{kept}"


CLEANUP_GRACE = timedelta(days=1)
"""The tolerated delay of a cleanup: the agent may be stopped for maintenance."""
_CLEANUP = "cleanup"


def check_capturing(facts: CaptureStatus) -> Iterator[CheckResult]:
    """Check capture: whether it runs, is behind, or has stopped with an error; and failed copies of tables."""
    waits_s = seconds_between(facts.oldest_waiting, facts.now) or 0.0
    measures = (*times(waits_s=waits_s), *counts(gaps=len(facts.gaps), instances=facts.instances))
    yield replace(_describe_capturing(facts, is_late=waits_s > LATE_S + facts.rest_s), measures=measures)
    for instance, error in facts.failed_snapshots:
        advice = f"Do what the error asks for, then run `rowtide cdc resnapshot {instance}`."
        message = f"its rows were not copied: {error.rstrip('.')}"
        yield warning(Code.SNAPSHOT_FAILED, f"snapshot of {instance}", message, advice)


def _describe_capturing(facts: CaptureStatus, *, is_late: bool) -> CheckResult:
    subject, behind, error = "capture", _describe_unpublished(facts), facts.last_error
    runs = f"it runs ({facts.capture})" if facts.capture is not None else "it does not run"
    if facts.capture is None and error is not None and _is_current(error.time, facts):
        advice = f"Do what the error asks for, then run `{restart_capture(facts)}`."
        return failing(Code.CAPTURE_FAILED, subject, f"{_describe_error(error, facts.now)}; {behind}", advice)
    if facts.capture is None and is_late:
        return warning(Code.CAPTURE_STOPPED, subject, f"{runs}; {behind}", restart_capture(facts))
    if is_late:
        last_error = f"; its last error: {error.text}" if error is not None else ""
        advice = f"{_LOOK_AGAIN}; `rowtide cdc errors` lists errors."
        return warning(Code.CAPTURE_LATE, subject, f"{runs}, late: {behind}{last_error}", advice)
    return healthy(Code.CAPTURE_HEALTHY, subject, f"{runs}; {behind}")


def restart_capture(facts: CaptureStatus) -> ShellCommand:
    """Return what lets capture go on: an agent that runs has its jobs to itself."""
    return shell("rowtide", "cdc", *(("start-job", "capture") if facts.awaits_start else ("run",)))


_SHOWN = 80
"""The number of characters of a statement that are shown."""


def check_outdated(changes: Sequence[ListedChange]) -> Iterator[CheckResult]:
    """Check instances whose tables were changed without change rows since they were copied."""
    for change in changes:
        command = " ".join(change.ddl_command.split())
        shown = f"{command[:_SHOWN]}…" if len(command) > _SHOWN else command
        message = (
            f"a statement changed values or rows of {change.source_schema}.{change.source_table} without change rows, "
            f"at {change.ddl_lsn}: {shown}; targets, and consumers of changes, have them as they were before"
        )
        again = shell("rowtide", "cdc", "resnapshot", change.capture_instance)
        yield warning(Code.SNAPSHOT_OUTDATED, f"instance {change.capture_instance}", message, again)


def check_lost_keys(instances: Sequence[Instance]) -> Iterator[CheckResult]:
    """Check instances whose keys no longer identify rows."""
    for instance in instances:
        table = quote_qualified(instance.source_schema, instance.source_table)
        key = ", ".join(column.name for column in instance.index_columns)
        message = (
            f"the key ({key}) of {instance.source_schema}.{instance.source_table} no longer identifies its rows since "
            f"{CommitLsn(instance.key_lost_at or 0)}: tables as of an LSN and net changes are refused, targets stop"
        )
        again = shell("rowtide", "cdc", "disable-table", table, "--capture-instance", instance.capture_instance)
        advice = (
            "Give the table a key that is not deferrable, of columns that are not null; then run "
            f"`{again}` and `{shell('rowtide', 'cdc', 'enable-table', table)}`."
        )
        name = f"instance {instance.capture_instance}"
        yield failing(Code.KEY_LOST, name, message, advice)


def check_rows_left(tables: Sequence[RowsLeft]) -> Iterator[CheckResult]:
    """Check disabled instances whose rows could not be removed from the lake."""
    for table in tables:
        message = f"it was disabled, but its rows cannot be removed: {table.error.filled_fact.rstrip('.')}"
        advice = "Put back what was removed from that folder, or remove the folder; then run `rowtide cdc run`."
        yield warning(Code.ROWS_LEFT, f"instance {table.capture_instance}", message, advice)


def check_targets(tables: Sequence[ListedTarget]) -> Iterator[CheckResult]:
    """Check the tables of targets: which have stopped, or do not follow columns."""
    see = shell("rowtide", "cdc", "targets")
    for table in tables:
        if table.state == TableState.STOPPED:
            message = f"its table of {table.instance} has stopped: {(table.note or '').rstrip('.')}"
            yield failing(Code.TARGET_STOPPED, f"target {table.target}", message, see, times(lag_s=table.lag_seconds))
        elif table.note is not None:
            message = f"its table of {table.instance}: {table.note.rstrip('.')}"
            yield warning(Code.TARGET_COLUMNS_UNFOLLOWED, f"target {table.target}", message, see)
    new = tuple(f"{table.target} ({table.instance})" for table in tables if table.state == NEW)
    if new:
        message = f"no apply is recorded of {format_names(new)}"
        yield healthy(Code.TARGETS_NEW_HEALTHY, "new targets", message)
    following = [table for table in tables if table.state not in (NEW, TableState.STOPPED)]
    if following:
        lags = [table.lag_seconds for table in following if table.lag_seconds is not None]
        behind = f", the last by {format_duration(max(lags))}" if lags and max(lags) >= 1 else ""
        message = f"{len(following)} tables follow what is published{behind}"
        measures = times(lag_s=max(lags, default=None))
        yield healthy(Code.TARGETS_HEALTHY, "targets", message, measures=measures)


def check_cleanup(facts: CleanupStatus) -> Iterator[CheckResult]:
    """Check whether change rows are removed after their retention."""
    if facts.oldest_instance is None:
        return
    clean = shell("rowtide", "cdc", "cleanup")
    measures = times(
        retention_s=facts.retention.total_seconds() if facts.retention is not None else None,
        cleaned_s=seconds_between(facts.last_cleaned, facts.now),
    )
    if facts.last_failure is not None:
        ago = format_duration(seconds_between(facts.last_failure.time, facts.now) or 0.0)
        message = f"its last run failed {ago} ago: {facts.last_failure.text}"
        yield failing(Code.CLEANUP_FAILED, _CLEANUP, message, clean, measures)
        return
    since = facts.last_cleaned or facts.oldest_instance + (facts.retention or timedelta())
    overdue = _find_overdue(facts, since)
    last = _describe_last(facts)
    if overdue is not None:
        agent = "the agent runs" if facts.agent is not None else "no agent runs"
        message = f"change rows older than their retention are kept: {last}, {agent}, and {overdue}"
        yield warning(Code.CLEANUP_OVERDUE, _CLEANUP, message, clean, measures)
    else:
        yield healthy(Code.CLEANUP_HEALTHY, _CLEANUP, last, measures=measures)


def _is_current(time: datetime, facts: CaptureStatus) -> bool:
    """An error after which all was published is history."""
    return facts.published_as_of is None or time > facts.published_as_of


def _describe_unpublished(facts: CaptureStatus) -> str:
    gaps = f"; {_count(facts.gaps)}: {facts.gaps[-1]}" if facts.gaps else ""
    if facts.oldest_waiting is None:
        return f"all that was read is published; instances: {facts.instances}{gaps}"
    waits = format_duration(seconds_between(facts.oldest_waiting, facts.now) or 0.0)
    return f"what was read since {waits} ago is not published{gaps}"


def _count(gaps: Sequence[str]) -> str:
    return "1 recorded gap" if len(gaps) == 1 else f"{len(gaps)} recorded gaps, the last"


def _find_overdue(facts: CleanupStatus, since: datetime) -> str | None:
    """Return why a cleanup is overdue, as text; None where none is."""
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
