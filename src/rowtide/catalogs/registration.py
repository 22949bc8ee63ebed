"""Registers a database's tables in a catalogue: adds new ones, corrects changed ones, removes what is gone.

In an Iceberg catalogue a target has its tables already: they are described there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

from rowtide.catalogs.contents import OmittedTable, list_contents
from rowtide.catalogs.entries import (
    Catalogue,
    CatalogueEntry,
    RegistrationAction,
    RegistrationStep,
    Resident,
    plan_steps,
)
from rowtide.catalogs.errors import NothingForCatalogue
from rowtide.catalogs.iceberg_rest import IcebergRestCatalogue
from rowtide.catalogs.kinds import CatalogueKind
from rowtide.cdc.access import own_source
from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.core.values import frozen
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.targets.definitions import list_targets


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
    """Let a namespace of a catalogue have the tables of a database; only the owner of capture may do it.

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
    """Let a metastore have the tables that it can have."""
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
