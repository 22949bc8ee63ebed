"""The stores of a PostgreSQL database: its own schemas first, as what is in them says where the others are."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Engine, text

from rowtide.cdc import definitions
from rowtide.cdc.lake_tables import system_table_path
from rowtide.core.formats import Format
from rowtide.core.upgrades import PresentStore
from rowtide.databases.format_views import parse_definition
from rowtide.databases.postgres import clock
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.formats import recorded_definition
from rowtide.delta.formats import LAKE_TABLE, TARGET_TABLE, find_format
from rowtide.delta.snapshot import open_any_format
from rowtide.lake.stores import locate, open_folder
from rowtide.log import source_definition
from rowtide.log.catalogue import SCHEMA, find_source
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.ownership import require_own
from rowtide.log.store.store_format import LOG_STORE
from rowtide.merge import definitions as merge_definitions
from rowtide.merge.nodes.postgres.metadata import completing as merge
from rowtide.replication.distributor import definitions as distribution
from rowtide.replication.distributor import location
from rowtide.replication.targets.postgres import progress as delivery
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.targets.definitions import Target, list_targets
from rowtide.tracking.postgres import system_tables as tracking


def list_stores(url: str) -> Iterator[PresentStore]:
    """Yield the schemas of the database, the log store, the lake's tables and those of targets outside catalogues."""
    with translated():
        yield from _find_schemas(url)
    with translated(), open_engine(url).connect() as connection:
        source = find_source(connection, Format.require_not_newer)
        targets = list_targets(connection) if source is not None and definitions.are_made(connection) else ()
    if source is None:
        return
    yield from _find_log_store(source)
    if source.lake is not None:
        yield from _find_lake_tables(source.lake)
    for target in targets:
        yield from _find_target_tables(target)


def _find_schemas(url: str) -> Iterator[PresentStore]:
    """Yield rowtide's schemas in the database, and that of its distribution database, which may be elsewhere."""
    engine = open_engine(url)
    found = [_find_schema(engine, schema, own) for schema, own in _FORMATS.items()]
    with engine.connect() as connection:
        place = location.find_place(connection)
    if place is None:
        found.append(_find_schema(engine, location.SCHEMA, distribution.FORMAT))
    else:
        found.append(_find_schema(open_engine(place.url), place.schema, distribution.FORMAT))
    yield from (store for store in found if store is not None)


_FORMATS = {
    SCHEMA: source_definition.FORMAT,
    procedures.SCHEMA: delivery.FORMAT,
    merge_definitions.SCHEMA: merge.FORMAT,
    clock.SCHEMA: tracking.FORMAT,
}
"""The formats of the schemas that a database may have, by their names."""


def _find_schema(engine: Engine, schema: str, own: Format) -> PresentStore | None:
    """Return a schema of rowtide's with its format, None if it has no table; steps begin transactions of the engine."""
    with engine.connect() as connection:
        statement = text(_STATE.format(recorded_definition(schema)))
        is_there, database, definition = connection.execute(statement, {"schema": schema}).one()
    place = f"{database}, schema {schema}"
    return PresentStore(own, place, parse_definition(definition), engine.begin) if is_there else None


_STATE = """
select exists (
           select from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname = :schema and c.relkind in ('r', 'p')),
       current_database()::text, {}
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
    location = locate(path)
    snapshot = open_any_format(location)
    if snapshot is not None:
        known = TARGET_TABLE if is_target else LAKE_TABLE
        yield PresentStore(known, path, find_format(path, snapshot.properties), location)
