"""Which tables a database has in its lake and its targets, as they are to be registered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rowtide.catalogs import comments
from rowtide.catalogs.entries import Entry, EntryColumn, Resident
from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_tables import base_table_path, change_table_path
from rowtide.cdc.published import RecordedInstance
from rowtide.delta.errors import LakeReadFailed
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.column_types import column_types
from rowtide.lake.stores import locate
from rowtide.targets.columns import shape_table
from rowtide.targets.definitions import Target
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import TargetFormat
from rowtide.targets.sets import SetTable


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A table that is not registered, and why."""

    table: str
    reason: str


def list_contents(
    lake: str, instances: Iterable[RecordedInstance], targets: Iterable[Target]
) -> Iterator[Entry | Resident | LeftOut]:
    """Yield the tables that there are, and those that no catalogue can be given. Raises `LakeReadFailed`."""
    recorded = {one.instance.capture_instance: one.instance for one in instances}
    for name, instance in recorded.items():
        tables = (
            ("change", "CT", change_table_path(lake, name), comments.describe_change_table(instance)),
            ("base", "base", base_table_path(lake, name), comments.describe_base_table(instance)),
        )
        for kind, suffix, path, comment in tables:
            meanings = comments.change_column_comments if kind == "change" else comments.base_column_comments
            entry = _delta_entry(f"{kind} {name}", f"{name}_{suffix}", path, comment, meanings(instance))
            if entry is not None:
                yield entry
    for target in targets:
        yield from _list_target(lake, target, recorded)


def _list_target(lake: str, target: Target, recorded: Mapping[str, Instance]) -> Iterator[Entry | Resident | LeftOut]:
    options, made = target.options, SetTable(lake, target).read().tables
    if target.is_custom:
        yield LeftOut(f"target {target.name}", "rowtide does not know the tables of a class of yours")
        return
    is_iceberg = options.format is TargetFormat.ICEBERG
    if options.path is None and not is_iceberg:
        yield LeftOut(f"target {target.name}", f"its tables are in the catalogue {options.catalog} already")
        return
    if options.path is not None and is_iceberg:
        yield LeftOut(f"target {target.name}", "Iceberg tables of a folder: add it with --catalog")
        return
    names = [consumed.name for consumed in target.consumer.instances]
    for name in sorted(names):
        table, instance = options.table_of(name), recorded.get(name)
        key, wanted = f"target {target.target_id} {table}", f"{target.name}_{table}"
        comment = comments.describe_target(target.name, target.kind, instance, name)
        meanings = _meanings(target, instance, names)
        if options.catalog is not None:
            yield Resident(wanted, target.target_id, options.catalog, table, comment, meanings)
        elif name in made:
            entry = _delta_entry(key, wanted, options.path_of(name) or "", comment, meanings)
            if entry is not None:
                yield entry


def _meanings(target: Target, instance: Instance | None, names: Iterable[str]) -> Mapping[str, str]:
    if instance is None:
        return {}
    try:
        shape = shape_table(target, instance, names)
    except TargetInvalid:
        # Its table has stopped, and is as it was.
        return {}
    return comments.target_column_comments(instance, shape, target.kind)


def _delta_entry(key: str, name: str, path: str, comment: str, meanings: Mapping[str, str]) -> Entry | None:
    snapshot = open_snapshot(locate(path))
    if snapshot is None:
        return None
    try:
        types = column_types(snapshot.metadata.schema_text)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise LakeReadFailed(path, f"its schema is damaged: {error}") from error
    columns = tuple(EntryColumn(column, kind, meanings.get(column, "")) for column, kind in types.items())
    return Entry(key, name, path, comment, columns)
