"""Each source of what `health`, `check` and `status` state fails in turn: nothing is stated of it then but that.

The truth does not change while a source cannot be read. So whatever is stated now and was not before is false, unless
it names what failed; and what is not stated any more has to be of what failed, by `HIDDEN`: of a new fact it says where
that comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.engine import make_url

from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide
from builders.commands.stated_facts import Stated, state
from fixtures.captured import open_copied
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect

OBJECTS = Path(__file__).parents[3] / "docs" / "reference" / "objects.md"
LOG = r"log reader|slot|publication|partition|event triggers"
CAPTURE = r"capture|snapshots?|keys|instances?|consumers?|targets?|new targets|cleanup|rule|lake"
REPLICATION = r"subscriptions?|publications|articles?"
HIDDEN = {
    "rowtide": f"{LOG}|{CAPTURE}|{REPLICATION}|log store|table public.item|server|role",
    "cdc": f"log reader|{CAPTURE}|table public.item",
    "distribution": f"log reader|{REPLICATION}",
    "distribution elsewhere": f"log reader|{REPLICATION}|log store",
    "rowtide_merge": "merge",
    "rowtide_tracking": "table public.note|server",
    "rowtide_subscriber": "subscriber|prepared",
    "log store": f"log reader|capture|instances|{REPLICATION}|log store",
    "lake": f"log reader|{CAPTURE}|{REPLICATION}|log store",
    "lake tables": "snapshots|keys|targets",
    "database": ".*",
}
"""By what failed, subjects of which nothing is known any more."""
FAILING = {
    "rowtide": {"cdc status", "replication status"},
    "cdc": {"cdc status"},
    "distribution": {"replication status"},
    "distribution elsewhere": {"replication status"},
    "rowtide_merge": {"merge status"},
    "rowtide_tracking": {"tracking options"},
    "log store": {"cdc status", "replication status"},
    "lake": {"cdc status", "replication status"},
}
"""By what failed, commands that can state nothing."""
TABLES = ("item", "place", "note")
"""What is captured and published, merged, tracked."""
READ = {
    *("source", "members", "change_tables", "captured_columns", "cdc_jobs", "consumers", "snapshots", "targets"),
    *("MSpublications", "MSarticles", "MSsubscriptions", "MSdistribution_agents", "MSdistribution_history"),
    *("MSrepl_errors", "MSmerge_replinfo", "MSmerge_conflicts_info", "sysmerge_stored_publications"),
    *("sysmerge_stored_subscriptions", "__sysOCSTrackedObjects", "__sysOCSDeletedRows"),
}
"""Tables without which something is not known; `make test` tries some of these."""
REFERRING = (
    "First do what is said of the log store",
    "Repair log store",
    "Repair schema cdc",
    "may not read the schema",
)
"""Sentences that leave it to another to name what failed."""
ADMITTED = {"control": "event triggers", "rowtide_format": "before formats had numbers"}
"""Tables that are not known to have been dropped: what is said then."""


@dataclass(frozen=True, slots=True)
class World:
    """A database in which everything is enabled, and one that it delivers into."""

    captured: CapturedDatabase
    subscriber: str
    folder: Path

    @property
    def url(self) -> str:
        return self.captured.url


def list_tables() -> list[tuple[str, str]]:
    """Return the tables of rowtide's in a database, by their schemas."""
    rows = [line.split("|")[1:4] for line in OBJECTS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    names = [name for objects, kind, _ in rows if kind.strip() in ("table", "view") for name in objects.split(",")]
    found = [re.fullmatch(r" ?`(\w+?)(?:_<n>)?\.([\w]+)` ?", name) for name in names]
    return [(match[1], match[2]) for match in found if match is not None]


def cases() -> Iterator[object]:
    for schema, table in list_tables():
        for how in ("gone", "denied"):
            marks = () if table in READ else (pytest.mark.exhaustive,)
            yield pytest.param(schema, table, how, id=f"{schema}.{table}-{how}", marks=marks)


@pytest.fixture(scope="module")
def world(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("unread")
    with ExitStack() as stack:
        url, subscriber = (stack.enter_context(fresh_database(server)) for _ in range(2))
        captured = stack.enter_context(open_copied(url, folder / "lake"))
        captured.execute(
            *(f"create table {name} (id int primary key, name text)" for name in ("item", "place", "note"))
        )
        for command in (
            f"cdc enable-db --lake {captured.lake}",
            "cdc enable-table item",
            f"cdc add-target house public_item --path {folder}/targets",
            "replication add-publication shop",
            "replication add-article shop item",
            f"replication add-subscription shop --subscriber {subscriber}",
            "merge add-publication field",
            "merge add-article field place",
            f"merge add-subscription field --subscriber sqlite:///{folder}/device.db",
            f"merge sync field --subscriber sqlite:///{folder}/device.db",
            "tracking enable note",
            "replication run --once",
        ):
            ended = rowtide(*command.split(), "--db", url)
            assert ended.code == 0, (command, ended)
        captured.copy_tables()
        connect(url).targets.apply()
        captured.execute("insert into item values (1, 'a')")
        captured.read_log()
        yield World(captured, subscriber, folder)


@pytest.fixture(scope="module")
def before(world: World) -> dict[str, dict[str, Stated]]:
    """What is stated while all can be read, by who asks."""
    return {url: state(url) for url in (world.url, world.subscriber)}


@pytest.fixture(scope="module")
def watcher(world: World) -> Iterator[str]:
    """A role that may read everything."""
    databases = (world.url, world.subscriber)
    with psycopg.connect(world.url, autocommit=True) as session:
        session.execute("create role watcher login in role pg_monitor, pg_read_all_data")
    for url in databases:
        for schema in {schema for schema, _ in list_tables()}:
            with psycopg.connect(url, autocommit=True) as session:
                if session.execute("select to_regnamespace(%s) is not null", [schema]).fetchone() == (True,):
                    session.execute(f"grant usage on schema {schema} to watcher".encode())
                    session.execute(f"grant select on all tables in schema {schema} to watcher".encode())
    with psycopg.connect(world.url, autocommit=True) as session:
        session.execute("grant select on all tables in schema public to watcher")
        session.execute("revoke pg_read_all_data from watcher")
    try:
        yield "watcher"
    finally:
        for url in databases:
            with psycopg.connect(url, autocommit=True) as session:
                session.execute("drop owned by watcher")
        with psycopg.connect(world.url, autocommit=True) as session:
            session.execute("drop role watcher")


@pytest.mark.parametrize(("schema", "table", "how"), list(cases()))
def test_what_a_table_would_say_is_not_known(
    world: World,
    before: dict[str, dict[str, Stated]],
    request: pytest.FixtureRequest,
    schema: str,
    table: str,
    how: str,
) -> None:
    url = world.subscriber if schema == "rowtide_subscriber" else world.url
    asked = url
    if how == "denied":
        role = request.getfixturevalue("watcher")
        asked = make_url(url).set(username=role).render_as_string(hide_password=False)
        if asked not in before:
            before[asked] = state(asked)
    with psycopg.connect(url, autocommit=True) as session:
        if session.execute("select to_regclass(%s)", [f'{schema}."{table}"']).fetchone() == (None,):
            pytest.skip("only where the distribution database is elsewhere, or by last commit time")
        with FAILURES[how](session, schema, table):
            now = state(asked)
    # Capture's tables are open to all; who may not read them knows nothing of the log.
    source = "rowtide" if (schema, how) == ("cdc", "denied") else schema
    require_unknown(before, asked, now, source, (table, f"schema {schema}", ADMITTED.get(table, table)))


@contextmanager
def gone(session: psycopg.Connection, schema: str, table: str) -> Iterator[None]:
    session.execute(f'alter table {schema}."{table}" rename to "taken away"'.encode())
    try:
        yield
    finally:
        session.execute(f'alter table {schema}."taken away" rename to "{table}"'.encode())


@contextmanager
def denied(session: psycopg.Connection, schema: str, table: str) -> Iterator[None]:
    granted = session.execute(
        "select has_table_privilege('public', %s::regclass, 'select')", [f'{schema}."{table}"']
    ).fetchone()
    session.execute(f'revoke select on {schema}."{table}" from watcher, public'.encode())
    try:
        yield
    finally:
        grantees = "watcher, public" if granted == (True,) else "watcher"
        session.execute(f'grant select on {schema}."{table}" to {grantees}'.encode())


FAILURES: dict[str, Callable[..., AbstractContextManager[None]]] = {"gone": gone, "denied": denied}


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("lake", "lake"),
        ("lake/log", "log store"),
        ("lake/log/manifest", "log store"),
        ("lake/log/segments", "log store"),
        ("lake/cdc", "lake tables"),
        ("lake/cdc/instances", "lake tables"),
        ("lake/cdc/ddl_history", "lake tables"),
        ("lake/cdc/lsn_time_mapping", "lake tables"),
        ("lake/cdc/targets.house", "lake tables"),
        ("targets", "lake tables"),
        ("device.db", "lake tables"),
    ],
)
def test_what_a_folder_would_say_is_not_known(
    world: World, before: dict[str, dict[str, Stated]], place: str, source: str
) -> None:
    taken = world.folder / "taken away"
    (world.folder / place).rename(taken)
    try:
        now = state(world.url)
        assert not (world.folder / place).exists(), "it is made again, and seems to be there"
    finally:
        taken.rename(world.folder / place)
    words = (str(world.folder / place), "lake/log", "log store", "is not on this machine", "no apply is recorded")
    require_unknown(before, world.url, now, source, words)


