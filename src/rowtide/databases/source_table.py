"""A table as described by a source database's catalogue, the same for every database, and whose rights its code has."""

from __future__ import annotations

from enum import Enum, StrEnum

from rowtide.core.values import frozen


class TableKind(Enum):
    """The kind of a table; ordinary tables log rows as their own, partitioned ones those of their partitions."""

    ORDINARY = "ordinary"
    PARTITIONED = "partitioned"
    UNLOGGED = "unlogged"
    TEMPORARY = "temporary"
    FOREIGN = "foreign"


@frozen
class SourceColumn:
    """A column of a source table.

    `type_text` is the type in the database's SQL; `key_ordinal` its position in the primary key, from 1; `is_virtual`:
    it is computed on read, so never stored or logged; `base_type_text` is a domain's base type, None if the type is not
    a domain. `has_deterministic_collation`: equal texts have equal bytes. `expression` is what a generated column is
    computed by, in SQL.
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
    expression: str | None = None

    @property
    def value_type_text(self) -> str:
        """The type that determines the text of its values."""
        return self.base_type_text or self.type_text


@frozen
class SourceIndex:
    """An index of a source table; `columns` are its key's, in order, None for an expression.

    `is_immediate`: uniqueness is checked per row, not at commit; `is_partial`: it covers only some rows; without
    `is_valid` it is being built, or a build was interrupted.
    """

    name: str
    columns: tuple[str | None, ...]
    is_unique: bool
    is_immediate: bool
    is_partial: bool
    is_valid: bool


@frozen
class TablePartition:
    """A descendant of a partitioned table, at any depth; those that are not partitioned themselves store its rows."""

    source_id: int
    schema: str
    name: str
    kind: TableKind
    identity: str
    identity_index: str | None

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


@frozen
class SourceTable:
    """A table of the source database.

    `identity` is, in the database's own terms, what its log carries of old rows, `identity_index` the index used for
    it; `key_name` is the primary key's name; `indexes` includes its index; `ancestors` are the partitioned tables above
    it; `has_relatives`: it takes part in inheritance other than partitioning; `child_tables` are the qualified names of
    the tables that inherit from it, at any depth: a query of the table returns their rows too, but the log has them
    under their own tables.
    """

    source_id: int
    schema: str
    name: str
    kind: TableKind
    identity: str
    identity_index: str | None
    key_name: str | None
    columns: tuple[SourceColumn, ...]
    partitions: tuple[TablePartition, ...] = ()
    ancestors: tuple[int, ...] = ()
    indexes: tuple[SourceIndex, ...] = ()
    has_relatives: bool = False
    child_tables: tuple[str, ...] = ()

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def row_holders(self) -> tuple[TablePartition, ...]:
        """The partitions that store rows."""
        return tuple(partition for partition in self.partitions if partition.kind is not TableKind.PARTITIONED)

    @property
    def key_columns(self) -> tuple[SourceColumn, ...]:
        """The primary key's columns in key order; empty without a primary key."""
        in_key = [column for column in self.columns if column.key_ordinal is not None]
        return tuple(sorted(in_key, key=lambda column: column.key_ordinal or 0))

    def find_index(self, name: str | None) -> SourceIndex | None:
        """Return an index by its name."""
        return next((index for index in self.indexes if index.name == name), None)


class RunAs(StrEnum):
    """Whose rights triggers, defaults, checks and other code of a table of another role have."""

    OWNER = "owner"
    """Those of the table's owner."""
    AGENT = "agent"
    """Those of the role that writes: the tables' owners are trusted with them."""
