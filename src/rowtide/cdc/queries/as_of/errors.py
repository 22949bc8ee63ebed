"""The numbered errors of tables as of an LSN: 4250-4269."""

from __future__ import annotations

from rowtide.core.errors import DataLoss, Invalid, NotFound, numbered


@numbered
class NeverCopied(NotFound):
    """A table as of an LSN is made of a snapshot and the changes since."""

    number = 4250
    fact = "no snapshot of {instance} is complete: the rows that its table had before are not in the lake"
    hint = "`rowtide cdc resnapshot {instance}` copies them; `rowtide cdc snapshots` shows how far a copy is."
    instance: str


@numbered
class BeforeSnapshot(Invalid):
    """Below the LSN at which a snapshot is complete its rows are of several moments."""

    number = 4251
    fact = "{instance} cannot be read as of {lsn}: its first usable snapshot is complete as of {earliest}"
    hint = "Read it as of {earliest} or later."
    instance: str
    lsn: str
    earliest: str


@numbered
class OutsideInterval(Invalid):
    """A table is read as of LSNs of its instance's validity interval."""

    number = 4252
    fact = "{instance} cannot be read as of {lsn}: its validity interval is {low} to {high}"
    hint = "Use an LSN inside it; `rowtide cdc lsn min {instance}` and `rowtide cdc lsn max` print its ends.{gap}"
    instance: str
    lsn: str
    low: str
    high: str
    gap: str = ""


@numbered
class RewrittenSinceSnapshot(DataLoss):
    """A statement changed values without change rows, after the snapshot."""

    number = 4253
    fact = (
        "{instance} cannot be read as of {lsn}: a statement changed values without change rows at {ddl_lsn}: {command}"
    )
    hint = "`rowtide cdc resnapshot {instance}` copies the rows again; then it can be read as of that snapshot.{before}"
    instance: str
    lsn: str
    ddl_lsn: str
    command: str
    before: str = ""


@numbered
class ChangesMissingSinceSnapshot(DataLoss):
    """Changes after the snapshot are missing."""

    number = 4254
    fact = "{instance} cannot be read as of {lsn}: changes since its last snapshot are missing, at {missing}: {note}"
    hint = "`rowtide cdc resnapshot {instance}` copies the rows again; then it can be read as of that snapshot."
    instance: str
    lsn: str
    missing: str
    note: str


@numbered
class ColumnNotCaptured(NotFound):
    """Only captured columns can be read."""

    number = 4255
    fact = "{instance} has no column {column}"
    hint = "Its columns are: {columns}."
    instance: str
    column: str
    columns: str
