"""Errors of conflicts, comparisons and documented tables."""

from __future__ import annotations

from rowtide.core.errors import Denied, NotFound, RowtideError


class ParentInInbox(Denied, number=8051):
    """The publisher does not have the parent of a row that is to be restored."""

    fact = "conflict {conflict_id} is a row of {table} whose parent in {parent}, {rowguid}, is not at the publisher"
    hint = "Resolve the conflict of the parent, which restores its children too; one that was deleted has none."
    conflict_id: str
    table: str
    parent: str
    rowguid: str


class ConflictUnknown(NotFound, number=8019):
    """No conflict with this id is stored."""

    fact = "there is no conflict {conflict_id} in this database"
    hint = "List conflicts with `rowtide merge conflicts PUBLICATION`."
    conflict_id: str


class ConflictNotAtHub(Denied, number=8020):
    """Conflicts are resolved at the publisher."""

    fact = "conflict {conflict_id} is stored here, but this database is a subscriber"
    hint = "Resolve it at the publisher, which also has it after a synchronisation."
    conflict_id: str


class ConflictOfSubscriber(Denied, number=8023):
    """A subscriber refused a row: the publisher has no other version to choose."""

    fact = "conflict {conflict_id} is a row that the subscriber refuses"
    hint = "Fix the cause at the subscriber, or the row here: each synchronisation sends it again."
    conflict_id: str


class ChangedSince(Denied, number=8170):
    """A row has changed since its conflict was decided, and the version that is chosen would replace that."""

    fact = "conflict {conflict_id} is of row {rowguid} of {table}, and since it was decided {later} at the publisher"
    hint = """Look at the row. To replace it nevertheless, add --over-later-changes (in Python,
        over_later_changes=True): the replaced row is kept as a conflict."""
    conflict_id: str
    table: str
    rowguid: str
    later: str


class StillReferenced(Denied, number=8171):
    """A version that is chosen is a delete, and rows of the publisher reference the row."""

    fact = "conflict {conflict_id} would delete row {rowguid} of {table}, which rows of {child} reference"
    hint = "Delete these rows at the publisher, or let them reference another one; then resolve the conflict."
    conflict_id: str
    table: str
    rowguid: str
    child: str


class MergeValidationFailed(RowtideError, number=8022):
    """Rows differ between publisher and subscriber (SQL Server: 20574)."""

    fact = "{failed} of {all} articles differ between the publisher and {subscriber}"
    hint = """Synchronise while there are no writes, and validate again; if they still differ, `rowtide merge
        reinitialize PUBLICATION --subscriber {subscriber}`."""
    subscriber: str
    failed: int
    all: int


class DocumentedTableUnknown(NotFound, number=8081):
    """SQL Server documents no such table of merge, or it has no counterpart here."""

    fact = "there is no table {name}"
    hint = "Choose one of {names}."
    name: str
    names: str


class NeverValidated(NotFound, number=8082):
    """A subscriber's rows were never found equal to the publisher's, so there is no such time to start from."""

    fact = "no validation of {subscriber} has found all rows equal"
    hint = "Give a date, or repeat everything that still has metadata: `--since start`."
    subscriber: str
