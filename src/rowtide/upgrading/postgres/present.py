"""The stores of a PostgreSQL database: its own schemas first, as what is in them says where the others are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from sqlalchemy import Engine, text

from rowtide.cdc import definitions
from rowtide.cdc.published import system_table_path
from rowtide.core.errors import RowtideError
from rowtide.core.formats import PresentStore, StoreFormat
from rowtide.core.values import frozen
from rowtide.databases.format_views import parse_definition
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import recorded_definition
from rowtide.delta.features import LAKE_TABLE, TARGET_TABLE, find_format
from rowtide.delta.snapshot import open_any_format
from rowtide.lake.stores import locate, open_folder
from rowtide.log import source_definition
from rowtide.log.catalogue import SCHEMA, find_source
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_store, require_own
from rowtide.log.store.manifest import LOG_STORE, Manifest
from rowtide.merge import definitions as merge_definitions
from rowtide.merge.nodes.postgres.metadata import completing as merge
from rowtide.replication.distributor import definitions as distribution, location
from rowtide.replication.targets.postgres import progress as delivery
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.targets.definitions import Target, list_targets
from rowtide.tracking.postgres import system_tables as tracking
from rowtide.upgrading.present import Present


def find_present(url: str) -> Present:
    """Return the schemas of the database, the log store, the lake's tables and those of targets outside catalogues."""
    with translated():
        schemas = tuple(_find_schemas(url))
        stores = tuple(found.store for found in schemas if found.store is not None)
        foreign = tuple(found.place for found in schemas if found.is_foreign)
    if any(store.format is source_definition.FORMAT and store.find_refusal() for store in stores):
        return Present(stores, foreign)
    return Present((*stores, *_find_outside(url)), foreign)


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
    """Yield what is found, and at last, with the error, what cannot be read."""
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
        place = location.find_place(connection)
    if place is None:
        yield _find_schema(engine, location.SCHEMA, _DISTRIBUTION)
    else:
        yield _find_schema(open_engine(place.url), place.schema, _DISTRIBUTION)


_Own: TypeAlias = tuple[StoreFormat, tuple[str, ...]]
_OWN: Mapping[str, _Own] = {
    SCHEMA: (source_definition.FORMAT, ("source", "members")),
    procedures.SCHEMA: (delivery.FORMAT, ("MSreplication_subscriptions",)),
    merge_definitions.SCHEMA: (merge.FORMAT, (merge_definitions.replinfo.name, merge_definitions.publications.name)),
    clock.SCHEMA: (tracking.FORMAT, ("__sysOCSTrackedObjects", "__sysOCSDeletedRows")),
}
"""By the names of schemas that a database may have: their formats, and the tables of which rowtide's have one."""
_DISTRIBUTION = distribution.FORMAT, (distribution.publications.name, distribution.agents.name)


def _find_schema(engine: Engine, schema: str, own: _Own) -> _Schema:
    """Return what a schema of one of rowtide's names is; steps begin transactions of the engine."""
    known, tables = own
    with engine.connect() as connection:
        statement = text(_STATE.format(recorded_definition(schema)))
        named = {"schema": schema, "tables": list(tables)}
        is_own, has_tables, database, definition = connection.execute(statement, named).one()
    place = f"{database}, schema {schema}"
    store = PresentStore(known, place, parse_definition(definition), engine.begin) if is_own else None
    return _Schema(place, store, has_tables and not is_own)


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
    """The table by which readers find a lake's others comes first: what is not migrated yet is refused there."""
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
