"""By last commit time: what a subscriber's table owner defines is not run with more rights than the owner has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from builders.commands.command_lines import Ended, rowtide
from builders.servers.hostile_owners import VALUES, HostileOwner, hostile_owner
from fixtures.servers import SETTINGS, fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

VERSIONS: tuple[Literal[16, 18], ...] = (16, 18)
TYPES = (
    "create schema app; create type app.kind as enum ('a', 'b', 'c'); create domain app.checked as int; "
    "create type app.pair as (n app.checked, s text); create type app.span as range (subtype = int)"
)
TABLE = "create table app.t (id {type_name} primary key, code text, v int)"
Command = Callable[..., Ended]


@pytest.fixture(scope="module", params=VERSIONS, ids=str)
def timed_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server that keeps commit times."""
    settings = {**SETTINGS, "track_commit_timestamp": "on"}
    place = tmp_path_factory.mktemp("timed")
    with EmbeddedServer.start(place, version=request.param, settings=settings) as started:
        yield started


@pytest.fixture
def owner(timed_server: EmbeddedServer) -> Iterator[HostileOwner]:
    """The owner of the subscriber's tables."""
    with hostile_owner(timed_server) as made:
        yield made


@pytest.fixture
def publisher(timed_server: EmbeddedServer) -> Iterator[psycopg.Connection]:
    with fresh_database(timed_server) as url, psycopg.connect(url, autocommit=True) as session:
        session.execute(TYPES)
        yield session


@pytest.fixture
def command(publisher: psycopg.Connection, tmp_path: Path) -> Command:
    """Run a command of replication at the publisher."""

    def run(*arguments: str) -> Ended:
        url = f"postgresql://postgres@/{publisher.info.dbname}?host={publisher.info.host}&port={publisher.info.port}"
        return rowtide("replication", *arguments, "--db", url)

    assert run("add-publication", "p", "--lake", str(tmp_path)).code == 0
    return run


def subscribe(command: Command, owner: HostileOwner) -> Ended:
    assert command("add-article", "p", "app.t").code == 0
    options = ("--sync-type", "replication-support-only", "--conflicts", "last-commit-time")
    return command("add-subscription", "p", "--subscriber", owner.url, *options)


# A composite with a domain is checked by whoever writes it: see the tests of writing as the owner.
@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind != "pair"])
def test_casts_of_keys_and_unique_values_run_nothing(
    owner: HostileOwner, publisher: psycopg.Connection, command: Command, kind: str
) -> None:
    type_name, first, second, third = VALUES[kind]
    for run in (owner.session.execute, publisher.execute):
        run(TABLE.format(type_name=type_name).encode())
        run(f"alter table app.t add column other {type_name} unique".encode())
        run(b"create unique index on app.t (lower(code)) where v > 0 and code <> ''")
        run(f"insert into app.t values ('{first}', 'A', 1, '{first}'), ('{second}', 'B', 1, '{second}')".encode())
    assert subscribe(command, owner).code == 0
    owner.define_casts(type_name, "as assignment")
    owner.run(
        "update app.t set code = 'x', other = null where code = 'A'",
        f"update app.t set id = '{third}' where code = 'B'",
        "delete from app.t where code = 'B'",
    )
    publisher.execute("update app.t set v = 7")
    publisher.execute(f"insert into app.t values ('{third}', 'C', 3, '{third}')".encode())
    publisher.execute("delete from app.t where code = 'B'")
    ended = command("run", "--once")

    assert ended.code == 0, ended
    assert owner.session.execute("select code, v from app.t order by 1").fetchall() == [("A", 7), ("C", 3)]
    assert owner.sprung() == 0


def test_a_column_that_becomes_of_the_owners_type_runs_nothing(
    owner: HostileOwner, publisher: psycopg.Connection, command: Command
) -> None:
    for run in (owner.session.execute, publisher.execute):
        run(TABLE.format(type_name="int").encode())
        run(b"create unique index on app.t (lower(code)) where v > 0")
        run(b"insert into app.t values (1, 'A', 1), (2, 'B', 1)")
    assert subscribe(command, owner).code == 0
    owner.define_casts("app.span", "as implicit")
    owner.try_to(
        "drop trigger rowtide_moved on app.t",
        "drop index app.t_lower_idx",
        "alter table app.t alter column id type app.span using app.span(id, id + 1)",
        "alter table app.t alter column code type app.span using app.span(1, 2)",
        "update app.t set v = 8",
        "create domain pg_temp.text as pg_catalog.text check (app.spring() is null or true)",
        "delete from app.t",
    )

    assert owner.session.execute("select count(*) from app.t").fetchone() == (0,)
    assert owner.sprung() == 0


@pytest.mark.parametrize(
    "index",
    [
        "create unique index on app.t (app.plain(code))",
        "create unique index on app.t (code) where app.plain(code) <> ''",
        "create unique index on app.t (v) where id = 'a'::app.kind",
    ],
)
def test_an_index_that_calls_the_owners_code_is_refused(
    owner: HostileOwner, publisher: psycopg.Connection, command: Command, index: str
) -> None:
    for run in (owner.session.execute, publisher.execute):
        run(b"create function app.plain(text) returns text language sql immutable as 'select $1'")
        run(TABLE.format(type_name="app.kind").encode())
        run(index.encode())

    subscribe(command, owner).require_error(7193)
