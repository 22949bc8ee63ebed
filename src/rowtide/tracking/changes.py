"""The result of an enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from uuid import UUID

from rowtide.core.anchors import Anchor
from rowtide.core.values import frozen


class NetOperation(StrEnum):
    """A row's net change from one anchor to the next."""

    DELETE = "delete"
    INSERT = "insert"
    UPDATE = "update"


@frozen
class Change:
    """A row's net change; `row` has all of the table's columns, for a delete the key's only."""

    table: str
    operation: NetOperation
    columns: tuple[str, ...]
    row: tuple[object, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the row as a dictionary by column name."""
        return dict(zip(self.columns, self.row, strict=True))


@frozen
class DeclaredColumn:
    """A column of a table, and its type in the database's SQL; of a domain, the base type."""

    name: str
    type_text: str


@frozen
class DeclaredTable:
    """A table in the snapshot from which changes are read, with the name used in changes."""

    name: str
    columns: tuple[DeclaredColumn, ...]


@frozen
class EnumerationRequest:
    """What to enumerate: the changes of `tables` since an anchor, all rows without one.

    Changes with `exclude_context` are omitted. Tables also in `whole` are copied in full. With `as_texts`, values are
    in the database's own text form.
    """

    tables: Sequence[str]
    since: Anchor | None = None
    exclude_context: UUID | None = None
    whole: Sequence[str] = ()
    as_texts: bool = False

    def since_of(self, table: str) -> Anchor | None:
        """Return where a table's window begins; None for a full copy."""
        return None if table.lower() in (name.lower() for name in self.whole) else self.since


@frozen
class OwnTransaction:
    """A transaction with its own BSN (SQL Server Compact: SqlCeTransaction).

    Once it is committed, store `anchor` in place of the anchor that the writer has seen: it covers the same changes,
    and is refused if a restore loses the transaction. None if no anchor was given.
    """

    bsn: int
    anchor: Anchor | None


class TrackedChanges:
    """The changes of one window, all tables in one snapshot: deletes first, then inserts and updates.

    Apply inserts and updates as upserts, and ignore deletes of absent rows. `anchor` is where the next enumeration
    begins, once these are applied. `tables` are the requested ones, in that order. Changes are read lazily, and only
    once.
    """

    def __init__(self, anchor: Anchor, tables: tuple[DeclaredTable, ...], changes: Iterator[Change]) -> None:
        self.anchor = anchor
        self.tables = tables
        self._changes = changes

    def __iter__(self) -> Iterator[Change]:
        return self._changes
