"""What a copy has of a table. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.databases.postgres.operators import ColumnOperators
from rowtide.databases.postgres.values import is_of_server


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a table's key, with its type as SQL writes it; of a domain, whose checks are others' code, the base.

    `operators` are those of the key's index, None for a type of the server's own.
    """

    name: str
    type_text: str
    operators: ColumnOperators | None = None

    @property
    def is_built_in(self) -> bool:
        """Whether the type is the server's own."""
        return is_of_server(self.type_text)


@dataclass(frozen=True, slots=True)
class TableOwner:
    """The function that reads a table as its owner, and the types of the copied columns, which it has to be told."""

    reading: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table to be copied: its member id in the log, the columns, the key in key order, and an SQL condition.

    Without a key it is one chunk; without a condition all rows are copied. `source_id` is its id in the source,
    `numbers` are those of the columns there. `owner`: it is read as this role, see `owned_tables`.
    """

    member_id: str
    source_id: int
    schema: str
    table: str
    columns: tuple[str, ...]
    numbers: tuple[int, ...]
    key_columns: tuple[KeyColumn, ...]
    condition: str | None = None
    is_partitioned: bool = False
    owner: TableOwner | None = None

    @property
    def qualified_name(self) -> str:
        """The table's name with its schema."""
        return f"{self.schema}.{self.table}"
