"""The columns of a target's table: which of an instance's, under which names, by which expressions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from rowtide.cdc.instances import Instance
from rowtide.lake.sql_text import quote
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import CURRENT, HISTORY

HISTORY_NAMES = ["valid_from_lsn", "valid_from_time", "valid_to_lsn", "valid_to_time", "is_current"]
"""The columns that a table of history has beside the source's."""
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

    @property
    def keys(self) -> tuple[TargetColumn, ...]:
        """The columns that identify a row."""
        return tuple(column for column in self.columns if column.is_key)


def _for_instance(option: Mapping[str, str], instance: str, others: Iterable[str]) -> dict[str, str]:
    """Return an option about columns as it counts for one instance; what names the instance comes first."""
    foreign = tuple(f"{other}." for other in others if other != instance)
    own, prefix = {name: value for name, value in option.items() if not name.startswith(foreign)}, f"{instance}."
    general = {name: value for name, value in own.items() if not name.startswith(prefix)}
    return general | {name.removeprefix(prefix): value for name, value in own.items() if name.startswith(prefix)}


def _own_names(names: Iterable[str], instance: str) -> list[str]:
    return [name.removeprefix(f"{instance}.") for name in names]


def shape_table(target: Target, instance: Instance, others: Iterable[str] = ()) -> TableShape:
    """Return the columns of the table of an instance, as its readers name the source's columns.

    `others` are the target's other instances, whose qualified options do not count. Raises `TargetInvalid`.
    """
    options, name = target.options, instance.capture_instance
    if not instance.supports_net_changes:
        raise TargetInvalid(target.name, NO_NET_CHANGES.format(name))
    instances = tuple(others)
    expressions = _for_instance(options.columns, name, instances)
    renamed = _for_instance(options.rename, name, instances)
    wanted = set(_own_names(options.column_list, name)) if options.column_list is not None else None
    left_out = set(_own_names(options.except_column_list, name))
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
    return TableShape(tuple(tracked), options.soft_delete, options.apply_as_deletes)


def _track(target: Target, instance: str, columns: Iterable[TargetColumn]) -> Iterator[TargetColumn]:
    """Yield the columns with whether a change of them makes a new slice of history."""
    listed = target.options.track_history_column_list
    only = set(_own_names(listed, instance)) if listed is not None else None
    never = set(_own_names(target.options.track_history_except_column_list, instance))
    for column in columns:
        is_tracked = target.kind == CURRENT or (column.name not in never and (only is None or column.name in only))
        yield replace(column, is_tracked=is_tracked)


def _require_distinct(target: Target, instance: str, names: list[str]) -> None:
    own = [target.options.soft_delete] if target.options.soft_delete is not None else []
    own += HISTORY_NAMES if target.kind == HISTORY else []
    taken: set[str] = set()
    for name in [*names, *own]:
        if name.lower() in taken:
            raise TargetInvalid(target.name, f"its table of {instance} would have two columns {name}")
        taken.add(name.lower())
