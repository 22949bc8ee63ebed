"""Errors of rows that are refused, of conflicts and comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.core.errors import AlreadyExists, Denied, Invalid, NotFound, RowtideError
from rowtide.core.redaction import Said

FOREIGN_KEY_CODES = ("23503", "23001", "SQLITE_CONSTRAINT_FOREIGNKEY")
"""Codes of refusals by a foreign key, PostgreSQL's and SQLite's."""
UNIQUE_CODES = ("23505", "SQLITE_CONSTRAINT_UNIQUE")
"""Codes of refusals by a unique key that is not the primary one."""


NOT_UTF_8 = ("22021", "a text in the row is not valid UTF-8")
"""Code, PostgreSQL's, and reason of refusing a row with such a text."""


class RowsRefused(RowtideError, number=8007):
    """A node refuses rows: by a constraint, a trigger of the user's, or a type that cannot hold the value."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """See `rowtide merge conflicts PUBLICATION`. Each synchronisation tries a row again that a node sent; repeat
        a decision (`rowtide merge resolve CONFLICT --winner WINNER`) once the row fits what refused it."""
    table: str
    code: str
    reason: Said


class CopiedRowRefused(RowsRefused, number=8133):
    """A subscriber's database refuses a row of the copy that a subscription begins with."""

    fact = "{table} at the subscriber refused a row of the copy ({code}): {reason}"
    hint = """Change the row at the publisher, or keep it from this subscriber with a filter or without the column, and
        run the command again."""


OUTSIDE_REASON = "it is outside of the subscriber's partition"


class RowOutsidePartition(RowsRefused, number=8027):
    """A subscriber wrote a row outside its partition."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """With --partition-options shared and one-subscriber a subscriber may write only rows of its partition; see
        `rowtide merge conflicts PUBLICATION`."""

    @classmethod
    def of(cls, table: str) -> RowOutsidePartition:
        """Return the error of a table's row."""
        return cls(table, "RT-8027", OUTSIDE_REASON)


class PartitionMoved(RowsRefused, number=8040):
    """A subscriber changed a column that decides about partitions."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """With --partition-options unmoved a subscriber may not change the columns that filters use; see
        `rowtide merge conflicts PUBLICATION`."""


class RowNotHeld(RowsRefused, number=8140):
    """A subscriber wrote to a row that the publisher did not send to it, or that had left it."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """The row stays as it is at the publisher, and is restored at the subscriber; what the subscriber had is in
        the conflict. If that is right, as after a file was restored whose row had moved meanwhile, run `rowtide merge
        resolve CONFLICT --winner subscriber`."""

    @classmethod
    def of(cls, table: str) -> RowNotHeld:
        """Return the error of a table's row."""
        return cls(table, "RT-8140", "the subscriber does not have the row: it was not sent there, or had left")


class ColumnGone(RowsRefused, number=8188):
    """A subscriber wrote to a column that the publisher has dropped meanwhile."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """The row has arrived without the column, which the subscriber drops, too; what the subscriber had in it is
        in the conflict at both ends: `rowtide merge conflicts PUBLICATION`."""

    @classmethod
    def of(cls, table: str, columns: Sequence[str]) -> ColumnGone:
        """Return the error of a table's row."""
        return cls(
            table, "RT-8188", f"the publisher no longer sends what the subscriber wrote to: {', '.join(columns)}"
        )


class WriteIgnored(RowsRefused, number=8189):
    """A trigger or rule of the publisher's table left a subscriber's change unwritten, without an error."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """The row goes back to the subscriber as it is at the publisher, which may be without it; what the
        subscriber had is in the conflict. Once the trigger lets it through, run `rowtide merge resolve CONFLICT
        --winner subscriber`."""

    @classmethod
    def by(cls, table: str, ignoring: Sequence[str]) -> WriteIgnored:
        """Return the error of a table's row; `ignoring` are those that may have left it unwritten."""
        return cls(table, "RT-8189", f"the publisher's table did not write it: {', '.join(ignoring)}")


