"""Events as lines for people: frequent ones are summarised by interval, others are printed at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from rowtide.core.errors import describe
from rowtide.diagnosis.result import format_bytes
from rowtide.events.catalogue import (
    AgentRetries,
    ArticleLeft,
    BatchDelivered,
    ColumnsWidened,
    CommandSkipped,
    ConfigurationNotReadAgain,
    CopyAdvanced,
    CopyBroken,
    CountersReset,
    CyclePublished,
    DatabaseNotPolled,
    DatabasePolledAgain,
    DeliveredByOther,
    JobBroken,
    JobEnded,
    JobFailed,
    JobStarted,
    MetricsNotWritten,
    PollBroken,
    ProcessFailed,
    ProcessReported,
    SampleNotKept,
    SamplesReplaced,
    SubscriberCopyAdvanced,
    SubscriptionRetries,
    SubscriptionStopped,
    SynchronisationFailed,
    Synchronised,
    TableMended,
    TargetApplied,
    WorkerHangs,
)
from rowtide.events.event import Emitted, Event

if TYPE_CHECKING:
    from rowtide.cdc.widening_removal import MendedTable

Progress: TypeAlias = (
    ColumnsWidened | TableMended | CopyAdvanced | CyclePublished | SubscriberCopyAdvanced | BatchDelivered
)
PROGRESS = (ColumnsWidened, TableMended, CopyAdvanced, CyclePublished, SubscriberCopyAdvanced, BatchDelivered)
"""Frequent events: a terminal shows the last one, other outputs get a summary per interval."""


def describe_one(emitted: Emitted) -> str | None:
    """Return the line of an event that is printed at once; None for one that is only logged."""
    match emitted.event:
        case AgentRetries(pause_s, error):
            return f"{error} Next try in {pause_s:g} s."
        case JobStarted():
            return f"{emitted.scope.job}: started"
        case JobEnded(outcome, _, result):
            return f"{emitted.scope.job}: {outcome}{f', {result}' if result else ''}"
        case JobFailed(_, error):
            return f"{emitted.scope.job}: failed, {describe(error)}"
        case JobBroken(error, traceback):
            return f"{emitted.scope.job}: {describe(error)}\n{traceback}".rstrip()
        case CopyBroken(instance, error, traceback):
            return f"copying {instance}: {describe(error)}\n{traceback}".rstrip()
        case TargetApplied(target, lsn, tables, stopped, notes):
            noted = f"; {notes}" if stopped else ""
            return f"target {target}: {tables} {'table' if tables == 1 else 'tables'} at LSN {lsn}{noted}"
        case ProcessReported(report) | ProcessFailed(report):
            return report
        case ConfigurationNotReadAgain(error):
            return f"{error} Nothing was changed: what was read before stays in force."
        case WorkerHangs(silent_s):
            return f"{emitted.scope.job}: shows no life for {silent_s:g} s: it hangs"
        case MetricsNotWritten(error):
            return str(error)
        case _:
            return _describe_delivery(emitted.event) or _describe_poll(emitted)


def _describe_delivery(event: Event) -> str | None:
    """Describe what happened to one subscription of delivery or merge."""
    match event:
        case SubscriptionRetries(publication, subscriber, pause_s, error):
            return f"{publication} to {subscriber}: {error} Next try in {pause_s:g} s."
        case SubscriptionStopped(publication, subscriber, error):
            return f"{publication} to {subscriber}: {error} It has stopped."
        case CommandSkipped(publication, subscriber, error):
            return f"{publication} to {subscriber}: skipped: {error}"
        case ArticleLeft(publication, subscriber, error) | SynchronisationFailed(publication, subscriber, error):
            return f"{publication} to {subscriber}: {error}"
        case DeliveredByOther(publication, subscriber, holder):
            line = f"{publication} to {subscriber} is delivered by {holder}."
            return f"{line} This process takes over when that one ends."
        case Synchronised(publication, subscriber, uploaded, downloaded, _, refused) if (
            uploaded or downloaded or refused
        ):
            rows = f"{uploaded:,} rows uploaded, {downloaded:,} downloaded, {refused:,} refused"
            return f"{publication} to {subscriber}: {rows}"
        case _:
            return None


def _describe_poll(emitted: Emitted) -> str | None:
    """Describe what the monitor found wrong with a database, or with what it has of it."""
    database = emitted.scope.database
    match emitted.event:
        case DatabaseNotPolled(error):
            return f"{database} cannot be read: {error}"
        case DatabasePolledAgain(seconds):
            return f"{database} can be read again, after {seconds:.0f} s"
        case PollBroken(error, traceback):
            return f"{database}: {describe(error)}\n{traceback}".rstrip()
        case SamplesReplaced(path, moved_to, reason):
            return f"{path} was damaged ({reason}) and moved to {moved_to}: history and counters begin again"
        case SampleNotKept(reason):
            return f"a sample of {database} was not kept: {reason}"
        case CountersReset(reason):
            return f"counters of {database} begin again: {reason}"
        case _:
            return None


def describe_progress(events: Sequence[Progress]) -> Sequence[str]:
    """Describe the events of an interval: a summary of cycles and batches, and the last event of each table's copy and
    rewrite.
    """
    widened = [describe_widened(one) for one in events if isinstance(one, ColumnsWidened)]
    mended = {one.path: one for one in events if isinstance(one, TableMended)}
    copies = {one.instance: one for one in events if isinstance(one, CopyAdvanced)}
    cycles = [one for one in events if isinstance(one, CyclePublished)]
    snapshots = {one.subscriber: one for one in events if isinstance(one, SubscriberCopyAdvanced)}
    batches: dict[str, list[BatchDelivered]] = {}
    for one in events:
        if isinstance(one, BatchDelivered):
            batches.setdefault(one.subscriber, []).append(one)
    return [
        *widened,
        *map(describe_mended, mended.values()),
        *map(describe_copy, copies.values()),
        *([describe_cycles(cycles)] if cycles else ()),
        *map(describe_snapshot, snapshots.values()),
        *map(describe_batches, batches.values()),
    ]


def describe_widened(table: ColumnsWidened) -> str:
    """Describe how a table's columns get wider types: by a rewrite of its files, or by Delta's type widening."""
    named = zip(table.columns, table.types, strict=True)
    columns = ", ".join(f"{name} becomes {type_name}" for name, type_name in named)
    if table.is_rewritten:
        return f"{name_of(table.path)}: {columns}; its files of {format_bytes(table.size_bytes)} are rewritten"
    return (
        f"{name_of(table.path)}: {columns}; its files of {format_bytes(table.size_bytes)} stay, and it gets Delta's "
        f"type widening, which delta-rs and Polars refuse: `rowtide lake mend {table.instance}` takes that away"
    )


def describe_mended(table: MendedTable | TableMended) -> str:
    """Describe the removal of Delta's type widening from a table."""
    if not table.was_marked:
        return f"{name_of(table.path)}: has no type widening"
    if table.written_bytes is None:
        return f"{name_of(table.path)}: {table.files} files, {format_bytes(table.read_bytes)}, have narrower types"
    return (
        f"{name_of(table.path)}: {table.files} files with narrower types written again, "
        f"{format_bytes(table.read_bytes)} read, {format_bytes(table.written_bytes)} written"
    )


