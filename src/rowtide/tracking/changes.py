"""What an enumeration returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from rowtide.core.anchors import Anchor


class Operation(StrEnum):
    """What happened to a row, seen from one anchor to the next."""

    DELETE = "delete"
    INSERT = "insert"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Change:
    """A row's net change; `row` has the columns that the change names: all of the table, for a delete its key's."""

    table: str
    operation: Operation
    columns: tuple[str, ...]
    row: tuple[object, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the row, column name to value."""
        return dict(zip(self.columns, self.row, strict=True))


@dataclass(frozen=True, slots=True)
class DeclaredColumn:
    """A column of a table, and its type as the database's SQL writes it: of a domain, what it is over."""

    name: str
    type_text: str


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table in the snapshot that changes are read from, under the name that they give it."""

    name: str
    columns: tuple[DeclaredColumn, ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for: the changes of `tables` since an anchor, all rows where there is none.

    Changes that carry `exclude_context` are left out. Tables that are in `whole` too are copied, whatever changed.
    With `as_texts` each value is the text that the database itself would write for it.
    """

    tables: Sequence[str]
    since: Anchor | None = None
    exclude_context: UUID | None = None
    whole: Sequence[str] = ()
    as_texts: bool = False

    def since_of(self, table: str) -> Anchor | None:
        """Return where a table's window begins; None where all of it is wanted."""
        return None if table.lower() in (name.lower() for name in self.whole) else self.since


@dataclass(frozen=True, slots=True)
class OwnTransaction:
    """A transaction that writes with a BSN of its own (SQL Server Compact: SqlCeTransaction).

    `anchor` is to be kept instead of the one that the writer has seen, once it is committed: it covers the same
    changes, and is refused where the transaction is lost by a restore. None where no anchor was named.
    """

    bsn: int
    anchor: Anchor | None


class Changes:
    """The changes of one window, all tables in one snapshot: deletes first, then inserts and updates.

    Inserts and updates are to be applied as "insert or update", deletes as "delete if it is there". `anchor` is what
    the next enumeration begins from, once these are applied. `tables` are those that were named, in that order. They
    are read as they are asked for, once.
    """

    def __init__(self, anchor: Anchor, tables: tuple[DeclaredTable, ...], changes: Iterator[Change]) -> None:
        self.anchor = anchor
        self.tables = tables
        self._changes = changes

    def __iter__(self) -> Iterator[Change]:
        return self._changes
