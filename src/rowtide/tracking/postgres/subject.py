"""A PostgreSQL table with what its triggers and queries need: key, options, names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowtide.databases.postgres.operators import EQUALS
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified
from rowtide.databases.postgres.values import is_of_server, text_of, value_of
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind
from rowtide.tracking.changes import DeclaredColumn, DeclaredTable
from rowtide.tracking.options import Storage, TrackingOptions

CHANGE_BSN = "__sysChangeTxBsn"
INSERT_BSN = "__sysInsertTxBsn"
CONTEXT = "__sysTrackingContext"
STAMPS = {CHANGE_BSN: "bigint", INSERT_BSN: "bigint", CONTEXT: "uuid"}


@dataclass(frozen=True, slots=True)
class Subject:
    """A table, its key for tracking, the tracked operations, and where stamps are stored.

    `equals` are the operators by which rows are found by columns of the key whose types are not the server's; a column
    without one is compared by its text alone.
    """

    table: SourceTable
    key: tuple[SourceColumn, ...]
    options: TrackingOptions
    storage: Storage
    equals: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its exact name in the catalogue of tracking: schema and table."""
        return self.table.qualified_name

    @property
    def table_ids(self) -> list[int]:
        """The oids of the table and of the partitions with its rows."""
        return [self.table.source_id, *(part.source_id for part in self.table.row_holders)]

    @property
    def quoted(self) -> str:
        return quote_qualified(self.table.schema, self.table.name)

    @property
    def rows(self) -> str:
        """The relation to read rows from, without tables that inherit from it, which lack our triggers."""
        return self.quoted if self.is_partitioned else f"only {self.quoted}"

    @property
    def literal(self) -> str:
        """The name as an SQL string literal."""
        return quote_literal(self.name)

    @property
    def is_partitioned(self) -> bool:
        return self.table.kind is TableKind.PARTITIONED

    @property
    def user_columns(self) -> tuple[SourceColumn, ...]:
        """The columns that tracking did not add."""
        return tuple(column for column in self.table.columns if column.name not in STAMPS)

    @property
    def declared(self) -> DeclaredTable:
        """The user's columns with their declared types."""
        return DeclaredTable(
            self.name, tuple(DeclaredColumn(column.name, column.value_type_text) for column in self.user_columns)
        )

    @property
    def key_names(self) -> tuple[str, ...]:
        """The key's columns, quoted."""
        return tuple(quote(column.name) for column in self.key)

    def packed_key(self, row: str) -> str:
        """Return the expression of a row's key in tombstones' form: the texts of its values."""
        texts = (text_of(f"{row}.{quote(column.name)}", column.value_type_text) for column in self.key)
        return f"array[{', '.join(texts)}]"

    def key_differs(self) -> str:
        """Return the condition that an update changed the key's text, even if only from 1.0 to 1.00."""
        return " or ".join(f"({_image_differs(column)})" for column in self.key)

    def has_key(self, row: str, packed: str) -> str:
        """Return the condition that a row has a packed key: found by its values, then compared by text."""
        same = [
            f"{row}.{quote(column.name)} {equals} {value_of(f'{packed}[{place}]', column.value_type_text)}"
            for place, column in enumerate(self.key, 1)
            if (equals := self._equality(column)) is not None
        ]
        return " and ".join([*same, f"{self.packed_key(row)} {EQUALS} {packed}"])

    def _equality(self, column: SourceColumn) -> str | None:
        return EQUALS if is_of_server(column.value_type_text) else self.equals.get(column.name)


def _image_differs(column: SourceColumn) -> str:
    """Return the condition that a column's value has a different binary image; equal values may differ in text."""
    old, new = (f"{row}.{quote(column.name)}" for row in ("old", "new"))
    if column.type_code in _EQUAL_IF_SAME:
        return f"{old} operator(pg_catalog.<>) {new}"
    if column.type_code in _TEXTS:
        return f'{old} collate "C" operator(pg_catalog.<>) {new} collate "C"'
    return f"row({old})::record operator(pg_catalog.*<>) row({new})::record"


_EQUAL_IF_SAME = frozenset({16, 20, 21, 23, 26, 1082, 1114, 1184, 2950})
"""Type codes whose equal values have the same text: boolean, integers, dates and times, uuid."""
_TEXTS = frozenset({25, 1043})
