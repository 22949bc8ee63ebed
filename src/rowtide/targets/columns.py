"""The columns of a target's table: which of an instance's, under which names, by which expressions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rowtide.cdc.instances import Instance
from rowtide.lake.sql_text import quote
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import CURRENT, HISTORY, TargetFormat

IS_CURRENT = "is_current"
HISTORY_NAMES = ["valid_from_lsn", "valid_from_time", "valid_to_lsn", "valid_to_time", IS_CURRENT]
"""The columns that a table of history has beside the source's."""
_TEXT = "string"
PARTITION_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "date", _TEXT})
NO_NET_CHANGES = "{} has no net changes: without a key its rows cannot be found again"


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column of a target's table.

    `expression` is over the source's columns; `sources` are the ordinals of those that it needs, as far as is known:
    the value is absent where one of them is.
    """

    name: str
    expression: str
    sources: tuple[int, ...]
    is_key: bool
    is_tracked: bool = True


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns of a table, those that are the source's key first among them or not."""

    columns: tuple[TargetColumn, ...]
    soft_delete: str | None = None
    apply_as_deletes: str | None = None
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    has_partition_texts: bool = False
    """Whether the values of partitions are kept as texts, of which some are read as others."""

    @property
    def keys(self) -> tuple[TargetColumn, ...]:
        """The columns that identify a row."""
        return tuple(column for column in self.columns if column.is_key)


def for_instance(option: Mapping[str, str], instance: str, others: Iterable[str]) -> dict[str, str]:
    """Return an option about columns as it counts for one instance; what names the instance comes first."""
    foreign = tuple(f"{other}." for other in others if other != instance)
    own, prefix = {name: value for name, value in option.items() if not name.startswith(foreign)}, f"{instance}."
    general = {name: value for name, value in own.items() if not name.startswith(prefix)}
    return general | {name.removeprefix(prefix): value for name, value in own.items() if name.startswith(prefix)}


def own_names(names: Iterable[str], instance: str) -> list[str]:
    """Return names of columns without the name of an instance; what names another instance is no column of its own."""
    return [name.removeprefix(f"{instance}.") for name in names]


def shape_table(target: Target, instance: Instance, others: Iterable[str] = ()) -> TableShape:
    """Return the columns of the table of an instance, as its readers name the source's columns.

    `others` are the target's other instances, whose qualified options do not count. Raises `TargetInvalid`.
    """
    options, name = target.options, instance.capture_instance
    if not instance.supports_net_changes:
        raise TargetInvalid(target.name, NO_NET_CHANGES.format(name))
    instances = tuple(others)
    expressions = for_instance(options.columns, name, instances)
    renamed = for_instance(options.rename, name, instances)
    wanted = set(own_names(options.column_list, name)) if options.column_list is not None else None
    left_out = set(own_names(options.except_column_list, name))
    columns: list[TargetColumn] = []
    for ordinal, column in enumerate(instance.columns, 1):
        source = column.reader_name or column.lake_name
        is_key = column.index_ordinal is not None
        if source in left_out or (wanted is not None and source not in wanted):
            if is_key:
                raise TargetInvalid(target.name, f"column {source} of {name} identifies its rows and is left out")
            continue
        own = renamed.get(source, source)
        computed = expressions.pop(own, None)
        columns.append(
            TargetColumn(own, quote(source), (ordinal,), is_key)
            if computed is None
            else TargetColumn(own, computed, (), is_key)
        )
    several = len(target.consumer.instances) > 1
    # In a set of several tables an unqualified expression replaces a column where there is one, and adds none.
    columns += [
        TargetColumn(own, text, (), is_key=False)
        for own, text in expressions.items()
        if not several or f"{name}.{own}" in options.columns
    ]
    _require_distinct(target, name, [column.name for column in columns])
    tracked = _track(target, name, columns)
    names = [column.name for column in columns] + _added_names(target)
    cluster_by, partition_by = (
        tuple(each for each in own_names(listed, name) if each in names)
        for listed in (options.cluster_by, options.partition_by)
    )
    if set(names) <= set(partition_by):
        raise TargetInvalid(target.name, f"its table of {name} would have no column beside those of its partitions")
    has_texts = options.format is TargetFormat.DELTA and bool(partition_by)
    return TableShape(
        tuple(tracked), options.soft_delete, options.apply_as_deletes, cluster_by, partition_by, has_texts
    )


def _track(target: Target, instance: str, columns: Iterable[TargetColumn]) -> Iterator[TargetColumn]:
    """Yield the columns with whether a change of them makes a new slice of history."""
    listed = target.options.track_history_column_list
    only = set(own_names(listed, instance)) if listed is not None else None
    never = set(own_names(target.options.track_history_except_column_list, instance))
    for column in columns:
        is_tracked = target.kind == CURRENT or (column.name not in never and (only is None or column.name in only))
        yield replace(column, is_tracked=is_tracked)


def require_partitionable(target: str, instance: str, partition_by: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise `TargetInvalid` if a table is to be partitioned by a column of a type that has no exact text."""
    for name in partition_by:
        if types.get(name, _TEXT) not in PARTITION_TYPES:
            reason = (
                f"{name} of {instance} is of type {types[name]}: partitions are of integers, dates, texts, booleans"
            )
            raise TargetInvalid(target, reason)


def _added_names(target: Target) -> list[str]:
    """Return the columns that a table has beside the source's."""
    own = [target.options.soft_delete] if target.options.soft_delete is not None else []
    return own + (HISTORY_NAMES if target.kind == HISTORY else [])


def _require_distinct(target: Target, instance: str, names: list[str]) -> None:
    taken: set[str] = set()
    for name in [*names, *_added_names(target)]:
        if name.lower() in taken:
            raise TargetInvalid(target.name, f"its table of {instance} would have two columns {name}")
        taken.add(name.lower())
