"""Log records as a server could send them, each written as what changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from rowtide.core.operations import Operation
from rowtide.core.records import RECORD
from rowtide.core.tables import ImageKind

Image = list[str | None]

_TIME = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """A change of a row; `unsent` are the places that its new row lacks, of a table with so many columns."""

    operation: Operation
    image: ImageKind = ImageKind.NONE
    before: Image | None = None
    after: Image | None = None
    unsent: Collection[int] = ()

    @property
    def absent(self) -> bytes | None:
        """`RECORD.absent`."""
        bits = sum(1 << place for place in self.unsent)
        return bits.to_bytes((len(self.after or ()) + 7) // 8, "little") if self.unsent else None


def insert(*values: str | None) -> Change:
    return Change(Operation.INSERT, after=list(values))


def update(before: Image, after: Image, unsent: Collection[int] = ()) -> Change:
    """Return an update whose old row is whole."""
    return Change(Operation.UPDATE, ImageKind.FULL, before, after, unsent)


def delete(*values: str | None) -> Change:
    """Return a delete whose old row is whole."""
    return Change(Operation.DELETE, ImageKind.FULL, before=list(values))


TRUNCATE = Change(Operation.TRUNCATE)


def log_records(changes: Sequence[Change], *, table_id: int = 1, lsns: Sequence[int] = ()) -> pa.Table:
    """Return the records of changes, with seqvals from 1, of one transaction, 100, unless LSNs are given."""
    rows = [
        (lsn, _TIME, 7, None, seqval, one.operation, table_id, one.image, one.before, one.after, one.absent, None)
        for seqval, (lsn, one) in enumerate(zip(lsns or [100] * len(changes), changes, strict=True), 1)
    ]
    columns: list[list[Any]] = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in RECORD]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, RECORD, strict=True)], schema=RECORD
    )
