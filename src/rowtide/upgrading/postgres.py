"""The stores of a PostgreSQL database: its own schemas first, as what is in them says where the others are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection, Engine, select, text

from rowtide.actions.entries import FORMAT as AUDIT, TABLE as ACTIONS
from rowtide.actions.postgres import audit
from rowtide.cdc import definitions
from rowtide.cdc.published import system_table_path
from rowtide.core.errors import RowtideError
from rowtide.core.formats import PresentStore, StoreFormat, parse_definition
from rowtide.core.values import frozen
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import recorded_definition
from rowtide.delta.formats import LAKE_TABLE, TARGET_TABLE, find_format
from rowtide.delta.snapshot import open_any_format
from rowtide.lake.stores import locate, open_folder
from rowtide.log import source_definition
from rowtide.log.catalogue import SCHEMA, find_source
from rowtide.log.postgres.lease import AdvisoryLease, describe_holder
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_store, require_own
from rowtide.log.store.manifest import LOG_STORE, Manifest
from rowtide.merge import definitions as merge_definitions
from rowtide.merge.exchange_state import SELECT_SUBSCRIBERS
from rowtide.merge.nodes.postgres.metadata import node_form as merge
from rowtide.replication.distributor import definitions as distribution
from rowtide.replication.distributor.location import SCHEMA as DISTRIBUTION_SCHEMA, distributor, find_place
from rowtide.replication.targets.postgres import progress as delivery
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.targets.definitions import Target, list_targets
from rowtide.tracking.postgres import system_tables as tracking
from rowtide.upgrading.upgrade import FoundStores

_UPGRADE = "upgrade"
_PATIENCE_S = 600.0
"""Another process may be migrating the same stores, after which nothing is left to do."""


@contextmanager
def migrating_alone(url: str) -> Iterator[None]:
    """Let no other process migrate the database's stores, wherever they are; wait up to ten minutes for one that does.

    Raises `LeaseHeld`.
    """
    engine = open_engine(url, application_name=f"rowtide upgrade on {describe_holder()}")
    with AdvisoryLease.take(engine, _UPGRADE, patience_s=_PATIENCE_S, is_of_any_format=True):
        yield


def find_present(url: str) -> FoundStores:
    """Return the schemas of the database, the log store, the lake's tables and those of targets outside catalogues."""
    with translated():
        schemas = tuple(_find_schemas(url))
        stores = tuple(found.store for found in schemas if found.store is not None)
        foreign = tuple(found.place for found in schemas if found.is_foreign)
        subscribers = tuple(dict.fromkeys(_find_subscribers(url, stores)))
    if any(store.format is source_definition.FORMAT and store.find_refusal() for store in stores):
        return FoundStores(stores, foreign, subscribers)
    return FoundStores((*stores, *_find_outside(url)), foreign, subscribers)


def find_at_subscriber(url: str) -> FoundStores:
    """Return the schemas that a database has as a subscriber."""
    engine = open_engine(url)
    with translated():
        found = [_find_schema(engine, schema, _OWN[schema]).store for schema in _OF_SUBSCRIBERS]
    return FoundStores(tuple(store for store in found if store is not None))


def _find_subscribers(url: str, stores: Collection[PresentStore]) -> Iterator[str]:
    """Yield the URLs that the distribution database and a hub record, where their formats are not newer."""
    known = {store.format for store in stores if store.find_refusal() is None}
    with open_engine(url).connect() as connection:
        if distribution.FORMAT in known:
            query = select(distribution.agents.c.subscriber).distinct().order_by(distribution.agents.c.subscriber)
            yield from distributor(connection).execute(query).scalars()
        if merge.FORMAT in known:
            placed = connection.execution_options(schema_translate_map={None: merge_definitions.SCHEMA})
            yield from placed.execute(SELECT_SUBSCRIBERS).scalars()


def _find_outside(url: str) -> Iterator[PresentStore]:
    with translated(), open_engine(url).connect() as connection:
        source = find_source(connection, StoreFormat.require_not_newer)
        targets = list_targets(connection) if source is not None and definitions.are_made(connection) else ()
    if source is None:
        return
    yield from _attempt(LOG_STORE, source.log_store, partial(_find_log_store, source))
    if source.lake is not None:
        yield from _attempt(LAKE_TABLE, source.lake, partial(_find_lake_tables, source.lake))
    for target in targets:
        yield from _attempt(TARGET_TABLE, target.options.path or "", partial(_find_target_tables, target))


def _attempt(own: StoreFormat, place: str, find: Callable[[], Iterator[PresentStore]]) -> Iterator[PresentStore]:
    """Yield the stores that are found, then the one that cannot be read, with the error."""
    try:
        yield from find()
    except RowtideError as error:
        yield PresentStore(own, place, None, None, error)