class ParentNotThere(RowsRefused, number=8050):
    """The publisher does not have the row that an uploaded one references."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """The row went to the conflict inbox with its parent, or alone if the publisher had deleted that; restore
        both with `rowtide merge resolve CONFLICT --winner subscriber`."""

    @classmethod
    def named(cls, table: str, parent: str, rowguid: str) -> ParentNotThere:
        """Return the error of a row whose parent is missing."""
        return cls(table, "RT-8050", f"its parent in {parent}, {rowguid}, is not at the publisher")


CHILDREN_NOT_SEEN = "RT-8160"
"""Code of what is refused, or lost, because a delete reaches rows that its sender had not seen."""


class ChildrenNotSeen(RowsRefused, number=8160):
    """A delete, or a new key, would reach rows, by foreign keys' actions, that the subscriber had not seen."""

    fact = "{table} refused a row ({code}): {reason}"
    hint = """The row returns to the subscriber, with those that were deleted with it. Do it again once the subscriber
        has the rows that reference it, or run `rowtide merge change-article PUBLICATION {table} --on-unseen-children
        record`: each row that is lost becomes a conflict then."""

    @classmethod
    def reaching(cls, table: str, child: str, rowguid: str) -> ChildrenNotSeen:
        """Return the error of a row that a row of another table references, at some depth."""
        return cls(
            table, CHILDREN_NOT_SEEN, f"the subscriber had not seen row {rowguid} of {child}, which references it"
        )

    @classmethod
    def together(cls, table: str, parent: str, rowguid: str) -> ChildrenNotSeen:
        """Return the error of a row that was deleted with another one whose delete is refused."""
        return cls(table, CHILDREN_NOT_SEEN, f"it was deleted with row {rowguid} of {parent}, which stays")


class RowTooLarge(RowtideError, number=8143):
    """A subscriber's row is larger than the limit."""

    fact = "row {rowguid} of {table} at the subscriber has more than {limit:,} bytes"
    hint = "Make it smaller there, or raise --max-row-bytes: nothing of its batch was accepted."
    table: str
    rowguid: str
    limit: int


class UploadTooLarge(RowtideError, number=8144):
    """A subscriber has more to upload than the limit for one synchronisation."""

    fact = "the subscriber uploads more than {limit}"
    hint = """If that is right, as after a long time without a synchronisation, give --max-upload-rows or
        --max-upload-bytes more; what was accepted before stays."""
    limit: str


class LogicalRecordsTooLarge(RowtideError, number=8446):
    """A device behind a gateway uploads more logical records than the gateway keeps until all have come."""

    fact = "the logical records that {device} uploads exceed {limit}"
    hint = """Run `rowtide merge sync {publication} --subscriber FILE --db URL` once with the publisher's database URL.
        The device's changes stay in its file until then."""
    device: str
    publication: str
    limit: str


class IdentityRangeExhausted(RowtideError, number=8053):
    """A table's key has no numbers left that a node could be given."""

    fact = "there are no numbers left for the key of {table}"
    hint = """If the key is of a small integer type, use a larger one. At a node that publishes what it subscribes to,
        synchronise with its own publisher first."""
    table: str


class IdentityRangeDoubtful(Denied, number=8443):
    """A device that synchronises over HTTP says that it has numbers above all that its publisher has given."""

    fact = "{subscriber} says that it numbers rows of {table} up to {last}, which the publisher has not given"
    hint = """After the publisher was restored from a backup, run `rowtide merge restore-identity-range PUBLICATION
        TABLE`; otherwise look for a client other than rowtide. What the device has uploaded was accepted."""
    subscriber: str
    table: str
    last: int


class IdentityRangeMissing(Invalid, number=8054):
    """A node has no numbers of a table that it could give to subscribers."""

    fact = "this node has no numbers of {table} that it could give to subscribers"
    hint = """Publish the table with --identity-range. If another publisher numbers it, subscribe this node there as a
        server (`rowtide merge add-subscription PUBLICATION --subscriber URL --type server`) to an article with
        --publisher-identity-range."""
    table: str


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


class MergeConflictSettled(AlreadyExists, number=1197):
    """A person has decided about a conflict of merge already, perhaps at the same moment."""

    fact = "conflict {conflict_id} was settled by {decided_by} at {settled_at}"
    hint = "With --again the decision is changed."
    conflict_id: str
    decided_by: str
    settled_at: str


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
