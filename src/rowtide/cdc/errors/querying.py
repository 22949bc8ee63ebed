"""Errors of queries of changes, of tables as of an LSN, and of the Spark source."""

from __future__ import annotations

from rowtide.core.errors import DataLoss, Invalid, NotFound, Retryable, RowtideError


class QueryFailed(RowtideError, number=3110):
    """A query on the lake's files failed in this process."""

    fact = "the changes cannot be put together: {reason}"
    hint = "Free memory, or space in the temporary folder (TMPDIR); a smaller range (--from, --to) takes less of both."
    reason: str


class LsnOutOfRange(Invalid, number=313):
    """A bound is outside the validity interval (SQL Server: 313)."""

    fact = "LSN range {from_lsn} to {to_lsn} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Use a range inside it; `rowtide cdc lsn min {instance}` and `rowtide cdc lsn max` print its ends.{gap}"
    instance: str
    from_lsn: str
    to_lsn: str
    low: str
    high: str
    gap: str = ""


class RangeOverGap(DataLoss, number=313):
    """A range contains a transaction whose changes are missing (SQL Server: 313)."""

    fact = "LSN range {from_lsn} to {to_lsn} of {instance} contains {missing}: {note}"
    hint = "Its changes are missing. Query a range up to {before} and one from {after} on."
    instance: str
    from_lsn: str
    to_lsn: str
    missing: str
    note: str
    before: str
    after: str


class TimeOutOfRange(Invalid, number=313):
    """A time is outside the validity interval (SQL Server: 313)."""

    fact = "time {time} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Use times inside it, or omit the bound: the interval's end is used then."
    instance: str
    time: str
    low: str
    high: str


class UnknownTimeOperator(Invalid, number=313):
    """The relational operator is not one of the documented ones (SQL Server: 313)."""

    fact = '"{operator}" is not a relational operator between LSNs and times'
    hint = "Use one of: {operators}."
    operator: str
    operators: str


class InvalidBound(Invalid, number=4141):
    """The text is neither an LSN nor a time, or not a time where one is required."""

    fact = '"{text}" is not {wanted}'
    hint = "Write an LSN as X/Y, epoch:X/Y or an integer; a time as 2026-01-31T08:00:00+01:00, without zone in UTC."
    text: str
    wanted: str


class UnknownRowFilter(Invalid, number=313):
    """The row filter option is not one of the documented ones (SQL Server: 313)."""

    fact = '"{option}" is not a row filter option'
    hint = "Use one of: {options}."
    option: str
    options: str


class NetChangesUnsupported(Invalid, number=208):
    """The instance was enabled without net changes; SQL Server has no such function then (208)."""

    fact = "instance {instance} of table {table} was enabled without net changes, or without a key for them"
    hint = "Query all changes, or disable and enable it again with a primary key, or a unique index by --index."
    instance: str
    table: str


class KeyLost(DataLoss, number=22862):
    """The key of a table no longer identifies rows: its index was dropped or replaced, or its columns may be null."""

    fact = "the key ({columns}) of {instance} no longer identifies its rows: {table} was altered at {lost_at}"
    hint = """Up to {before} it can be read, and all changes later too. Give the table a key again, that is not
        deferrable, of columns that are not null; then run `rowtide cdc disable-table {table} --capture-instance
        {instance}` and `rowtide cdc enable-table {table}`. A target continues after it is dropped and added again."""
    instance: str
    columns: str
    lost_at: str
    table: str
    before: str


class InstanceUnknown(NotFound, number=22960):
    """There is no such capture instance (SQL Server: 22960)."""

    fact = "there is no capture instance {instance}"
    hint = "`rowtide cdc instances` lists them; a newly enabled instance appears when capture has read that far."
    instance: str


class InstanceNotReadable(NotFound, number=22981):
    """There is no such capture instance, or this role may not know of it (SQL Server: 22981)."""

    fact = "there is no capture instance {instance}, or role {role} may not read it"
    hint = "{granting}`rowtide cdc instances` lists those that it may read."
    instance: str
    role: str
    granting: str


class WrapperColumnUnknown(NotFound, number=22918):
    """The column list of a wrapper function names a column that is not captured (SQL Server: 22918)."""

    fact = "the column list names {column}, which is not a captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


class WrapperFlagUnknown(NotFound, number=22919):
    """The flag list of a wrapper function names a column that is not captured (SQL Server: 22919)."""

    fact = "the update flag list names {column}, which is not a captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


class WrapperListsNeedInstance(Invalid, number=22921):
    """A list of columns applies to one instance (SQL Server: 22921)."""

    fact = "lists of columns were given for the wrapper functions of every instance"
    hint = "Name the instance, or omit --column-list and --update-flag-list."


class NeverCopied(NotFound, number=4250):
    """A table as of an LSN is made of a snapshot and the changes since."""

    fact = "no snapshot of {instance} is complete: the rows that its table had before are not in the lake"
    hint = "`rowtide cdc resnapshot {instance}` copies them; `rowtide cdc snapshots` shows how far a copy is."
    instance: str


