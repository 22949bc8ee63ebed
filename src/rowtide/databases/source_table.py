"""A table as a source database's catalogue describes it; the same for every database."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class TableKind(Enum):
    """What sort of table it is; ordinary ones log rows as their own, partitioned ones those of their partitions."""

    ORDINARY = "ordinary"
    PARTITIONED = "partitioned"
    UNLOGGED = "unlogged"
    TEMPORARY = "temporary"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of a source table.

    `type_text` is the type as the database's SQL writes it; `key_ordinal` its place in the primary key, from 1;
    `is_virtual` says that it is computed when it is read, and so never stored or logged; `base_type_text` is what a
    domain's values are, None where the type is no domain; texts are equal that are the same, unless the collation is
    not deterministic.
    """

    number: int
    name: str
    type_code: int
    type_modifier: int
    type_text: str
    is_nullable: bool
    is_generated: bool
    key_ordinal: int | None
    is_virtual: bool = False
    base_type_text: str | None = None
    has_deterministic_collation: bool = True

    @property
    def value_type_text(self) -> str:
        """The type that says how its values are written."""
        return self.base_type_text or self.type_text


@dataclass(frozen=True, slots=True)
class SourceIndex:
    """An index of a source table; `columns` are those of its key, in order, None for an expression.

    `is_immediate` says that it is checked at each row, not at commit; `is_partial` that it is of some rows only; an
    index that is not `is_valid` is being built, or was left half built.
    """

    name: str
    columns: tuple[str | None, ...]
    is_unique: bool
    is_immediate: bool
    is_partial: bool
    is_valid: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """A table below a partitioned one, at any depth; those that are not partitioned themselves hold its rows."""

    source_id: int
    schema: str
    name: str
    kind: TableKind
    identity: str
    identity_index: str | None

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source database.

    `identity` says, in the database's own words, what its log carries of old rows, `identity_index` by which index;
    `key_name` is the primary key's name; `indexes` has its index too; `ancestors` are the partitioned tables above it;
    `has_relatives` says that it inherits from tables, or they from it, but for partitions; `child_tables` are the
    qualified names of the latter, at any depth: a query of the table returns their rows, the log has them as theirs.
    """

    source_id: int
    schema: str
    name: str
    kind: TableKind
    identity: str
    identity_index: str | None
    key_name: str | None
    columns: tuple[SourceColumn, ...]
    partitions: tuple[Partition, ...] = ()
    ancestors: tuple[int, ...] = ()
    indexes: tuple[SourceIndex, ...] = ()
    has_relatives: bool = False
    child_tables: tuple[str, ...] = ()

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def row_holders(self) -> tuple[Partition, ...]:
        """The partitions that hold rows."""
        return tuple(partition for partition in self.partitions if partition.kind is not TableKind.PARTITIONED)

    @property
    def key_columns(self) -> tuple[SourceColumn, ...]:
        """The primary key's columns in the key's order; empty without a primary key."""
        in_key = [column for column in self.columns if column.key_ordinal is not None]
        return tuple(sorted(in_key, key=lambda column: column.key_ordinal or 0))

    def find_index(self, name: str | None) -> SourceIndex | None:
        """Return an index by its name."""
        return next((index for index in self.indexes if index.name == name), None)
