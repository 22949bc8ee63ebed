"""What a target's table can do, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rowtide.core.lsn import CommitLsn
from rowtide.lake.sql_text import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table's present version: what it has of its source, and its columns' types.

    `versions` are those that it follows from, itself among them. `files` is the number of its data files, 0 only if it
    was never written to. `foreign` says what another client did to its rows since the set's last version.
    """

    version: int
    versions: Container[int]
    lsn: CommitLsn | None
    types: Mapping[str, str]
    files: int
    foreign: str | None = None


Verify = Callable[[], None]
"""Raises `LeaseLost` where another process may write to the target."""


def without_lease() -> None:
    """Verify nothing, for what only reads, or has the table to itself."""


@dataclass(frozen=True, slots=True)
class NewTable:
    """What a table is made with."""

    columns: Sequence[tuple[str, str]]
    cluster_by: Sequence[str]
    partition_by: Sequence[str]
    properties: Mapping[str, str]


def partitioned_by(table: NewTable) -> str:
    """Return the clause of partitions of the statement that makes a table."""
    return f" partitioned by ({', '.join(map(quote, table.partition_by))})" if table.partition_by else ""


class TargetTable(Protocol):
    """A table of a target, in one Spark session."""

    @property
    def location(self) -> str:
        """Its path, or its name in a catalogue."""
        ...

    @property
    def sql_name(self) -> str:
        """Its name in Spark SQL."""
        ...

    def find(self) -> FoundTable | None:
        """Return its present version, None if it is not there. Raises `TargetOccupied`."""
        ...

    def create(self, table: NewTable) -> None:
        """Make it, empty."""
        ...

    def add_columns(self, columns: Sequence[tuple[str, str]]) -> None:
        """Add columns, null in the rows that are there. Raises `LakeWriteFailed`."""
        ...

    def change_types(self, types: Mapping[str, str]) -> None:
        """Give columns wider types."""
        ...

    def commit(self, lsn: CommitLsn, statement: Callable[[], object]) -> None:
        """Let a statement commit everything up to an LSN; idempotent, by any process. Raises `LakeWriteFailed`."""
        ...

    def read(self, version: int) -> DataFrame:
        """Return its rows as of a version."""
        ...
