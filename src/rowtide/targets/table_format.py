"""What a format of targets' tables says of itself, and what its tables can do: a module of `formats` for each.

A new format is a member of `TargetFormat` and a module of that name, with its `FORMAT` and `open_table`. The module is
imported when a target has the format: until then nothing needs its libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from rowtide.core.lsn import CommitLsn
from rowtide.core.values import frozen
from rowtide.lake.sql_text import quote
from rowtide.targets.options import TargetFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rowtide.lake.jars import Library


@frozen(kw_only=True)
class TableFormat:
    """What tables of a format can do, and where they differ."""

    title: str
    """Its name in sentences, `Iceberg`, and with an article, `an Iceberg table`."""
    noun: str
    libraries: tuple[Library, ...] = ()
    """What Spark needs beside Delta."""
    is_written_without_spark: bool = False
    """`targets.direct` applies changes to a table at a path."""
    is_registered_by_path: bool = False
    """A catalogue lists a table at a path; without it, catalogues describe the tables that they have made."""
    can_cluster: bool = False
    has_partition_texts: bool = False
    """Values of partitions are texts in the table's log, which has no text for some."""
    marks_wider_types: bool = False
    """A column's type is widened by a feature of the table, which `targets.widening_removal` removes."""


def module_of(target_format: TargetFormat) -> ModuleType:
    """Return the module of a format; its `open_table` returns the table of an instance, a `TargetTable`."""
    return import_module(f"{__package__}.formats.{target_format}")


def table_format(target_format: TargetFormat) -> TableFormat:
    """Return what a format says of itself."""
    found: TableFormat = module_of(target_format).FORMAT
    return found


@frozen
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


@frozen
class NewTable:
    """What a table is made with."""

    columns: Sequence[tuple[str, str]]
    cluster_by: Sequence[str]
    partition_by: Sequence[str]
    properties: Mapping[str, str]


def partitioned_by(table: NewTable) -> str:
    """Return the clause of partitions of the statement that makes a table."""
    return f" partitioned by ({', '.join(map(quote, table.partition_by))})" if table.partition_by else ""


def order_renames(names: Mapping[str, str], present: Collection[str]) -> list[tuple[str, str]]:
    """Return which columns of a table get which names, each one free when its turn comes; a repeat gives the rest.

    Names that columns swapped are none of them: the values that come are those of the names.
    """
    columns, ordered = set(present), list[tuple[str, str]]()
    while free := [(old, new) for old, new in names.items() if old in columns and new not in columns]:
        ordered.append(free[0])
        columns = columns - {free[0][0]} | {free[0][1]}
    return ordered


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

    def rename_columns(self, names: Sequence[tuple[str, str]]) -> None:
        """Give columns other names, one after the other. Raises `LakeWriteFailed`."""
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
