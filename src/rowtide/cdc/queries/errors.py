"""Errors of whoever asks for changes, instances and columns. SQL Server's numbers where it has one, else 4xxx."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


@numbered
class LsnOutOfRange(RowtideError):
    """A bound is outside the validity interval (SQL Server: 313)."""

    number = 313
    fact = "LSN range {from_lsn} to {to_lsn} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Ask for a range inside it; `rowtide cdc lsn min {instance}` and `rowtide cdc lsn max` print its ends.{gap}"
    instance: str
    from_lsn: str
    to_lsn: str
    low: str
    high: str
    gap: str = ""


@numbered
class RangeOverGap(RowtideError):
    """A range contains a transaction whose changes are missing (SQL Server: 313)."""

    number = 313
    fact = "LSN range {from_lsn} to {to_lsn} of {instance} contains {missing}: {note}"
    hint = "Its changes are missing; ask for a range up to {before} and one from {after} on."
    instance: str
    from_lsn: str
    to_lsn: str
    missing: str
    note: str
    before: str
    after: str


@numbered
class TimeOutOfRange(RowtideError):
    """A time is outside the validity interval (SQL Server: 313)."""

    number = 313
    fact = "time {time} is outside the validity interval of {instance}, {low} to {high}"
    hint = "Ask for times inside it, or leave the bound out: it is the interval's end then."
    instance: str
    time: str
    low: str
    high: str


@numbered
class UnknownTimeOperator(RowtideError):
    """The relational operator is none of the documented ones (SQL Server: 313)."""

    number = 313
    fact = '"{operator}" is no relational operator between LSNs and times'
    hint = "Use one of: {operators}."
    operator: str
    operators: str


@numbered
class InvalidBound(RowtideError):
    """The text is neither an LSN nor a time, or a time is wanted and it is none."""

    number = 4141
    fact = '"{text}" is not {wanted}'
    hint = "Write an LSN as X/Y, epoch:X/Y or an integer; a time as 2026-01-31T08:00:00+01:00, without zone in UTC."
    text: str
    wanted: str


@numbered
class UnknownRowFilter(RowtideError):
    """The row filter option is none of the documented ones (SQL Server: 313)."""

    number = 313
    fact = '"{option}" is no row filter option'
    hint = "Use one of: {options}."
    option: str
    options: str


@numbered
class NetChangesUnsupported(RowtideError):
    """The instance was enabled without net changes; SQL Server has no such function then (208)."""

    number = 208
    fact = "instance {instance} of table {table} was enabled without net changes, or without a key for them"
    hint = "Ask for all changes, or disable it and enable it again: with a primary key, or a unique index by --index."
    instance: str
    table: str


@numbered
class InstanceUnknown(RowtideError):
    """There is no such capture instance (SQL Server: 22960)."""

    number = 22960
    fact = "there is no capture instance {instance}"
    hint = "`rowtide cdc instances` lists them; one that was just enabled appears when capture has read that far."
    instance: str


@numbered
class InstanceNotReadable(RowtideError):
    """There is no such capture instance, or this role may not know of it (SQL Server: 22981)."""

    number = 22981
    fact = "there is no capture instance {instance}, or role {role} may not read it"
    hint = "`rowtide cdc instances` lists those that it may read."
    instance: str
    role: str


@numbered
class TableNameIncomplete(RowtideError):
    """Schema and name of a table are given together or not at all (SQL Server: 22972)."""

    number = 22972
    fact = "a schema without a table's name was given, or a name without its schema"
    hint = "Give both, --source-schema and --source-name, or neither."


@numbered
class WrapperColumnUnknown(RowtideError):
    """The column list of a wrapper function names a column that is not captured (SQL Server: 22918)."""

    number = 22918
    fact = "the column list names {column}, which is no captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


@numbered
class WrapperFlagUnknown(RowtideError):
    """The flag list of a wrapper function names a column that is not captured (SQL Server: 22919)."""

    number = 22919
    fact = "the update flag list names {column}, which is no captured column of {instance}"
    hint = "`rowtide cdc columns {instance}` lists them."
    instance: str
    column: str


@numbered
class WrapperListsNeedInstance(RowtideError):
    """Lists of columns are of one instance (SQL Server: 22921)."""

    number = 22921
    fact = "lists of columns were given for the wrapper functions of every instance"
    hint = "Name the instance, or leave --column-list and --update-flag-list out."


@numbered
class LakeUnknown(RowtideError):
    """There is no lake, or capture has never run there."""

    number = 4107
    fact = "nothing was captured to the lake {lake} yet"
    hint = "Check the path; `rowtide cdc run` captures."
    lake: str
