"""Registers a database's tables in a catalogue: lists them, and adds, corrects and removes registrations.

In an Iceberg catalogue a target has its tables already: they are described there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import assert_never

from rowtide.catalogs.entries import (
    Catalogue,
    CatalogueEntry,
    CatalogueKind,
    EntryColumn,
    RegistrationAction,
    RegistrationStep,
    Resident,
    plan_steps,
)
from rowtide.catalogs.errors import NothingForCatalogue
from rowtide.catalogs.iceberg_rest import IcebergRestCatalogue
from rowtide.cdc.access import own_source
from rowtide.cdc.instances import Instance
from rowtide.cdc.published import RecordedInstance, base_table_path, change_table_path
from rowtide.cdc.queries.windows import PublishedLake
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.delta.errors import LakeReadFailed
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.sql_text import column_types
from rowtide.lake.stores import locate
from rowtide.targets.applying import SetTable
from rowtide.targets.columns import TargetColumns, shape_table
from rowtide.targets.definitions import Target, list_targets
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import HISTORY
from rowtide.targets.table_format import table_format

# The tables of a database in its lake and its targets, as they are registered, with the comments of tables and columns
# that catalogues show.

_CHANGE_COLUMNS = {
    "__$start_lsn": "commit LSN of the transaction: with __$seqval and __$operation the order of changes",
    "__$end_lsn": "always null",
    "__$seqval": "number of the change in its transaction, from 1; both rows of an update share it",
    "__$operation": "1 delete, 2 insert, 3 update (row before), 4 update (row after), 6 truncate",
    "__$update_mask": "bits of the columns that changed; ordinal 1 is the lowest bit of the last byte",
    "__$absent_mask": "bits of the columns whose value the log did not carry; null: all are carried",
    "__$exact": "exact texts, by ordinal, of values that their column's type cannot hold",
}
_BASE_COLUMNS = {
    **_CHANGE_COLUMNS,
    "__$start_lsn": "LSN of the snapshot that the row is of; of a row that cleanup kept, its own commit LSN",
    "__$seqval": "0 for a row of a snapshot",
    "__$operation": "2 for a row of a snapshot; else as in the change table",
}
_HISTORY_COLUMNS = {
    "valid_from_lsn": "LSN from which on the row was so",
    "valid_from_time": "time of that transaction",
    "valid_to_lsn": "LSN at which the row was so no longer; null: it still is",
    "valid_to_time": "time of that transaction",
    "is_current": "true: the row is so now",
}


def describe_change_table(instance: Instance) -> str:
    """Return a change table's comment."""
    return (
        f"Changes of {_source(instance)}, by rowtide: read __$start_lsn up to the last published LSN "
        "(docs/how-to/read-a-lake.md)"
    )


def describe_base_table(instance: Instance) -> str:
    """Return a base table's comment."""
    return f"Rows of {_source(instance)} below its changes, by rowtide: the table as of an LSN is made of both"


def describe_target(target: str, kind: str, instance: Instance | None, capture_instance: str) -> str:
    """Return the comment of a target's table; `instance` is None if it is no longer captured."""
    rows = "History" if kind == HISTORY else "Current rows"
    source = _source(instance) if instance is not None else capture_instance
    return f"{rows} of {source}, by rowtide's target {target}: written by it alone"


def change_column_comments(instance: Instance) -> dict[str, str]:
    """Return the comments of a change table's columns."""
    return {**_captured(instance), **_CHANGE_COLUMNS}


def base_column_comments(instance: Instance) -> dict[str, str]:
    """Return the comments of a base table's columns."""
    return {**_captured(instance), **_BASE_COLUMNS}


def target_column_comments(instance: Instance, shape: TargetColumns, kind: str) -> Mapping[str, str]:
    """Return the comments of the columns of a target's table."""
    found = dict(_HISTORY_COLUMNS) if kind == HISTORY else {}
    if shape.soft_delete is not None:
        found[shape.soft_delete] = "true: the row is deleted at the source"
    for column in shape.columns:
        # Not the expression, which may contain a secret.
        found[column.name] = (
            _column(instance, column.sources[0]) if column.sources else f"computed of {_source(instance)}"
        )
    return found


