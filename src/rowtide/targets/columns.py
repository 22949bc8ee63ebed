"""The columns of a target's table: which columns of an instance it has, under which names, and by which expressions.

Options that do not fit the instances that the target is to follow are refused, for example misspelled names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from rowtide.cdc.definitions import captured_columns, change_tables
from rowtide.cdc.instances import Instance, name_for_readers
from rowtide.core.values import frozen
from rowtide.databases.postgres.values import lake_type
from rowtide.lake.sql_text import quote
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import CURRENT, HISTORY, TargetOptions
from rowtide.targets.table_format import table_format

IS_CURRENT = "is_current"
HISTORY_NAMES = ["valid_from_lsn", "valid_from_time", "valid_to_lsn", "valid_to_time", IS_CURRENT]
"""The columns that a table of history has beside the source's."""
_TEXT = "string"
PARTITION_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "date", _TEXT})
NO_NET_CHANGES = "{} has no net changes: without a key its rows cannot be found again"


@frozen
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


@frozen
class TargetColumns:
    """The columns of a table, those that are the source's key first among them or not."""

    columns: tuple[TargetColumn, ...]
    soft_delete: str | None = None
    apply_as_deletes: str | None = None
    cluster_by: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    has_partition_texts: bool = False
    """Whether partition values are stored as texts, some of which are read back as other values."""

    @property
    def keys(self) -> tuple[TargetColumn, ...]:
        """The columns that identify a row."""
        return tuple(column for column in self.columns if column.is_key)


def for_instance(option: Mapping[str, str], instance: str, others: Iterable[str]) -> dict[str, str]:
    """Return an option about columns as it applies to one instance; names qualified by the instance take precedence."""
    foreign = tuple(f"{other}." for other in others if other != instance)
    own, prefix = {name: value for name, value in option.items() if not name.startswith(foreign)}, f"{instance}."
    general = {name: value for name, value in own.items() if not name.startswith(prefix)}
    return general | {name.removeprefix(prefix): value for name, value in own.items() if name.startswith(prefix)}


def own_names(names: Iterable[str], instance: str) -> list[str]:
    """Return names of columns without the instance's name; names qualified by another instance are omitted."""
    return [name.removeprefix(f"{instance}.") for name in names]


def shape_table(target: Target, instance: Instance, others: Iterable[str] = ()) -> TargetColumns:
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
                raise TargetInvalid(target.name, f"column {source} of {name} identifies its rows and is excluded")
            continue
        own = renamed.get(source, source)
        computed = expressions.pop(own, None)
        columns.append(
            TargetColumn(own, quote(source), (ordinal,), is_key)
            if computed is None
            else TargetColumn(own, computed, (), is_key)
        )
    several = len(target.consumer.instances) > 1
    # In a set of several tables an unqualified expression only replaces existing columns, and adds none.
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
    has_texts = table_format(options.format).has_partition_texts and bool(partition_by)
    return TargetColumns(
        tuple(tracked), options.soft_delete, options.apply_as_deletes, cluster_by, partition_by, has_texts
    )


def _track(target: Target, instance: str, columns: Iterable[TargetColumn]) -> Iterator[TargetColumn]:
    """Yield the columns, with whether a change of them begins a new slice of history."""
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


ReaderColumns = Mapping[str, Sequence[str]]
"""The columns of instances, as readers name them, by instance."""


def require_fitting(
    connection: Connection, name: str, kind: str, instances: Sequence[str], options: TargetOptions
) -> None:
    """Raise `TargetInvalid` if an instance has no net changes, or nothing has a column that an option names."""
    table, column = change_tables.c, captured_columns.c
    listed = (
        select(table.capture_instance, table.supports_net_changes, column.column_name, column.column_type)
        .join(captured_columns, column.object_id == table.object_id)
        .where(table.capture_instance.in_(instances))
        .order_by(table.object_id, column.column_ordinal)
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for one in connection.execute(listed):
        if not one.supports_net_changes:
            raise TargetInvalid(name, NO_NET_CHANGES.format(one.capture_instance))
        found.setdefault(one.capture_instance, []).append((one.column_name, lake_type(one.column_type).name))
    columns = {instance: name_for_readers([column for column, _ in found[instance]]) for instance in found}
    for problem in find_misfits(kind, options, columns):
        raise TargetInvalid(name, problem)
    for instance, names in columns.items():
        # A column that an expression replaces has the expression's type, which is known only when the table is created.
        own = zip(_rename(options, instance, names), (kind for _, kind in found[instance]), strict=True)
        types = {own_name: kind for own_name, kind in own if not _is_computed(options, instance, own_name)}
        require_partitionable(name, instance, own_names(options.partition_by, instance), types)


def find_misfits(kind: str, options: TargetOptions, columns: ReaderColumns) -> Iterator[str]:
    """Yield the problems: named columns that no instance has. Pure."""
    in_source = _spell(columns)
    for name in (*(options.column_list or ()), *options.except_column_list, *options.rename):
        if name not in in_source:
            yield f"no instance of it has a column {name}"
    own = [*(HISTORY_NAMES if kind == HISTORY else ()), *options.columns]
    own += [options.soft_delete] if options.soft_delete is not None else []
    in_tables = {*_spell({instance: _rename(options, instance, columns[instance]) for instance in columns}), *own}
    tracked = (*(options.track_history_column_list or ()), *options.track_history_except_column_list)
    for name in (*tracked, *options.cluster_by, *options.partition_by):
        if name not in in_tables:
            yield f"none of its tables has a column {name}"
    for name in options.partition_by:
        if kind == HISTORY and name in HISTORY_NAMES and name != IS_CURRENT:
            yield f"each transaction would have a partition of its own in {name}"


def _is_computed(options: TargetOptions, instance: str, name: str) -> bool:
    return name in options.columns or f"{instance}.{name}" in options.columns


def _rename(options: TargetOptions, instance: str, names: Sequence[str]) -> list[str]:
    return [options.rename.get(f"{instance}.{name}", options.rename.get(name, name)) for name in names]


def _spell(columns: ReaderColumns) -> set[str]:
    """Return the names of columns as options may write them: with their instance, and without."""
    return {spelt for instance, names in columns.items() for name in names for spelt in (name, f"{instance}.{name}")}
