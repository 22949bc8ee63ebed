"""The log source of a database without capture: created with the first publication, removed with the last."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine

from rowtide.databases.urls import name_of
from rowtide.lake.paths import absolute_lake
from rowtide.log import placeholder_reader
from rowtide.log.catalogue import find_source, list_features
from rowtide.log.postgres import provision
from rowtide.log.postgres.provision import OpenedSource, StoragePlaces, absolute
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.manifest import Manifest
from rowtide.replication.articles.articles import FEATURE
from rowtide.replication.errors.publishing import LogStoreElsewhere, NothingReadsLog


def ensure_source(
    engine: Engine,
    database: str,
    lake: str | None,
    log_store: str | None,
    on_wait: Callable[[str], None],
    *,
    for_group: bool = False,
) -> OpenedSource:
    """Create a source if there is none; the caller holds its lease.

    Raises `NothingReadsLog` if no directory is given, `LogStoreElsewhere` if the source has another one.
    """

    def choose_place() -> StoragePlaces:
        # Capture, if it is enabled later, says where its lake is.
        folder = lake if lake is not None else log_store
        if folder is None:
            raise NothingReadsLog(name_of(database))
        # Only here: they read Delta tables, which a run does not.
        from rowtide.lake.stores import prepare_lake, require_not_nested

        require_not_nested(folder, log_store)
        return StoragePlaces(prepare_lake(folder, for_group=for_group), log_store, for_group)

    with engine.connect() as connection:
        found = find_source(connection)
    if found is not None:
        _require_place(database, found, lake, log_store)
    return provision.ensure_source(engine, FEATURE, choose_place, on_wait)


def find_own_source(connection: Connection) -> SourceDefinition | None:
    """Return the source if only publications need it."""
    source = find_source(connection)
    return source if source is not None and list_features(connection) <= {FEATURE} else None


def advance_placeholder(engine: Engine, manifest: Manifest) -> None:
    """Advance the placeholder reader, so that the log store can remove what no subscription needs.

    Raises `LeaseHeld` if another process is creating or removing the source.
    """
    if placeholder_reader.is_behind(manifest):
        with provision.take_source(engine, patience_s=0):
            placeholder_reader.advance(manifest)


def _require_place(database: str, source: SourceDefinition, lake: str | None, log_store: str | None) -> None:
    """Raise `LogStoreElsewhere` unless the given directory is the recorded lake's, or its log store."""
    if log_store is not None:
        wanted = absolute(log_store)
    elif lake is None or absolute_lake(lake) == source.lake:
        return
    else:
        wanted = StoragePlaces(absolute_lake(lake), None).log_store_place
    if wanted != source.log_store:
        raise LogStoreElsewhere(name_of(database), source.log_store, wanted)
