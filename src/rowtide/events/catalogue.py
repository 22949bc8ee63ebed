"""All events that rowtide emits, by the part that emits them. `docs/reference/log-events.md` is made from it.

An event's docstring is what has happened. Fields are named with their units; an `error` is written without keys and
values of rows, with its number as a field of its own. Nothing here has rows, or statements with their values.
"""

from __future__ import annotations

from rowtide.core.errors import RowtideError
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.redaction import Said
from rowtide.core.values import frozen
from rowtide.events.event import Bytes, Count, Event, Level, Milliseconds, Rows, RowsPerSecond, Seconds

# Agents and jobs.


@frozen
class AgentStarted(Event):
    """A long-running command has started."""

    level = Level.INFO
    version: str
    process_id: int


@frozen
class AgentStopped(Event):
    """A long-running command has ended, because it was stopped or its work is done."""

    level = Level.INFO
    seconds: Seconds


@frozen
class AgentFailed(Event):
    """A long-running command has ended with an error."""

    level = Level.ERROR
    error: Exception


@frozen
class ProcessReported(Event):
    """The supervisor of several databases has started or stopped a process, or read its configuration again."""

    level = Level.INFO
    report: str


@frozen
class ProcessFailed(Event):
    """A process of a database has ended by itself, or did not end when it was asked to."""

    level = Level.WARNING
    report: str


@frozen
class AgentRetries(Event):
    """An agent reconnects after an error and a pause."""

    level = Level.WARNING
    pause_s: Seconds
    error: RowtideError


@frozen
class JobStarted(Event):
    """A run of a job has started."""

    level = Level.INFO


@frozen
class JobEnded(Event):
    """A run of a job has ended; `outcome` is succeeded or stopped."""

    level = Level.INFO
    outcome: str
    retries: Count
    result: str


@frozen
class JobFailed(Event):
    """A run of a job has failed; the other jobs continue."""

    level = Level.ERROR
    retries: Count
    error: Exception


@frozen
class JobBroken(Event):
    """A run of a job failed with an internal error. `traceback` has only places in the code."""

    level = Level.ERROR
    error: Exception
    traceback: str


@frozen
class WorkerHangs(Event):
    """A step of an agent hangs; a service manager whose watchdog watches the process restarts it."""

    level = Level.ERROR
    silent_s: Seconds


@frozen
class LogReaderKilled(Event):
    """The log reader's process did not respond, and was killed; another one is started."""

    level = Level.WARNING
    process_id: int
    silent_s: Seconds


# The log.


@frozen
class PartitionsNotAttached(Event):
    """Triggers of a new partition could not be created: it is in use, or a right is missing; a heartbeat retries."""

    level = Level.DEBUG
    error: RowtideError


@frozen
class MarkNotVerified(Event):
    """A transaction is marked as replicated without the subscription's secret: it counts as local."""

    level = Level.WARNING
    error: RowtideError


@frozen
class HeartbeatNotWritten(Event):
    """The server refuses heartbeats; reading continues."""

    level = Level.WARNING
    error: RowtideError


@frozen
class TablePublicationNotChanged(Event):
    """The publication of a table could not be changed, because the table is in use or the right is missing."""

    level = Level.DEBUG
    table: str
    error: RowtideError


@frozen
class ResentNotVerified(Event):
    """It could not be determined whether the server still has the transactions that were read last."""

    level = Level.WARNING
    error: RowtideError


@frozen
class WaitNotReported(Event):
    """It could not be determined which transaction is waited for."""

    level = Level.WARNING
    error: RowtideError


@frozen
class SilentSessionEnded(Event):
    """A silent session of rowtide's that held locks was terminated."""

    level = Level.WARNING
    session: str


# Capture.


@frozen
class CyclePublished(Event):
    """Capture published a cycle; `instances` got rows, `is_heartbeat`: it has no changes."""

    level = Level.INFO
    cycle: Count
    lsn: Position
    instances: tuple[str, ...]
    transactions: Count
    rows: Rows
    seconds: Seconds
    is_heartbeat: bool