def _captured(instance: Instance) -> dict[str, str]:
    return {column.lake_name: _column(instance, ordinal) for ordinal, column in enumerate(instance.columns, 1)}


def _column(instance: Instance, ordinal: int) -> str:
    column = instance.columns[ordinal - 1]
    key = ", key" if column.index_ordinal is not None else ""
    return f"column {column.name} of {_source(instance)}, {column.type_text}, ordinal {ordinal}{key}"


def _source(instance: Instance) -> str:
    return f"{instance.source_schema}.{instance.source_table}"


@frozen
class OmittedTable:
    """A table that is not registered, and why."""

    table: str
    reason: str


def list_contents(
    lake: str, instances: Iterable[RecordedInstance], targets: Iterable[Target]
) -> Iterator[CatalogueEntry | Resident | OmittedTable]:
    """Yield the tables that there are, and those that no catalogue can be given. Raises `LakeReadFailed`."""
    recorded = {one.instance.capture_instance: one.instance for one in instances}
    for name, instance in recorded.items():
        tables = (
            ("change", "CT", change_table_path(lake, name), describe_change_table(instance)),
            ("base", "base", base_table_path(lake, name), describe_base_table(instance)),
        )
        for kind, suffix, path, comment in tables:
            meanings = change_column_comments if kind == "change" else base_column_comments
            entry = _delta_entry(f"{kind} {name}", f"{name}_{suffix}", path, comment, meanings(instance))
            if entry is not None:
                yield entry
    for target in targets:
        yield from _list_target(lake, target, recorded)


def _list_target(
    lake: str, target: Target, recorded: Mapping[str, Instance]
) -> Iterator[CatalogueEntry | Resident | OmittedTable]:
    options, made = target.options, SetTable(lake, target).read().tables
    if target.is_custom:
        yield OmittedTable(f"target {target.name}", "rowtide does not know the tables of a class of yours")
        return
    form = table_format(options.format)
    if options.path is None and form.is_registered_by_path:
        yield OmittedTable(f"target {target.name}", f"its tables are in the catalogue {options.catalog} already")
        return
    if options.path is not None and not form.is_registered_by_path:
        yield OmittedTable(f"target {target.name}", f"{form.title} tables of a folder: add it with --catalog")
        return
    names = [consumed.name for consumed in target.consumer.instances]
    for name in sorted(names):
        table, instance = options.table_of(name), recorded.get(name)
        key, wanted = f"target {target.target_id} {table}", f"{target.name}_{table}"
        comment = describe_target(target.name, target.kind, instance, name)
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
        # Its table has stopped, and does not change.
        return {}
    return target_column_comments(instance, shape, target.kind)


def _delta_entry(key: str, name: str, path: str, comment: str, meanings: Mapping[str, str]) -> CatalogueEntry | None:
    snapshot = open_snapshot(locate(path))
    if snapshot is None:
        return None
    try:
        types = column_types(snapshot.metadata.schema_text)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise LakeReadFailed(path, f"its schema is damaged: {error}") from error
    columns = tuple(EntryColumn(column, kind, meanings.get(column, "")) for column, kind in types.items())
    return CatalogueEntry(key, name, path, comment, columns)


@frozen
class RegisteredTable:
    """A table of a catalogue: `action` is `add`, `correct`, `remove`, `keep`, or `leave out`, for the reason in `note`.

    `table` is what it is in rowtide's words, `name` its name in the catalogue, None if it is omitted.
    """

    action: str
    table: str
    name: str | None
    location: str | None
    note: str | None = None


@frozen
class Registration:
    """What was done, or would be, table by table."""

    namespace: str
    tables: tuple[RegisteredTable, ...]


