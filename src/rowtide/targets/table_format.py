"""What a format of targets' tables says of itself: each is a module of `formats`, found by the format's name.

A new format is a member of `TargetFormat` and a module of that name, with its `FORMAT` and `open_table`. The module is
imported when a target has the format: until then nothing needs its libraries.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from rowtide.core.values import frozen
from rowtide.targets.options import TargetFormat

if TYPE_CHECKING:
    from rowtide.lake.spark.jars import Library


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
    """A column's type is widened by a feature of the table, which `targets.mending` takes out again."""


def module_of(target_format: TargetFormat) -> ModuleType:
    """Return the module of a format; its `open_table` returns the table of an instance, a `TargetTable`."""
    return import_module(f"{__package__}.formats.{target_format}")


def table_format(target_format: TargetFormat) -> TableFormat:
    """Return what a format says of itself."""
    found: TableFormat = module_of(target_format).FORMAT
    return found