@frozen
class RowsCaptured(Event):
    """A cycle has read changes of an instance's table."""

    level = Level.DEBUG
    instance: str
    inserts: Rows
    updates: Rows
    deletes: Rows


@frozen
class CopyAdvanced(Event):
    """The copy of a captured table has advanced, waits, restarts or has ended."""

    level = Level.INFO
    instance: str
    chunks: Count
    of_chunks: Count | None
    rows: Rows
    estimated_rows: Rows | None
    size_bytes: Bytes
    rows_per_second: RowsPerSecond | None
    remaining_s: Seconds | None
    message: Said | None
    is_finished: bool


@frozen
class CopyFailed(Event):
    """The copy of a captured table has ended with an error; capture continues."""

    level = Level.WARNING
    instance: str
    error: RowtideError


@frozen
class CopyBroken(Event):
    """The copy of a captured table failed with an internal error; `traceback` has only places in the code."""

    level = Level.ERROR
    instance: str
    error: Exception
    traceback: str


@frozen
class CopiesRetry(Event):
    """Copies of captured tables are resumed after an error and a pause."""

    level = Level.WARNING
    error: RowtideError


@frozen
class RowCopiedInPart(Event):
    """A row of a captured table was copied without values that cannot be read."""

    level = Level.WARNING
    instance: str
    columns: tuple[str, ...]


@frozen
class ColumnsWidened(Event):
    """Columns are about to get wider types; `is_rewritten`: the table's files are written again."""

    level = Level.INFO
    instance: str
    path: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    size_bytes: Bytes
    is_rewritten: bool


@frozen
class TableMended(Event):
    """A table has no type widening any more; `written_bytes` null: it will have none."""

    level = Level.INFO
    instance: str
    path: str
    was_marked: bool
    files: Count
    read_bytes: Bytes
    written_bytes: Bytes | None


@frozen
class DisabledRowsStay(Event):
    """The rows of a disabled capture instance could not be removed; the next start tries again."""

    level = Level.WARNING
    error: RowtideError


@frozen
class TableJoined(Event):
    """A new table is captured because of a rule."""

    level = Level.INFO
    table: str
    rule: str


@frozen
class TableNotJoined(Event):
    """A new table that a rule asks for cannot be captured."""

    level = Level.WARNING
    table: str
    rule: str
    error: RowtideError | None


@frozen
class JoiningFailed(Event):
    """The search for new tables of rules failed; capture continues."""

    level = Level.WARNING
    error: RowtideError


@frozen
class ScansNotRecorded(Event):
    """The metrics of scans could not be written to the database."""

    level = Level.WARNING
    error: RowtideError


@frozen
class RunsNotRecorded(Event):
    """The ends of jobs could not be written to the database."""

    level = Level.WARNING
    error: RowtideError


# The lake and its stores.


@frozen
class UpkeepFailed(Event):
    """Compaction, vacuum or a checkpoint of a table failed; readers are slower until it succeeds."""

    level = Level.WARNING
    kind: str
    path: str
    error: RowtideError


@frozen
class UpkeepEnded(Event):
    """Maintenance of the lake has ended, because another process holds the lake."""

    level = Level.WARNING
    error: RowtideError


@frozen
class CheckpointFailed(Event):
    """A checkpoint of a table could not be written; reads are slower until one is."""

    level = Level.WARNING
    error: RowtideError


@frozen
class CommitBelowCheckpoint(Event):
    """A commit got a number below another writer's checkpoint, where no reader sees it, and is repeated."""

    level = Level.WARNING
    path: str
    version: Count


@frozen
class TableNotFenced(Event):
    """A table cannot be read, and is omitted from what a new holder of the lake fences."""

    level = Level.WARNING
    error: RowtideError


