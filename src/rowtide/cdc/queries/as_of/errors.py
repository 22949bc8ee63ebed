"""The numbered errors of tables as of an LSN: 4250-4269, 2217."""

from __future__ import annotations

from rowtide.core.errors import DataLoss, Invalid, NotFound, Retryable


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
