"""What reads, writes and runs on each kind of store, where the store has another format than this build's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from builders.upgrading.next_formats import SCHEMAS, VIEWS
from fixtures.servers import fresh_database
from rowtide.cdc.published import system_table_path
from rowtide.core.formats import FormatNewer, FormatOutdated, MigrationMissing, StoredFormat, StoreFormat
from rowtide.databases.postgres import functions
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.sqlite import guarding
from rowtide.delta.formats import LAKE_TABLE
from rowtide.delta.writing.alteration import raise_format
from rowtide.handle import Database, connect
from rowtide.lake.stores import locate
from rowtide.log.store.entries import ReaderLeft
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import LOG_STORE, Manifest
from rowtide.replication.subscription_settings import SyncType
from rowtide.replication.targets.postgres import progress as delivery
from rowtide.replication.targets.sqlite import progress as delivery_to_files

OWN, READABLE, NEWER = StoredFormat(1, 1, 1), StoredFormat(2, 1, 2), StoredFormat(2, 2, 2)
TABLES = ("item", "met", "seen", "other")
Use = Callable[["World"], object]


@dataclass(frozen=True)
class World:
    """A database with all features, its subscribers, a device, and a file that is tracked."""

    own: Database
    folder: Path
    session: psycopg.Connection[tuple[Any, ...]]
    subscriber: psycopg.Connection[tuple[Any, ...]]
    subscriber_url: str

    def file(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}.db"

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")

    def manifest(self) -> Manifest:
        return Manifest.open(open_store(f"{self.lake}/log"))


@dataclass(frozen=True)
class Kind:
    """A kind of store: how another format is recorded, what reads and writes it, and the agent that does, if any."""

    own: StoreFormat
    record: Callable[[World, StoredFormat], None]
    read: Use
    write: Use
    run: Use | None = None
    refusal: type[Exception] = FormatOutdated
    """What refuses the agent where the store is older."""


def record_schema(schema: str, url: Callable[[World], str], world: World, stored: StoredFormat) -> None:
    with open_engine(url(world)).begin() as connection:
        functions.raise_format(connection, schema, stored)


def record_view(view: str, name: str, world: World, stored: StoredFormat) -> None:
    with closing(sqlite3.connect(world.folder / f"{name}.db")) as file, file:
        guarding.raise_format(file, view, stored)


def record_log_store(world: World, stored: StoredFormat) -> None:
    if stored != OWN:
        world.manifest().raise_format(stored)


def record_lake(world: World, stored: StoredFormat) -> None:
    if stored != OWN:
        raise_format(locate(system_table_path(world.lake, "lsn_time_mapping")), stored)


@contextmanager
def opened(world: World, name: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(world.folder / f"{name}.db", isolation_level=None)) as file:
        yield file


def read_file(world: World) -> object:
    with opened(world, "copy") as file:
        return delivery_to_files.is_made(file)


def write_file(world: World) -> object:
    with opened(world, "copy") as file:
        delivery_to_files.require_writable(file)
        return None


def capture(world: World) -> None:
    world.session.execute("insert into item default values")
    world.own.cdc.run(once=True)


def deliver(url: Callable[[World], str], world: World) -> None:
    world.session.execute("insert into item default values")
    world.own.replication.run(once=True, subscribers=[url(world)])


def synchronise(world: World) -> None:
    world.session.execute("insert into met default values")
    world.own.merge.sync("field", world.file("device"))


def of_file(name: str, use: Callable[[Database], object], world: World) -> object:
    with connect(world.file(name)) as database:
        return use(database)


def own_url(world: World) -> str:
    return world.own.url


KINDS: Mapping[str, Kind] = {
    "publisher": Kind(
        SCHEMAS["rowtide"],
        partial(record_schema, "rowtide", own_url),
        lambda world: world.own.cdc.list_instances(),
        lambda world: world.own.cdc.enable_table("other"),
        capture,
    ),
    "distribution": Kind(
        SCHEMAS["distribution"],
        partial(record_schema, "distribution", own_url),
        lambda world: world.own.replication.list_publications(),
        lambda world: world.own.replication.add_publication("another"),
        partial(deliver, lambda world: world.subscriber_url),
    ),
    "subscriber": Kind(
        SCHEMAS["rowtide_subscriber"],
        partial(record_schema, "rowtide_subscriber", lambda world: world.subscriber_url),
        lambda world: delivery.is_made(world.subscriber),
        lambda world: delivery.is_current(world.subscriber),
        partial(deliver, lambda world: world.subscriber_url),
    ),
    "subscriber's file": Kind(
        VIEWS[delivery_to_files.FORMAT_VIEW],
        partial(record_view, delivery_to_files.FORMAT_VIEW, "copy"),
        read_file,
        write_file,
        partial(deliver, lambda world: world.file("copy")),
    ),
    "hub": Kind(
        SCHEMAS["rowtide_merge"],
        partial(record_schema, "rowtide_merge", own_url),
        lambda world: world.own.merge.list_publications(),
        lambda world: world.own.merge.add_publication("another"),
        synchronise,
    ),
    "device's file": Kind(
        VIEWS["MSmerge_format"],
        partial(record_view, "MSmerge_format", "device"),
        partial(of_file, "device", lambda device: device.merge.list_publications()),
        partial(of_file, "device", lambda device: device.merge.add_publication("another")),
        synchronise,
        # It would migrate it, if there were a migration.
        MigrationMissing,
    ),
    "tracking": Kind(
        SCHEMAS["rowtide_tracking"],
        partial(record_schema, "rowtide_tracking", own_url),
        lambda world: world.own.tracking.list_tracked(),
        lambda world: world.own.tracking.enable_tracking("other"),
    ),
    "tracked file": Kind(
        VIEWS["__sysFormat"],
        partial(record_view, "__sysFormat", "tracked"),
        partial(of_file, "tracked", lambda tracked: tracked.tracking.list_tracked()),
        partial(of_file, "tracked", lambda tracked: tracked.tracking.enable_tracking("other")),
    ),
    "log store": Kind(
        LOG_STORE,
        record_log_store,
        lambda world: world.manifest().state,
        lambda world: world.manifest().append(ReaderLeft("nobody")),
        capture,
    ),
    "lake table": Kind(
        LAKE_TABLE,
        record_lake,
        lambda world: world.own.cdc.get_max_lsn(),
        capture,
    ),
}


@pytest.fixture(scope="module")
def world(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("kinds")
    with ExitStack() as stack:
        url, subscriber_url = (stack.enter_context(fresh_database(server)) for _ in range(2))
        session, subscriber = (
            stack.enter_context(psycopg.connect(one, autocommit=True)) for one in (url, subscriber_url)
        )
        own = stack.enter_context(connect(url))
        world = World(own, folder, session, subscriber, subscriber_url)
        for table in TABLES:
            session.execute(f"create table {table} (id int generated by default as identity primary key)".encode())
        for name in ("copy", "tracked"):
            with opened(world, name) as file:
                file.execute("create table seen (id integer primary key)")
                file.execute("create table other (id integer primary key)")
        own.cdc.enable_db(world.lake)
        own.cdc.enable_table("item")
        own.replication.add_publication("items")
        own.replication.add_article("items", "item")
        for each in (subscriber_url, world.file("copy")):
            own.replication.add_subscription("items", each, sync_type=SyncType.AUTOMATIC)
        own.merge.add_publication("field")
        own.merge.add_article("field", "met")
        own.merge.add_subscription("field", world.file("device"))
        own.tracking.enable_tracking("seen")
        of_file("tracked", lambda tracked: tracked.tracking.enable_tracking("seen"), world)
        capture(world)
        own.replication.run(once=True)
        synchronise(world)
        yield world


@contextmanager
def recorded(kind: Kind, world: World, stored: StoredFormat) -> Iterator[None]:
    """Let a store record a format meanwhile; in a log store or lake it is an entry or commit, which is removed."""
    before = set(world.folder.rglob("*.json"))
    kind.record(world, stored)
    made = set(world.folder.rglob("*.json")) - before
    try:
        yield
    finally:
        for path in made:
            path.unlink()
        kind.record(world, OWN)


@contextmanager
def known_as(kind: Kind, number: int) -> Iterator[None]:
    """Let this build be one of another format of the kind meanwhile, without a migration."""
    names = ("number", "least_reader", "least_writer")
    for name in names:
        object.__setattr__(kind.own, name, number)
    try:
        yield
    finally:
        for name in names:
            object.__setattr__(kind.own, name, 1)


@pytest.mark.parametrize("name", KINDS)
def test_a_store_of_another_format_is_refused(world: World, name: str) -> None:
    kind = KINDS[name]
    agents = () if kind.run is None else (kind.run,)
    with recorded(kind, world, READABLE):
        kind.read(world)
        for use in (kind.write, *agents):
            with pytest.raises(FormatNewer, match=kind.own.store):
                use(world)
    with recorded(kind, world, NEWER):
        for use in (kind.read, kind.write, *agents):
            with pytest.raises(FormatNewer, match=kind.own.store):
                use(world)
    with known_as(kind, 2):
        for use in (kind.read, kind.write):
            with pytest.raises(FormatOutdated, match="rowtide upgrade"):
                use(world)
        for use in agents:
            with pytest.raises(kind.refusal, match=kind.own.store):
                use(world)
    kind.read(world)
    for use in agents:
        use(world)