class BeforeSnapshot(Invalid, number=4251):
    """Below the LSN at which a snapshot is complete, its rows are from several points in time."""

    fact = "{instance} cannot be read as of {lsn}: its first usable snapshot is complete as of {earliest}"
    hint = "Read it as of {earliest} or later."
    instance: str
    lsn: str
    earliest: str


class OutsideInterval(Invalid, number=4252):
    """A table is read as of LSNs of its instance's validity interval."""

    fact = "{instance} cannot be read as of {lsn}: its validity interval is {low} to {high}"
    hint = "Use an LSN inside it; `rowtide cdc lsn min {instance}` and `rowtide cdc lsn max` print its ends.{gap}"
    instance: str
    lsn: str
    low: str
    high: str
    gap: str = ""


class RewrittenSinceSnapshot(DataLoss, number=4253):
    """A statement changed values without change rows, after the snapshot."""

    fact = """{instance} cannot be read as of {lsn}: a statement changed values without change rows at {ddl_lsn}:
        {command}"""
    hint = "`rowtide cdc resnapshot {instance}` copies the rows again; then it can be read as of that snapshot.{before}"
    instance: str
    lsn: str
    ddl_lsn: str
    command: str
    before: str = ""


class ChangesMissingSinceSnapshot(DataLoss, number=4254):
    """Changes after the snapshot are missing."""

    fact = "{instance} cannot be read as of {lsn}: changes since its last snapshot are missing, at {missing}: {note}"
    hint = "`rowtide cdc resnapshot {instance}` copies the rows again; then it can be read as of that snapshot."
    instance: str
    lsn: str
    missing: str
    note: str


class ColumnNotCaptured(NotFound, number=4255):
    """Only captured columns can be read."""

    fact = "{instance} has no column {column}"
    hint = "Its columns are: {columns}."
    instance: str
    column: str
    columns: str


class TypesDiffer(Retryable, number=2217):
    """Capture changes the column types of the change table first, then those of the base."""

    fact = "the change table of {instance} and its base have other types of {columns}"
    hint = "Capture is changing them, and resumes where it was interrupted: retry, at the latest after its next cycle."
    instance: str
    columns: str


class SourceOptionInvalid(Invalid, number=4300):
    """An option of the Spark source is unknown, missing, or has a value that it cannot have."""

    fact = "the option {option} of the Spark source {problem}"
    hint = "{advice}."
    option: str
    problem: str
    advice: str


class StreamOvertaken(DataLoss, number=4301):
    """Changes that a streaming query has not read were removed by a cleanup, or are lost in a gap."""

    fact = "the query resumes at LSN {at}, but {instance} begins at {low} now: {reason}"
    hint = """The changes between are gone. Load the table's rows as of LSN {before} or later, then start the query with
        another checkpointLocation and startingLsn={low}."""
    at: str
    instance: str
    low: str
    reason: str
    before: str


class StreamAhead(Invalid, number=4302):
    """A query's checkpoint is ahead of the lake: it is another lake's, or the lake was restored to an earlier state."""

    fact = "the query resumes after LSN {at}, but the lake {lake} ends at {high}"
    hint = """If the path is that of another lake, name the one of the checkpoint. If the lake was restored, load the
        tables' rows again, and start the query with another checkpointLocation."""
    at: str
    lake: str
    high: str


class StreamedInstanceReplaced(DataLoss, number=4303):
    """An instance of a streaming query was disabled; one enabled under its name since is a different instance."""

    fact = "{instance} is not the instance that the query has read up to LSN {at}: it was disabled and enabled again"
    hint = """Changes between are missing. Load the table's rows as of LSN {low} or later, then start the query with
        another checkpointLocation."""
    instance: str
    at: str
    low: str


class StreamColumnsChanged(Invalid, number=4304):
    """The columns of the changes are no longer those that the query was planned with."""

    fact = "the changes have other columns than the query: {difference}"
    hint = "Start the query again with the same checkpointLocation, and without .schema(): it uses the current columns."
    difference: str


class StreamOffsetUnknown(Invalid, number=4305):
    """A checkpoint has an offset that is not one of this source's."""

    fact = "the checkpoint has the offset {offset}, which is not one of rowtide's"
    hint = "Give each query a checkpointLocation of its own; it belongs to the query's sources."
    offset: str


class StreamedTransactionMissing(DataLoss, number=4306):
    """The next transaction of a streaming query is one whose changes are missing."""

    fact = "everything before LSN {missing} was read, whose changes {instance} lacks: {note}"
    hint = "To continue without them, start the query with another checkpointLocation and startingLsn={after}."
    missing: str
    instance: str
    note: str
    after: str


class StreamedInstanceNeeded(Invalid, number=4307):
    """An instance was omitted before the query was past the first LSN of the one that takes over its table."""

    fact = "{left} is omitted, which the query has read up to LSN {at}, and {instance} begins only at {begin}"
    hint = """Name both, the older first, until the query is past {begin}. If {left} is disabled already, load the
        table's rows as of LSN {before} or later, and start the query with another checkpointLocation."""
    left: str
    at: str
    instance: str
    begin: str
    before: str
