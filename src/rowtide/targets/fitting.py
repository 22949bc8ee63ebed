"""Whether a target's options fit the instances that it is to follow: a name that is written wrong is refused.

A column that `--except` was to leave out would otherwise be in the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import Connection, select

from rowtide.cdc.definitions import captured_columns, change_tables
from rowtide.cdc.instances import name_for_readers
from rowtide.databases.postgres.values import lake_type
from rowtide.targets.columns import HISTORY_NAMES, IS_CURRENT, NO_NET_CHANGES, own_names, require_partitionable
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import HISTORY, TargetOptions

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
        # A column that an expression replaces has the expression's type, which is known when the table is made.
        own = zip(_rename(options, instance, names), (kind for _, kind in found[instance]), strict=True)
        types = {own_name: kind for own_name, kind in own if not _is_computed(options, instance, own_name)}
        require_partitionable(name, instance, own_names(options.partition_by, instance), types)


def find_misfits(kind: str, options: TargetOptions, columns: ReaderColumns) -> Iterator[str]:
    """Yield which named columns are nowhere. Pure."""
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
