"""What the hub writes in place of uploaded changes that it rejects, or that go no further. Pure."""

from __future__ import annotations

from rowtide.merge.conflicts.resolution import combine, decide, withdrawal
from rowtide.merge.session.exchange import taken
from rowtide.merge.versions.changes import Known, Row, RowChange, Write
from rowtide.merge.versions.comparison import changed_apart
from rowtide.merge.versions.lineage import encode_columns


def uploaded(sent: RowChange, known: Known, publisher_row: Row | None, origin: int, priority: float | None) -> Write:
    """Return a subscriber's change of an upload-only row that the hub has changed too: the subscriber's wins.

    It never learns of the hub's change, so that the outcome must not be at odds with its next change: the row stays its
    own version, or with column tracking keeps the hub's values of those columns alone that it did not change.
    """
    if sent.columns is not None and publisher_row is not None:
        ahead, behind = changed_apart(sent.version, known.version)
        columns = dict(known.version.columns or {}) | dict(sent.version.columns or {})
        write = combine(sent, known, publisher_row, ahead)
        return write._replace(columns=encode_columns(columns), own_columns=behind - ahead)
    included = known.version.lineage.joined(sent.version.lineage).encode()
    return taken(sent, known, origin, priority)._replace(lineage=included)


def instead(change: RowChange, known: Known | None, row: Row | None, *, is_new: bool = False) -> Write:
    """Return a row as the hub's own change, in place of the received one; `is_new`: it may have values of neither."""
    if known is not None:
        return decide(change, known, row, renewed=frozenset(range(len(row or ())) if is_new else ()))
    withdrawn = withdrawal(change.rowguid, change.lineage, is_live=False)
    return withdrawn if row is None else withdrawn._replace(row=row, columns=change.columns)
