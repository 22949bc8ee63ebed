"""Registers a database's tables in a catalogue: adds new ones, corrects changed ones, removes what is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import assert_never

from rowtide.catalogs.catalogue import Catalogue
from rowtide.catalogs.contents import LeftOut, list_contents
from rowtide.catalogs.entries import Entry
from rowtide.catalogs.kinds import CatalogueKind
from rowtide.catalogs.plan import Action, Step, plan_steps
from rowtide.cdc.access import own_source
from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import parse_url
from rowtide.targets.definitions import list_targets


@dataclass(frozen=True, slots=True)
class RegisteredTable:
    """A table of a catalogue: `action` is `add`, `correct`, `remove`, `keep`, or `leave out`, for the reason in `note`.

    `table` is what it is in rowtide's words, `name` its name in the catalogue, None if it is left out.
    """

    action: str
    table: str
    name: str | None
    location: str | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
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
    with _open(kind, place, namespace, source.source_id) as catalogue:
        wanted = [catalogue.fit(one) for one in contents if isinstance(one, Entry)]
        steps = plan_steps(wanted, catalogue.list_tables(), catalogue.as_name, catalogue.namespace)
        if not dry_run:
            for step in steps:
                _take(catalogue, step)
        left_out = [
            RegisteredTable("leave out", one.table, None, None, one.reason)
            for one in contents
            if isinstance(one, LeftOut)
        ]
        return Registration(catalogue.namespace, (*map(_describe, steps), *left_out))


def _take(catalogue: Catalogue, step: Step) -> None:
    match step.action:
        case Action.REMOVE:
            catalogue.remove(step.name)
        case Action.ADD:
            assert step.entry is not None
            catalogue.add(step.name, step.entry)
        case Action.CORRECT:
            assert step.entry is not None
            catalogue.correct(step.name, step.entry)
        case Action.KEEP:
            pass
        case _:
            assert_never(step.action)


def _describe(step: Step) -> RegisteredTable:
    entry = step.entry
    if entry is None:
        return RegisteredTable(step.action.value, step.name, step.name, None, "rowtide has it no longer")
    return RegisteredTable(step.action.value, entry.name, step.name, entry.location)


@contextmanager
def _open(kind: CatalogueKind, place: str, namespace: str, source_id: str) -> Iterator[Catalogue]:
    match kind:
        case CatalogueKind.HIVE:
            from rowtide.catalogs.hive import HiveMetastore
            from rowtide.lake.session import build_session

            metastore = HiveMetastore(build_session(), place, namespace, source_id)
            try:
                yield metastore
            finally:
                metastore.close()
        case _:
            assert_never(kind)
