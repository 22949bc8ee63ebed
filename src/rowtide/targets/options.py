"""The options of targets. Pure, and light: the command line reads them for its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypedDict

CURRENT, HISTORY, PYTHON = "current", "history", "python:"
"""Kinds of targets; the last begins the name of a class."""


class TargetFormat(StrEnum):
    """The format of a target's tables."""

    DELTA = "delta"
    ICEBERG = "iceberg"


class Truncation(StrEnum):
    """What a truncate of the source does to a target's table."""

    APPLY = "apply"
    KEEP = "keep"


class ApplyEngine(StrEnum):
    """What applies changes: `SPARK` always, `AUTO` Spark only where there is much, or an expression, to apply."""

    AUTO = "auto"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """Where a target's tables are, and what they contain; names of Lakeflow's AUTO CDC where it has them.

    Options about columns count for every instance that has the column; `instance.column` names one instance's.
    """

    format: TargetFormat = TargetFormat.DELTA
    path: str | None = None
    """Folder or URL: each table is `<path>/<instance>`; of Iceberg a Hadoop catalogue's warehouse."""
    catalog: str | None = None
    """Catalogue and namespace instead of a path: each table is `<catalog>.<instance>`."""
    catalog_options: Mapping[str, str] = field(default_factory=dict)
    """Settings of the catalogue, `spark.sql.catalog.<name>.<option>`: Iceberg's `type`, `uri` and others."""
    column_list: tuple[str, ...] | None = None
    except_column_list: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    """The target's names of columns, by the source's."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Expressions of Spark SQL over the source's columns, by column of the target: a new one, or one that replaces the
    source's column of its name.
    """
    apply_as_deletes: str | None = None
    """A condition on the source's columns: a row that meets it counts as deleted."""
    soft_delete: str | None = None
    """A boolean column that is true for deleted rows, which stay."""
    truncate: Truncation = Truncation.APPLY
    track_history_column_list: tuple[str, ...] | None = None
    track_history_except_column_list: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    """Columns of the tables whose values have data files of their own; of integers, dates, texts or booleans."""
    table_properties: Mapping[str, str] = field(default_factory=dict)
    follow_columns: bool = False
    """Have the columns that are added to the source, and their new names: by a newer instance, once it is copied."""
    table_names: Mapping[str, str] = field(default_factory=dict)
    """The names of tables that are not their instances': an earlier instance made them."""
    renamed_columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By instance, the columns that its table had under other names before it went over to the instance."""
    schedule: str | None = None
    """When `agent run` applies changes, as in a crontab; None: whenever something is published."""

    engine: ApplyEngine = ApplyEngine.AUTO

    def table_of(self, instance: str) -> str:
        """Return the name of an instance's table."""
        return self.table_names.get(instance, instance)

    def path_of(self, instance: str) -> str | None:
        """Return the path of an instance's table; None in a catalogue."""
        return f"{self.path.rstrip('/')}/{self.table_of(instance)}" if self.path is not None else None


def follows_by_default(kind: str, truncate: Truncation) -> bool:
    """Return whether a new target follows columns unless it is told not to: where that loses nothing.

    What a class makes of its windows is its own, and rows that were kept over a truncate are in no copy.
    """
    return not kind.startswith(PYTHON) and truncate is Truncation.APPLY


class OptionArguments(TypedDict, total=False):
    """The fields of `TargetOptions`, as arguments."""

    format: TargetFormat
    path: str | None
    catalog: str | None
    catalog_options: Mapping[str, str]
    column_list: tuple[str, ...] | None
    except_column_list: tuple[str, ...]
    rename: Mapping[str, str]
    columns: Mapping[str, str]
    apply_as_deletes: str | None
    soft_delete: str | None
    truncate: Truncation
    track_history_column_list: tuple[str, ...] | None
    track_history_except_column_list: tuple[str, ...]
    cluster_by: tuple[str, ...]
    partition_by: tuple[str, ...]
    table_properties: Mapping[str, str]
    schedule: str | None
    engine: ApplyEngine