def name_of(path: str) -> str:
    """Return a table's name, which is the last of its path."""
    return path.rpartition("/")[2]


def describe_copy(copy: CopyAdvanced) -> str:
    """Describe how far the copy of a table is."""
    parts = [f"{copy.rows:,} rows" + (f" of about {copy.estimated_rows:,}" if copy.estimated_rows else "")]
    if copy.of_chunks is not None and copy.of_chunks > 1:
        parts.append(f"{copy.chunks} of {copy.of_chunks} chunks")
    if copy.rows_per_second:
        parts.append(f"{copy.rows_per_second:,} rows/s")
    if copy.remaining_s is not None:
        parts.append(f"about {timedelta(seconds=copy.remaining_s)} left")
    message = f": {copy.message}" if copy.message else ""
    return f"copying {copy.instance}: {', '.join(parts)}{message}"


def describe_cycles(cycles: Sequence[CyclePublished]) -> str:
    """Describe what some cycles published."""
    last, seconds = cycles[-1], sum(one.seconds for one in cycles)
    numbers = f"cycle {last.cycle}" if len(cycles) == 1 else f"cycles {cycles[0].cycle} to {last.cycle}"
    instances = dict.fromkeys(instance for one in cycles for instance in one.instances)
    subject = "heartbeat" if all(one.is_heartbeat for one in cycles) else "instances"
    return f"{numbers}: {', '.join(instances) or subject} published up to LSN {last.lsn} in {seconds:.1f} s"


def describe_batches(batches: Sequence[BatchDelivered]) -> str:
    """Describe the batches delivered to one subscriber."""
    commands, transactions = sum(one.commands for one in batches), sum(one.transactions for one in batches)
    return (
        f"{commands:,} commands of {transactions:,} transactions delivered to {batches[-1].subscriber} "
        f"up to LSN {batches[-1].lsn} in {sum(one.seconds for one in batches):.1f} s"
    )


def describe_snapshot(copy: SubscriberCopyAdvanced) -> str:
    """Describe the progress of a subscriber's snapshot, or what it waits for."""
    if copy.waits_for:
        return f"The snapshot for {copy.subscriber} waits for the end of: {'; '.join(copy.waits_for)}"
    return (
        f"{copy.chunks} of {copy.of_chunks} chunks ({copy.copied_bytes / 1e6:,.0f} MB) copied to "
        f"{copy.subscriber} in {copy.seconds:.1f} s, {copy.table} last"
    )