def test_what_a_damaged_table_would_say_is_not_known(world: World, before: dict[str, dict[str, Stated]]) -> None:
    log = max((world.folder / "lake" / "cdc" / "instances" / "_delta_log").glob("*.json"))
    content = log.read_bytes()
    log.write_bytes(b"{")
    try:
        now = state(world.url)
    finally:
        log.write_bytes(content)
    require_unknown(before, world.url, now, "lake tables", ("cdc/instances",))


def test_what_a_closed_database_would_say_is_not_known(
    world: World, server: EmbeddedServer, before: dict[str, dict[str, Stated]]
) -> None:
    """A subscriber's is asked nothing; the publisher's own is."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        for url, asked in ((world.subscriber, world.url), (world.subscriber, world.subscriber)):
            name = make_url(url).database
            admin.execute(f"alter database {name} allow_connections false".encode())
            try:
                now = state(asked)
            finally:
                admin.execute(f"alter database {name} allow_connections true".encode())
            if asked == world.url:
                require_unknown(before, asked, now, "none", ())
            else:
                require_unknown(before, asked, now, "database", ("not currently accepting connections",))
                assert {stated.code for stated in now.values()} == {1, 2}


@pytest.fixture(scope="module")
def elsewhere(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A publisher and its distribution database, which is another one."""
    folder = tmp_path_factory.mktemp("elsewhere")
    with fresh_database(server) as url, fresh_database(server) as distribution:
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("create table item (id int primary key, name text)")
        for command in (
            f"replication add-publication shop --log-store {folder}/log --distribution-db {distribution}",
            "replication add-article shop item",
            f"replication add-subscription shop --subscriber sqlite:///{folder}/copy.db",
            "replication run --once",
        ):
            ended = rowtide(*command.split(), "--db", url)
            assert ended.code == 0, (command, ended)
        yield url, distribution


