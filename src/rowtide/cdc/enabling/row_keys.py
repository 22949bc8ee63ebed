"""Which unique index identifies an instance's rows (SQL Server: @index_name, @supports_net_changes). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rowtide.cdc.errors.enabling import (
    BeforeImagesNeedKey,
    IndexInvalid,
    IndexNotUsable,
    IndexUnknown,
    KeyImagesOfPartitions,
    NetChangesNeedKey,
)
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.source_table import SourceIndex, SourceTable, TableKind


@frozen
class RowKey:
    """The columns that identify a row, in the order of their index; without an index, no columns and no name.

    `problem` is why the primary key does not identify rows at every moment, and is omitted; None if it does.
    """

    index_name: str | None
    columns: tuple[str, ...]
    is_primary: bool
    problem: str | None

    @property
    def identity_index(self) -> str | None:
        """The index that is the replica identity of the key, None for the primary key's."""
        return None if self.is_primary else self.index_name


def choose_key(table: SourceTable, index_name: str | None) -> RowKey:
    """Return the key of the named index, else the primary key's, else none.

    Raises `IndexUnknown`, `IndexInvalid`, `IndexNotUsable`.
    """
    if index_name is None or index_name == table.key_name:
        return _primary_key(table)
    index = table.find_index(index_name)
    if index is None:
        raise IndexUnknown(table.qualified_name, index_name)
    if not index.is_valid:
        raise IndexInvalid(table.qualified_name, index_name, quote_qualified(table.schema, index_name))
    problem = find_problem(table, index)
    if problem is not None:
        raise IndexNotUsable(table.qualified_name, index_name, problem)
    return RowKey(index.name, _names(index), is_primary=False, problem=None)


def decide_net_changes(table: SourceTable, key: RowKey, wanted: bool | None) -> bool:  # noqa: FBT001 - the option
    """Return whether an instance supports net changes; if None, whether it can. Raises `NetChangesNeedKey`."""
    problem = key.problem or ("it has no primary key" if not key.columns else None)
    if wanted and problem is not None:
        raise NetChangesNeedKey(table.qualified_name, problem)
    return problem is None if wanted is None else wanted


def require_images(table: SourceTable, key: RowKey, before_images: BeforeImages) -> None:
    """Raise `BeforeImagesNeedKey` or `KeyImagesOfPartitions` if the log cannot carry the keys of old rows."""
    if before_images is BeforeImages.FULL:
        return
    if not key.columns:
        raise BeforeImagesNeedKey(table.qualified_name)
    if key.identity_index is not None and table.kind is TableKind.PARTITIONED:
        raise KeyImagesOfPartitions(table.qualified_name, key.identity_index)


def is_key_kept(table: SourceTable, columns: Iterable[str]) -> bool:
    """Return whether an index of the table guarantees that rows differ in these columns."""
    wanted = set(columns)
    return any(
        index.is_valid and find_problem(table, index) is None and set(_names(index)) <= wanted
        for index in table.indexes
    )


def find_problem(table: SourceTable, index: SourceIndex) -> str | None:
    """Return why an index does not identify rows at every moment; None if it does."""
    if not index.is_unique:
        return "it is not unique"
    if not index.is_immediate:
        return "it is checked at commit only: it is deferrable"
    if index.is_partial:
        return "it is of some rows only"
    columns = {column.name: column for column in table.columns}
    for name in index.columns:
        if name is None:
            return "it is on an expression"
        if name in columns and columns[name].is_nullable:
            return f"its column {name} may be null"
        if name in columns and columns[name].is_generated:
            return f"its column {name} is generated, which the log does not carry"
    return None


def _primary_key(table: SourceTable) -> RowKey:
    names = tuple(column.name for column in table.key_columns)
    index = table.find_index(table.key_name)
    problem = find_problem(table, index) if index is not None else None
    if problem is not None:
        # Rows may be alike in it for a moment, or the log does not carry it: it is no key.
        return RowKey(None, (), is_primary=False, problem=problem)
    return RowKey(table.key_name, names, is_primary=True, problem=None)


def _names(index: SourceIndex) -> tuple[str, ...]:
    return tuple(name for name in index.columns if name is not None)
