"""What the hub writes in place of uploaded changes that it rejects, or that go no further. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rowtide.merge.conflicts.resolution import combine, decide, indexes_unlike, withdrawal
from rowtide.merge.session.exchange import accepted
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write
from rowtide.merge.versions.comparison import Lineage, changed_apart, encode_columns


def uploaded(
    sent: RowChange, known: KnownVersion, publisher_row: Row | None, origin: int, priority: float | None
) -> Write:
    """Return a subscriber's change of an upload-only row that the hub has: the subscriber's version wins.

    It never learns of the hub's version, so that the outcome must not be at odds with its next change: the row stays
    its own version, or with column tracking keeps the hub's values of those columns alone that it did not change, and
    whose changes these are. What was overridden once stays so, even if it is uploaded again. To undo the hub's changes
    would take one of several devices' versions for the right one, and delete the hub's inserts.
    """
    if sent.columns is not None and publisher_row is not None:
        ahead, _ = changed_apart(sent.version, known.version)
        theirs = {place: change for place, change in (sent.version.columns or {}).items() if place in ahead}
        write = combine(sent, known, publisher_row, ahead)
        return write._replace(
            columns=encode_columns({**(known.version.columns or {}), **theirs}), own_columns=frozenset()
        )
    return overriding(known, [accepted(sent, known, origin, priority)])[0]


def overriding(known: KnownVersion, writes: Sequence[Write]) -> list[Write]:
    """Return versions of upload-only rows that are known alike, as such that have overridden these."""
    joined = {write.lineage: known.version.lineage.joined(Lineage.decode(write.lineage)).encode() for write in writes}
    return [write._replace(lineage=joined[write.lineage]) for write in writes]


def instead(change: RowChange, known: KnownVersion | None, row: Row | None, *, is_new: bool = False) -> Write:
    """Return a row as the hub's own change, in place of the received one; `is_new`: it may have values of neither."""
    if known is not None:
        renewed = indexes_unlike(row, change.row) if is_new and row is not None else frozenset[int]()
        return decide(change, known, row, renewed=renewed)
    withdrawn = withdrawal(change.rowguid, change.lineage, is_live=False)
    return withdrawn if row is None else withdrawn._replace(row=row, columns=change.columns)