@pytest.mark.parametrize("how", ["closed", "lost", "denied"])
def test_what_a_distribution_database_would_say_is_not_known(
    elsewhere: tuple[str, str], server: EmbeddedServer, how: str
) -> None:
    url, distribution = elsewhere
    before = {url: state(url)}
    name = str(make_url(distribution).database)
    with (
        psycopg.connect(server.url(), autocommit=True) as admin,
        psycopg.connect(distribution, autocommit=True) as session,
    ):
        ((schema,),) = session.execute(
            r"select nspname::text from pg_namespace where nspname like 'distribution%'"
        ).fetchall()
        asked, stopped = url, session if how == "lost" else admin
        stops, starts = {
            "closed": [f"alter database {name} allow_connections {allowed}" for allowed in ("false", "true")],
            "lost": [f"alter schema {schema} rename to lost", f"alter schema lost rename to {schema}"],
            "denied": [
                f"revoke connect on database {name} from stranger",
                f"grant connect on database {name} to public",
            ],
        }[how]
        if how == "denied":
            admin.execute("create role stranger login in role pg_monitor, pg_read_all_data")
            admin.execute(f"revoke connect on database {name} from public".encode())
            admin.execute(f"grant connect on database {name} to stranger".encode())
            asked = make_url(url).set(username="stranger").render_as_string(hide_password=False)
            before[asked] = state(asked)
        stopped.execute(stops.encode())
        try:
            now = state(asked)
        finally:
            stopped.execute(starts.encode())
            if how == "denied":
                admin.execute("drop role stranger")
    require_unknown(before, asked, now, "distribution elsewhere", ("distribution database",))


def require_unknown(
    before: dict[str, dict[str, Stated]], url: str, now: dict[str, Stated], source: str, words: tuple[str, ...]
) -> None:
    """Compare with what was stated before; what is late by now, or was then, is stated once more."""
    try:
        compare(before[url], now, source, words)
    except AssertionError:
        before[url] = state(url)
        compare(before[url], now, source, words)


def compare(before: dict[str, Stated], now: dict[str, Stated], source: str, words: tuple[str, ...]) -> None:
    """Nothing is stated but what was true before, and that something could not be read; what is hidden is of that."""
    known = {fact for stated in before.values() for fact in stated.facts}
    for command, stated in now.items():
        new = {fact: said for fact, said in stated.facts.items() if fact not in known}
        false = {fact: said for fact, said in new.items() if not names_failure(f"{fact} {said}", words)}
        assert not false, (command, false)
        hidden = before[command].facts.keys() - stated.facts.keys()
        if not hidden:
            continue
        assert new or names_failure(stated.errors, words), (command, hidden)
        is_told = command == "check" or stated.code > 0 or "new targets" in {subject for subject, _ in new}
        assert is_told, (command, hidden)
        if command in ("health", "check"):
            others = {fact for fact in hidden if not re.match(HIDDEN[source], fact[0])}
            assert not others, (command, others)
        else:
            assert source == "database" or command in FAILING[source], (command, hidden)


def names_failure(said: str, words: tuple[str, ...]) -> bool:
    also = (
        "First do what is said of the log store",
        "Repair log store first",
        "may not read the schema",
        "Repair schema cdc",
    )
    return any(word in said for word in (*words, *also))
