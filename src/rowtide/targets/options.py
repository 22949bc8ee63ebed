"""The options of targets. Pure, and light: the command line reads them for its help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, field
from enum import StrEnum
from typing import Annotated

from rowtide.cdc.requests import LIMIT_HOURS
from rowtide.core.options import MOST_HOURS, Argument, Option, WordsRead, values_of
from rowtide.core.values import frozen

CURRENT, HISTORY, PYTHON = "current", "history", "python:"
"""Kinds of targets; the last begins the name of a class."""


class TargetFormat(StrEnum):
    """The format of a target's tables."""

    # Each is the module of its name in `targets.formats`.

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


@frozen(kw_only=True)
class GivenOptions(WordsRead):
    """Where a target's tables are, and what they contain, as it is given."""

    format: Annotated[TargetFormat, Option(help="Of the tables.")] = TargetFormat.DELTA
    path: Annotated[
        str | None,
        Option(help="Folder or URL: each table is PATH/INSTANCE; of Iceberg a Hadoop catalogue's warehouse."),
    ] = None
    catalog: Annotated[
        str | None,
        Option(metavar="NAME.NAMESPACE", help="Instead of a path: each table is NAME.NAMESPACE.INSTANCE."),
    ] = None
    catalog_options: Annotated[
        Mapping[str, str],
        Option("--catalog-option", metavar="K=V", help="A setting of the catalogue. May be repeated."),
    ] = field(default_factory=dict)
    """`spark.sql.catalog.<name>.<option>`: Iceberg's `type`, `uri` and others."""
    column_list: Annotated[
        tuple[str, ...] | None, Option("--columns", help="The source's columns, separated by commas.")
    ] = None
    except_column_list: Annotated[tuple[str, ...], Option("--except", help="All columns but these.")] = ()
    rename: Annotated[
        Mapping[str, str], Option(metavar="OLD=NEW", help="Another name for a column. May be repeated.")
    ] = field(default_factory=dict)
    columns: Annotated[
        Mapping[str, str],
        Option("--column", metavar="NAME=SQL", help="A column by an expression of Spark SQL. May be repeated."),
    ] = field(default_factory=dict)
    """By column of the target, over the source's columns: a new one, or one that replaces the source's column of its
    name.
    """
    apply_as_deletes: Annotated[
        str | None, Option(metavar="SQL", help="Rows that meet this condition count as deleted.")
    ] = None
    soft_delete: Annotated[
        str | None, Option(metavar="COLUMN", help="Deleted rows stay, with true in this column.")
    ] = None
    truncate: Annotated[
        Truncation, Option(help="What a truncate of the source does: it empties the table, or nothing.")
    ] = Truncation.APPLY
    track_history_column_list: Annotated[
        tuple[str, ...] | None,
        Option("--track-history", help="Only a change of these columns begins a new slice of history."),
    ] = None
    track_history_except_column_list: Annotated[
        tuple[str, ...],
        Option("--track-history-except", help="A change of these columns begins no new slice of history."),
    ] = ()
    cluster_by: Annotated[tuple[str, ...], Option(help="Columns by which the tables' files are clustered.")] = ()
    partition_by: Annotated[
        tuple[str, ...], Option(help="Columns each of whose values has files of its own, instead of clusters.")
    ] = ()
    """Integers, dates, texts or booleans."""
    table_properties: Annotated[
        Mapping[str, str],
        Option("--table-property", metavar="K=V", help="A property of the tables. May be repeated."),
    ] = field(default_factory=dict)
    follow_columns: Annotated[
        bool | None,
        Option(
            "--follow-columns/--no-follow-columns",
            help="Have the columns that are added to the source, and their new names, once its rows are copied again.",
            show_default="follow, but with --truncate keep",
        ),
    ] = None
    """None only until the target is added; a class never follows."""
    schedule: Annotated[
        str | None, Option(help="When `agent run` applies changes, as in a crontab; default: at once.")
    ] = None
    engine: Annotated[
        ApplyEngine, Option(help="Spark applies changes always, or only where there is much to apply.")
    ] = ApplyEngine.AUTO


@frozen(kw_only=True)
class TargetOptions(GivenOptions):
    """The options of a target as they are stored: as given, and the present names of its tables and columns."""

    table_names: Mapping[str, str] = field(default_factory=dict)
    """The names of tables that are not their instances': an earlier instance made them."""
    renamed_columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By instance, the columns that its table had under other names before it was handed over to the instance."""

    def table_of(self, instance: str) -> str:
        """Return the name of an instance's table."""
        return self.table_names.get(instance, instance)

    def path_of(self, instance: str) -> str | None:
        """Return the path of an instance's table; None in a catalogue."""
        return f"{self.path.rstrip('/')}/{self.table_of(instance)}" if self.path is not None else None


@frozen
class NewTarget(GivenOptions):
    """A target as it is added; names of Lakeflow's AUTO CDC where it has them.

    Options about columns count for every instance that has the column; `instance.column` names one instance's.
    """

    name: Annotated[str, Argument(help="a target")]
    instances: Annotated[Sequence[str], Argument(metavar="INSTANCE", help="capture instances")]
    _: KW_ONLY
    kind: Annotated[str, Option(help="current (SCD type 1), history (SCD type 2), or python:module.Class.")] = CURRENT
    limit_hours: Annotated[int, Option(help="How long cleanup waits for what it has not applied.", max=MOST_HOURS)] = (
        LIMIT_HOURS
    )

    @property
    def options(self) -> TargetOptions:
        """What is stored of it, with what follows from its kind."""
        given = values_of(GivenOptions, self)
        if self.follow_columns is None:
            given["follow_columns"] = follows_by_default(self.kind, self.truncate)
        return TargetOptions(**given)


def follows_by_default(kind: str, truncate: Truncation) -> bool:
    """Return whether a new target follows columns unless an option says otherwise: where that loses nothing.

    The result of a class is unknown, and rows that were kept over a truncate are in no copy.
    """
    return not kind.startswith(PYTHON) and truncate is Truncation.APPLY