@frozen
class _Schema:
    """A schema with one of rowtide's names; it is foreign if it has tables, and none of rowtide's."""

    place: str
    store: PresentStore | None
    is_foreign: bool


def _find_schemas(url: str) -> Iterator[_Schema]:
    """Yield rowtide's schemas in the database, and that of its distribution database, which may be elsewhere."""
    engine = open_engine(url)
    for schema, own in _OWN.items():
        yield _find_schema(engine, schema, own)
    with engine.connect() as connection:
        place = find_place(connection)
    if place is None:
        yield _find_schema(engine, DISTRIBUTION_SCHEMA, _DISTRIBUTION)
    else:
        yield _find_schema(open_engine(place.url), place.schema, _DISTRIBUTION)


_Own: TypeAlias = tuple[StoreFormat, tuple[str, ...]]
_OWN: Mapping[str, _Own] = {
    SCHEMA: (source_definition.FORMAT, ("source", "members")),
    procedures.SCHEMA: (delivery.FORMAT, ("MSreplication_subscriptions",)),
    merge_definitions.SCHEMA: (merge.FORMAT, (merge_definitions.replinfo.name, merge_definitions.publications.name)),
    audit.SCHEMA: (AUDIT, (ACTIONS,)),
    clock.SCHEMA: (tracking.FORMAT, ("__sysOCSTrackedObjects", "__sysOCSDeletedRows")),
}
"""By the names of schemas that a database may have: their formats, and the tables of which rowtide's have one."""
_FENCES: Mapping[str, str] = {
    procedures.SCHEMA: 'update rowtide_subscriber."MSreplication_subscriptions" set epoch = epoch + 1',
}
"""Statements after which a running delivery of an earlier version writes nothing more, because it finds another
epoch.
"""
_OF_SUBSCRIBERS = procedures.SCHEMA, merge_definitions.SCHEMA
_DISTRIBUTION = distribution.FORMAT, (distribution.publications.name, distribution.agents.name)


def _find_schema(engine: Engine, schema: str, own: _Own) -> _Schema:
    """Inspect a schema that has one of rowtide's names; steps begin transactions of the engine."""
    known, tables = own
    with engine.connect() as connection:
        statement = text(_STATE.format(recorded_definition(schema)))
        named = {"schema": schema, "tables": list(tables)}
        is_own, has_tables, database, definition = connection.execute(statement, named).one()
    place = f"{database}, schema {schema}"
    changing = partial(_changing, engine, _FENCES.get(schema))
    store = PresentStore(known, place, parse_definition(definition), changing) if is_own else None
    return _Schema(place, store, has_tables and not is_own)


@contextmanager
def _changing(engine: Engine, fence: str | None) -> Iterator[Connection]:
    """Yield a transaction of a step, which fences what runs with an earlier version."""
    with engine.begin() as connection:
        if fence is not None:
            connection.exec_driver_sql(fence)
        yield connection


_STATE = """
select coalesce(bool_or(c.relname = any(:tables)), false), count(*) > 0, current_database()::text, {}
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = :schema and c.relkind in ('r', 'p')
"""


def _find_log_store(source: SourceDefinition) -> Iterator[PresentStore]:
    manifest = Manifest(open_store(source.log_store))
    state = manifest.load()
    if state is not None:
        require_own(source, state.source)
        yield PresentStore(LOG_STORE, source.log_store, state.format, manifest)


def _find_lake_tables(lake: str) -> Iterator[PresentStore]:
    """The table by which readers find the others comes first, so that a lake which is not migrated yet is refused
    there.
    """
    names = [name.rstrip("/") for name in open_folder(lake).list_folders("cdc/")]
    first = system_table_path(lake, "lsn_time_mapping")
    paths = [first, *(path for name in names if (path := system_table_path(lake, name)) != first)]
    for path in paths:
        yield from _find_table(path, is_target=False)


def _find_target_tables(target: Target) -> Iterator[PresentStore]:
    for instance in target.consumer.instance_names if not target.is_custom else ():
        path = target.options.path_of(instance)
        if path is not None:
            yield from _find_table(path, is_target=True)


def _find_table(path: str, *, is_target: bool) -> Iterator[PresentStore]:
    known, location = TARGET_TABLE if is_target else LAKE_TABLE, locate(path)
    try:
        snapshot = open_any_format(location)
        if snapshot is not None:
            yield PresentStore(known, path, find_format(path, snapshot.properties), location)
    except RowtideError as error:
        yield PresentStore(known, path, None, None, error)