@frozen
class StoreSlow(Event):
    """An object store is slow; requests now have longer timeouts."""

    level = Level.DEBUG
    store: str


# Targets.


@frozen
class TargetApplied(Event):
    """A target's tables are at an LSN; the tables `stopped` stay behind, for the reasons in `notes`."""

    level = Level.INFO
    target: str
    lsn: CommitLsn | None
    tables: Count
    stopped: tuple[str, ...]
    notes: Said


@frozen
class TargetTableStopped(Event):
    """A table of a target cannot be applied; its other tables continue."""

    level = Level.WARNING
    error: RowtideError


@frozen
class TargetTableEdited(Event):
    """A table of a target was changed by another writer during a commit, which is repeated."""

    level = Level.WARNING
    error: RowtideError


@frozen
class TargetTableRestored(Event):
    """A table of a target, which another client changed, is made equal to its source again; `client`: its commit."""

    level = Level.WARNING
    target: str
    instance: str
    client: str


@frozen
class DroppedValuesStay(Event):
    """A column was dropped at the source; rows of the target that do not change keep its values."""

    level = Level.WARNING
    error: RowtideError


@frozen
class ColumnsNotFollowed(Event):
    """A target cannot get the columns that its source has by now."""

    level = Level.WARNING
    target: str
    reason: Said


@frozen
class InstanceMade(Event):
    """A capture instance was made with a table's present columns, for a target."""

    level = Level.INFO
    instance: str
    of: str
    target: str


@frozen
class InstanceNotEnded(Event):
    """A capture instance that a newer one has replaced could not be disabled."""

    level = Level.WARNING
    instance: str
    error: RowtideError


# Delivery.


@frozen
class BatchDelivered(Event):
    """A subscriber committed a batch; `latency_ms` from the commit of its last transaction at the publisher."""

    level = Level.INFO
    subscriber: str
    lsn: Position
    transactions: Count
    commands: Count
    seconds: Seconds
    latency_ms: Milliseconds | None


@frozen
class SubscriberCopyAdvanced(Event):
    """The copy of tables to a subscriber has advanced, or waits for transactions."""

    level = Level.INFO
    subscriber: str
    table: str
    chunks: Count
    of_chunks: Count
    copied_bytes: Bytes
    seconds: Seconds
    waits_for: tuple[str, ...]


@frozen
class SubscriptionRetries(Event):
    """Delivery to a subscriber is retried after an error and a pause."""

    level = Level.WARNING
    publication: str
    subscriber: str
    pause_s: Seconds
    error: Exception


@frozen
class SubscriptionStopped(Event):
    """Delivery to a subscriber has stopped with an error."""

    level = Level.ERROR
    publication: str
    subscriber: str
    error: Exception


@frozen
class CommandSkipped(Event):
    """A command was skipped at a subscriber, because of its error."""

    level = Level.WARNING
    publication: str
    subscriber: str
    error: RowtideError


@frozen
class ArticleLeft(Event):
    """A subscription continues without a table, or copies it again."""

    level = Level.WARNING
    publication: str
    subscriber: str
    error: RowtideError


@frozen
class DeliveredByOther(Event):
    """Another process delivers a subscription; this one takes over when that one ends."""

    level = Level.INFO
    publication: str
    subscriber: str
    holder: str


@frozen
class OriginNotSet(Event):
    """A session at a subscriber has no replication origin, by which others distinguish its changes from local ones."""

    level = Level.WARNING
    error: RowtideError


@frozen
class DeadlocksNotWatched(Event):
    """A subscriber allows no further connection for detecting deadlocks."""

    level = Level.WARNING
    error: RowtideError


@frozen
class TracerArrived(Event):
    """A subscriber committed a tracer token; `log_s` from its commit to the log store, `delivery_s` from there."""

    level = Level.DEBUG
    publication: str
    subscriber: str
    log_s: Seconds | None
    delivery_s: Seconds | None


