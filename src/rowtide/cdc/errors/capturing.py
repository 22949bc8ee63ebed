"""Errors of capture and its snapshots, of gaps, the lake and its cleanup."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Invalid, NotFound, Retryable, RowtideError
from rowtide.core.redaction import Said


class LakeUnknown(NotFound, number=4107):
    """There is no lake, or capture has never run there."""

    fact = "nothing was captured to the lake {lake} yet"
    hint = "Check the path; `rowtide cdc run` captures."
    lake: str


class RelationChanged(RowtideError, number=4105):
    """A captured table's shape in the log changed; capture stops before that transaction."""

    fact = "table {table} changed at LSN {lsn}: {change}; capture stopped before it"
    hint = "Disable instance {instance} and enable it again: the missing values exist nowhere but in the table."
    table: str
    lsn: str
    change: str
    instance: str


class ChangeRowsMiscounted(RowtideError, number=4112):
    """The rows written for a cycle are not those that the log has; nothing of the cycle is committed to that table."""

    fact = "cycle {cycle} wrote {written:,} rows for {table}, but the log has {expected:,}"
    hint = """Start capture again: the cycle is repeated. If the error recurs, the log store is damaged or rowtide has a
        defect: run `rowtide check`, and report it."""
    cycle: int
    written: int
    table: str
    expected: int


class ChangeFileMissing(RowtideError, number=4111):
    """A task of Spark wrote a file that capture's own process does not find: they do not share the lake's folder."""

    fact = "a task of Spark wrote {file}, and this process does not find it"
    hint = "Put the lake in a folder that the executors and this process share, or run with --engine auto."
    file: str


class ChangeTableLost(Retryable, number=4115):
    """A change table was removed, or some of its log: capture stops before the next cycle with rows of it."""

    fact = "the change table of {instance} cannot be appended to: {reason}"
    hint = """Restore {path} from a backup, or mount it: capture retries. If it is lost, remove what is left of the
        folder, run `rowtide cdc disable-table TABLE --capture-instance {instance}`, and enable it again."""
    instance: str
    path: str
    reason: str


class DefinitionsIncomplete(RowtideError, number=4109):
    """Tables were dropped that enabling the database had created."""

    fact = "tables are missing in schema cdc: {tables}; they were dropped"
    hint = (
        "Run `rowtide cdc enable-db --lake PATH` again, with the same lake, as the role that did: it creates what is "
        "missing and keeps the rest."
    )
    tables: str


class LakeBehindLog(DataLoss, number=4106):
    """The log store no longer has the range that the lake needs next."""

    fact = "the lake is at {lake}, but the log store starts at {log_store}"
    hint = """The lake is older than the log store, or another one: mount its storage, or put it back. If it was
        restored, run `rowtide cdc reinitialize`, or, beside publications, `rowtide adopt`; each says what is lost."""
    lake: str
    log_store: str


class LakeOfAnotherHistory(DataLoss, number=1181):
    """The lake has a transaction that the log store never had: database and log store were restored, the lake was not,
    or the log store alone.
    """

    fact = "the log store is not the one that the lake was captured from: {contradiction}"
    hint = """The log store was restored to an earlier state than the lake, alone or with the database; nothing was
        captured since. Restore the lake of that time too; or run `rowtide adopt`, which continues after a gap, and
        `rowtide replication reinitialize PUBLICATION` for each publication."""
    contradiction: str


class ValuesDoNotFit(RowtideError, number=8115):
    """Captured values do not fit the type that their column has now (SQL Server: 8115).

    Without event triggers, a column that was dropped and added again is taken for one whose type was altered.
    """

    fact = """{count} values of {column} captured by {instance} do not fit {type_name}, the type of the column that has
        its name in the source now"""
    hint = """Nothing is lost: everything before the change is published, the log is kept. Consume it, then remove them
        by `rowtide cdc cleanup {instance} --low-water-mark LSN`, the LSN of the last change that was consumed, or
        disable the instance and enable it again."""
    count: int
    column: str
    instance: str
    type_name: str


class MendingFailed(RowtideError, number=8164):
    """The process that holds the lake could not remove type widening from a table."""

    fact = "the tables of {instance} could not be mended: {reason}"
    hint = "What was done stays, and no row is missing. Remove the cause and run the command again: it resumes."
    instance: str
    reason: Said


