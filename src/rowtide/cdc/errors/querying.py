"""Errors of queries of changes."""

from __future__ import annotations

from rowtide.core.errors import DataLoss, Invalid, NotFound, RowtideError, numbered


@numbered
class QueryFailed(RowtideError):
    """A query on the lake's files failed in this process."""

    number = 3110
    fact = "the changes cannot be put together: {reason}"
    hint = "Free memory, or space in the temporary folder (TMPDIR); a smaller range (--from, --to) takes less of both."
    reason: str


@numbered
class LsnOutOfRange(Invalid):
    """A bound is outside the validity interval (SQL Server: 313)."""

    number = 313
    fact = "LSN range {from_lsn} to {to_lsn} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Use a range inside it; `rowtide cdc lsn min {instance}` and `rowtide cdc lsn max` print its ends.{gap}"
    instance: str
    from_lsn: str
    to_lsn: str
    low: str
    high: str
    gap: str = ""


@numbered
class RangeOverGap(DataLoss):
    """A range contains a transaction whose changes are missing (SQL Server: 313)."""

    number = 313
    fact = "LSN range {from_lsn} to {to_lsn} of {instance} contains {missing}: {note}"
    hint = "Its changes are missing. Query a range up to {before} and one from {after} on."
    instance: str
    from_lsn: str
    to_lsn: str
    missing: str
    note: str
    before: str
    after: str


@numbered
class TimeOutOfRange(Invalid):
    """A time is outside the validity interval (SQL Server: 313)."""

    number = 313
    fact = "time {time} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Use times inside it, or omit the bound: the interval's end is used then."
    instance: str
    time: str
    low: str
    high: str


@numbered
class UnknownTimeOperator(Invalid):
    """The relational operator is not one of the documented ones (SQL Server: 313)."""

    number = 313
    fact = '"{operator}" is not a relational operator between LSNs and times'
    hint = "Use one of: {operators}."
    operator: str
    operators: str


@numbered
class InvalidBound(Invalid):
    """The text is neither an LSN nor a time, or not a time where one is required."""

    number = 4141
    fact = '"{text}" is not {wanted}'
    hint = "Write an LSN as X/Y, epoch:X/Y or an integer; a time as 2026-01-31T08:00:00+01:00, without zone in UTC."
    text: str
    wanted: str


@numbered
class UnknownRowFilter(Invalid):
    """The row filter option is not one of the documented ones (SQL Server: 313)."""

    number = 313
    fact = '"{option}" is not a row filter option'
    hint = "Use one of: {options}."
    option: str
    options: str


@numbered
class NetChangesUnsupported(Invalid):
    """The instance was enabled without net changes; SQL Server has no such function then (208)."""

    number = 208
    fact = "instance {instance} of table {table} was enabled without net changes, or without a key for them"
    hint = "Query all changes, or disable and enable it again with a primary key, or a unique index by --index."
    instance: str
    table: str


@numbered
class KeyLost(DataLoss):
    """The key of a table no longer tells rows apart: its index was dropped or replaced, or its columns may be null."""

    number = 22862
    fact = "the key ({columns}) of {instance} no longer identifies its rows: {table} was altered at {lost_at}"
    hint = (
        "Up to {before} it can be read, and all changes later too. Give the table a key again, that is not deferrable, "
        "of columns that are not null; then run `rowtide cdc disable-table {table} --capture-instance {instance}` and "
        "`rowtide cdc enable-table {table}`. A target goes on after it is dropped and added."
    )
    instance: str
    columns: str
    lost_at: str
    table: str
    before: str


@numbered
class InstanceUnknown(NotFound):
    """There is no such capture instance (SQL Server: 22960)."""

    number = 22960
    fact = "there is no capture instance {instance}"
    hint = "`rowtide cdc instances` lists them; a newly enabled instance appears when capture has read that far."
    instance: str


@numbered
class InstanceNotReadable(NotFound):
    """There is no such capture instance, or this role may not know of it (SQL Server: 22981)."""

    number = 22981
    fact = "there is no capture instance {instance}, or role {role} may not read it"
    hint = "`rowtide cdc instances` lists those that it may read."
    instance: str
    role: str


@numbered
class WrapperColumnUnknown(NotFound):
    """The column list of a wrapper function names a column that is not captured (SQL Server: 22918)."""

    number = 22918
    fact = "the column list names {column}, which is not a captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


@numbered
class WrapperFlagUnknown(NotFound):
    """The flag list of a wrapper function names a column that is not captured (SQL Server: 22919)."""

    number = 22919
    fact = "the update flag list names {column}, which is not a captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


@numbered
class WrapperListsNeedInstance(Invalid):
    """A list of columns applies to one instance (SQL Server: 22921)."""

    number = 22921
    fact = "lists of columns were given for the wrapper functions of every instance"
    hint = "Name the instance, or leave --column-list and --update-flag-list out."