@frozen
class ArticleValidated(Event):
    """The rows of an article were compared at a subscriber."""

    level = Level.INFO
    publication: str
    subscriber: str
    article: str
    is_equal: bool


@frozen
class TracerNotRecorded(Event):
    """The arrival of a tracer token could not be written; the token stays pending."""

    level = Level.WARNING
    error: RowtideError


@frozen
class HistoryNotWritten(Event):
    """The history of agents could not be written; delivery continues."""

    level = Level.WARNING
    error: RowtideError


@frozen
class RowsNotCounted(Event):
    """The rows of a copy could not be counted."""

    level = Level.WARNING
    error: RowtideError


# Merge.


@frozen
class Synchronised(Event):
    """A subscriber of merge was synchronised; the next synchronisation retries `refused` rows."""

    level = Level.INFO
    publication: str
    subscriber: str
    uploaded: Rows
    downloaded: Rows
    conflicts: Rows
    refused: Rows
    seconds: Seconds


@frozen
class RowRefused(Event):
    """A node refused a row of an article."""

    level = Level.WARNING
    publication: str
    subscriber: str
    article: str
    error: RowtideError


@frozen
class SynchronisationFailed(Event):
    """A synchronisation of merge ended with an error; the next one continues."""

    level = Level.ERROR
    publication: str
    subscriber: str
    error: RowtideError


# The log of events itself, and the metrics that are made of events.


@frozen
class LogResumed(Event):
    """The log's file is writable again; `missing` lines before this one were lost."""

    level = Level.WARNING
    missing: Count


@frozen
class MetricsNotWritten(Event):
    """The file of metrics could not be written, and stays as it was; it is written again after 15 seconds."""

    level = Level.WARNING
    error: RowtideError


# The monitor.


@frozen
class DatabaseNotPolled(Event):
    """A database cannot be polled any longer, or for another reason than before; it is retried every 15 seconds."""

    level = Level.WARNING
    error: RowtideError


@frozen
class DatabasePolledAgain(Event):
    """A database can be polled again, after `seconds` in which it could not."""

    level = Level.INFO
    seconds: Seconds


@frozen
class PollBroken(Event):
    """A poll failed with an internal error. `traceback` has only places in the code."""

    level = Level.ERROR
    error: Exception
    traceback: str


@frozen
class SamplesReplaced(Event):
    """The monitor's file was damaged, and was moved aside: history and counters restart."""

    level = Level.WARNING
    path: str
    moved_to: str
    reason: str


@frozen
class SampleNotKept(Event):
    """A sample could not be written to the monitor's file; the metrics are served nevertheless."""

    level = Level.WARNING
    reason: str


@frozen
class CountersReset(Event):
    """The counters of a database could not be read from the monitor's file, and restart."""

    level = Level.WARNING
    reason: str


@frozen
class TokensNotRead(Event):
    """The token file of the monitor cannot be read: requests are refused until it can."""

    level = Level.ERROR
    error: RowtideError


@frozen
class ConfigurationNotReadAgain(Event):
    """The configuration file cannot be read again: what was read before stays in force."""

    level = Level.ERROR
    error: RowtideError


@frozen
class ActionEnded(Event):
    """An action of the monitor has ended: done, failed, or refused before it began."""

    level = Level.INFO
    database: str
    action: str
    actor: str
    outcome: str
    code: str


# The gateway.


@frozen
class GatewayAnswered(Event):
    """The gateway has answered a request of a device, with an error `code`, if any; its address has `hub`, `step`."""

    level = Level.INFO
    path: str
    hub: str
    step: str
    device: str
    status: Count
    code: str
    sent: Bytes
    rows_up: Count
    rows_down: Count
    seconds: Seconds


@frozen
class GatewayBroken(Event):
    """A request failed with an internal error. The device got only `incident`."""

    level = Level.ERROR
    incident: str
    error: Exception
    traceback: str