class LowWaterMarkOutOfRange(Invalid, number=22957):
    """The mark must lie inside the instance's validity interval (SQL Server: 22957)."""

    fact = "low-water mark {mark} is below the low endpoint {low} of {instance}"
    hint = "Low endpoints only move up; name an LSN of the validity interval."
    mark: str
    instance: str
    low: str


class LowWaterMarkUnknown(NotFound, number=22964):
    """The mark must be the LSN of a captured transaction (SQL Server: 22964)."""

    fact = "low-water mark {mark} is not a transaction of lsn_time_mapping"
    hint = "Name the `start_lsn` of one; `rowtide cdc lsn max` prints the last."
    mark: str


class CleanupImplausible(RowtideError, number=4125):
    """The last captured commit time may have jumped: cleanup by it could remove rows that should be kept."""

    fact = "cleanup would move the low-water mark from {before} to {time}, by more than has passed since {set_at}"
    hint = "If the source's clock was right, repeat with --force; if it was wrong, name a --low-water-mark."
    time: str
    before: str
    set_at: str


class CleanupIncomplete(RowtideError, number=22852):
    """Low endpoints moved, but rows below them could not be removed everywhere (SQL Server: 22852)."""

    fact = "low endpoints are moved, but rows are left in {failures}"
    hint = "Queries do not return them; the next cleanup removes them."
    failures: str


class MaxLatencyInvalid(Invalid, number=8173):
    """The latency that capture may have to save requests is negative, or longer than an hour."""

    fact = "capture cannot be up to {value:g} s late"
    hint = "Give --max-latency from 0 to 3600 seconds."
    value: float


class RequestPricesInvalid(Invalid, number=8174):
    """The variable for the prices of requests to the bucket does not hold two prices."""

    fact = 'ROWTIDE_REQUEST_PRICES is "{text}"'
    hint = "Give the prices of a thousand PUT or LIST and of a thousand GET, as 0.005,0.0004."
    text: str


class SnapshotOpen(AlreadyExists, number=4210):
    """A snapshot of the instance is requested already, or being copied."""

    fact = "a snapshot of capture instance {instance} is requested already, and not finished"
    hint = "Wait until it has ended (`rowtide cdc snapshots`), or run `rowtide cdc snapshots --cancel {instance}`."
    instance: str


class SnapshotNotOpen(NotFound, number=4211):
    """No snapshot of the instance is requested or being copied."""

    fact = "no snapshot of {name} is requested or being copied"
    hint = "`rowtide cdc snapshots` lists those that are; `rowtide cdc resnapshot TABLE` requests one."
    name: str


class SnapshotNeedsKey(Invalid, number=4212):
    """Some rows of a table can be copied again only if it has a key."""

    fact = "capture instance {instance} has no key by which copied rows replace others"
    hint = "Omit --where: the whole table is copied again."
    instance: str


class SnapshotConditionInvalid(Invalid, number=4213):
    """The server refuses the condition of a snapshot."""

    fact = "the server refuses the condition {condition}: {reason}"
    hint = "Write it as after `where` in SQL, with columns of this table only."
    condition: str
    reason: str


class SnapshotRateInvalid(Invalid, number=4214):
    """The rate of a snapshot is at least one row a second."""

    fact = "{rows_per_second} rows a second is not a rate of a snapshot"
    hint = "Name at least 1; to stop for a while, pause the snapshot."
    rows_per_second: int


class SnapshotCopyBroken(RowtideError, number=22861):
    """The copy of a table met an unknown error; capture and other copies continue."""

    fact = "the copy of {instance} has ended: {reason}"
    hint = "Capture continues. `rowtide cdc resnapshot {instance}` copies the table again; the process logged where."
    instance: str
    reason: Said


class DifferenceImpossible(Invalid, number=4270):
    """What a gap changed cannot be found for some capture instances."""

    fact = "what the gap changed cannot be found: {reasons}"
    hint = """Enable the tables of articles with a snapshot, or drop the publications. An instance begins again after
        the gap if that is allowed: the command asks, and in Python `restart` names it. `rowtide cdc reinitialize` lets
        all instances begin again."""
    reasons: str


class TableRenamed(Invalid, number=4271):
    """A table was renamed or dropped while it was locked for the comparison."""

    fact = "table {table} was renamed, dropped or altered while the gap was being reconciled"
    hint = "Repeat the command."
    table: str