def register_tables(url: str, kind: CatalogueKind, place: str, namespace: str, *, dry_run: bool) -> Registration:
    """Register the tables of a database in a namespace of a catalogue; only the owner of capture may do it.

    Raises `NotOwner`, `DatabaseNotEnabled`, `LakeUnknown`, and the errors of catalogues.
    """
    engine = open_engine(url)
    with translated(), engine.connect() as connection:
        source = own_source(connection, parse_url(url).name)
        targets = list_targets(connection)
    contents = list(list_contents(source.lake, PublishedLake(source.lake).list_recorded_instances(), targets))
    match kind:
        case CatalogueKind.HIVE:
            return _register(_CatalogueLocation(place, namespace, dry_run), contents, source.source_id)
        case CatalogueKind.ICEBERG:
            return _describe_residents(_CatalogueLocation(place, namespace, dry_run), contents)
        case _:
            assert_never(kind)


@frozen
class _CatalogueLocation:
    address: str
    namespace: str
    is_rehearsed: bool


def _register(
    place: _CatalogueLocation, contents: Sequence[CatalogueEntry | Resident | OmittedTable], source_id: str
) -> Registration:
    """Register the tables that a metastore supports."""
    with _open_metastore(place, source_id) as catalogue:
        wanted = [catalogue.fit(one) for one in contents if isinstance(one, CatalogueEntry)]
        steps = plan_steps(wanted, catalogue.list_tables(), catalogue.as_name, catalogue.namespace)
        for step in steps if not place.is_rehearsed else ():
            _take(catalogue, step)
        left_out = [
            _omit(one.title, f"it is in the catalogue {one.catalog} already")
            if isinstance(one, Resident)
            else _omit(one.table, one.reason)
            for one in contents
            if not isinstance(one, CatalogueEntry)
        ]
        return Registration(catalogue.namespace, (*map(_describe, steps), *left_out))


def _describe_residents(
    place: _CatalogueLocation, contents: Sequence[CatalogueEntry | Resident | OmittedTable]
) -> Registration:
    """Describe the tables that targets have in a namespace of an Iceberg catalogue. Raises `NothingForCatalogue`."""
    catalogue = IcebergRestCatalogue.open(place.address, place.namespace)
    tables = [_describe_resident(catalogue, one, dry_run=place.is_rehearsed) for one in contents]
    if all(table.name is None for table in tables):
        raise NothingForCatalogue(place.address, place.namespace)
    return Registration(place.namespace, tuple(tables))


def _describe_resident(
    catalogue: IcebergRestCatalogue, one: CatalogueEntry | Resident | OmittedTable, *, dry_run: bool
) -> RegisteredTable:
    match one:
        case Resident():
            place, done = f"{one.catalog}.{one.name}", catalogue.describe(one, dry_run=dry_run)
            if done is None:
                return _omit(one.title, f"it is not in this namespace: its target writes to {place}")
            return RegisteredTable(done.value, one.title, one.name, place)
        case CatalogueEntry():
            return _omit(one.name, "a Delta table, which no Iceberg catalogue can have: add a target of Iceberg")
        case OmittedTable():
            return _omit(one.table, one.reason)
        case _:
            assert_never(one)


def _omit(table: str, reason: str) -> RegisteredTable:
    return RegisteredTable("leave out", table, None, None, reason)


def _take(catalogue: Catalogue, step: RegistrationStep) -> None:
    match step.action:
        case RegistrationAction.REMOVE:
            catalogue.remove(step.name)
        case RegistrationAction.ADD:
            assert step.entry is not None
            catalogue.add(step.name, step.entry)
        case RegistrationAction.CORRECT:
            assert step.entry is not None
            catalogue.correct(step.name, step.entry)
        case RegistrationAction.KEEP:
            pass
        case _:
            assert_never(step.action)


def _describe(step: RegistrationStep) -> RegisteredTable:
    entry = step.entry
    if entry is None:
        return RegisteredTable(step.action.value, step.name, step.name, None, "rowtide has it no longer")
    return RegisteredTable(step.action.value, entry.name, step.name, entry.location)


@contextmanager
def _open_metastore(place: _CatalogueLocation, source_id: str) -> Iterator[Catalogue]:
    from rowtide.catalogs.hive import HiveMetastore
    from rowtide.lake.session import build_session

    metastore = HiveMetastore(build_session(), place.address, place.namespace, source_id)
    try:
        yield metastore
    finally:
        metastore.close()
