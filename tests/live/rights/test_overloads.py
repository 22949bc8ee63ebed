"""No overload of a server's function or operator is called by rowtide, whoever may create in its role's schemas."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from builders.commands.command_lines import rowtide
from builders.servers import overloads
from fixtures.servers import fresh_database
from rowtide.cdc.cleanup import cleanup
from rowtide.databases.postgres.embedded import EmbeddedServer

OWNER = "owner of overloads"
TABLES = """
create type public.mood as enum ('ok', 'low');
create table public.orders (id int primary key, n bigint, name text, mood public.mood);
create table public.items (id bigint generated always as identity primary key, name varchar(20) unique, at timestamptz);
create table public.parts (mood public.mood, code text, n numeric, primary key (mood, code));
insert into public.orders select g, g, 'n', 'ok' from pg_catalog.generate_series(1, 100) g;
insert into public.parts values ('ok', 'a', 1), ('low', 'b', 2);
"""
ASKED_OF_CAPTURE = """
changes public_orders
instances
columns public_orders
status
ddl-history public_orders
snapshots
add-consumer c --instances public_orders
consumers
jobs
job-history
sessions
errors
cleanup public_orders
"""
ASKED_OF_REPLICATION = """
validate p
status
subscriptions
articles p
history
errors
browse-commands
conflicts
sync-sequences p
reinitialize p
"""
ASKED_OF_MERGE = """
status
conflicts m
articles m
history
cleanup
publications
"""


@dataclass(frozen=True)
class Trapped:
    """Two databases with overloads in the schemas of their search_path, and where a role finds them."""

    publisher: str
    subscriber: str

    def run(self, *arguments: str, db: str | None = None) -> str:
        """Run a command; return what it printed."""
        ended = rowtide(*arguments, "--db", db or self.publisher)
        assert ended.code == 0, (arguments, ended)
        return ended.output

    def run_each(self, group: str, commands: str) -> None:
        """Run a group's commands, one a line."""
        for line in commands.split("\n")[1:-1]:
            self.run(group, *line.split())

    def execute(self, statement: str, *, url: str | None = None) -> list[tuple[object, ...]]:
        """Run statements of a program's, which itself keeps away from the overloads; rowtide's triggers fire in it."""
        with psycopg.connect(url or self.publisher, autocommit=True, application_name="rowtide's triggers") as session:
            found = session.execute(statement.encode())
            return found.fetchall() if found.description else []


@pytest.fixture(params=["postgres", OWNER])
def role(request: pytest.FixtureRequest) -> str:
    """Who runs rowtide: a superuser, or the owner of the tables and the database."""
    named: str = request.param
    return named


@pytest.fixture
def trapped(each_server: EmbeddedServer, role: str) -> Iterator[Trapped]:
    server = each_server
    with psycopg.connect(server.url(), autocommit=True) as session:
        if role != "postgres":
            create = "create role {} login replication in role pg_read_all_stats"
            session.execute(sql.SQL(create).format(sql.Identifier(role)))
        with fresh_database(server) as publisher, fresh_database(server) as subscriber:
            for url in (publisher, subscriber):
                _lay(url, role)
            as_role = [url.replace("//postgres@", f"//{role.replace(' ', '%20')}@") for url in (publisher, subscriber)]
            yield Trapped(*as_role)
        if role != "postgres":
            session.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def _lay(url: str, role: str) -> None:
    """Lay the overloads in a database, whose search_path has them before the server's own."""
    with psycopg.connect(url, autocommit=True) as session:
        name = session.info.dbname
        named = {"database": sql.Identifier(name), "role": sql.Identifier(role)}
        session.execute(sql.SQL("create schema {role} authorization {role}").format(**named))
        session.execute(sql.SQL("alter database {database} owner to {role}").format(**named))
        session.execute(sql.SQL("grant all on schema public to {role}").format(**named))
        overloads.lay(session, ["public", role])
        session.execute(
            sql.SQL('alter database {database} set search_path = "$user", public, pg_catalog').format(**named)
        )


@pytest.mark.parametrize("feature", ["capture", "replication", "merge", "tracking"])
def test_nothing_that_a_command_does_calls_an_overload(
    trapped: Trapped, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: str
) -> None:
    """Each feature from its set-up to its removal, with changes of each kind."""
    monkeypatch.setattr(cleanup, "READER_GRACE_S", 0.0)
    trapped.execute(TABLES)
    USE[feature](trapped, tmp_path)
    for url in (trapped.publisher, trapped.subscriber):
        trapped.run("check", db=url)
        with psycopg.connect(url, application_name="rowtide") as session:
            assert not overloads.was_called(session), "the server's log names them: trapped"
            assert session.execute("select 1::oid = 1::bigint, 'a'::name || 'b'::text").fetchall() == [(True, "ab")]
            assert overloads.was_called(session)


def _change(trapped: Trapped) -> None:
    trapped.execute("""
        insert into public.orders values (1000, 1, 'new', 'low');
        update public.orders set n = 7, mood = 'low' where id operator(pg_catalog.<) 10;
        update public.orders set id = 2000 where id operator(pg_catalog.=) 50;
        delete from public.orders where id operator(pg_catalog.=) 60;
        insert into public.items (name, at) values ('a', '2026-01-01'), ('b', null);
        update public.parts set code = 'c', n = 3 where code operator(pg_catalog.=) 'b';
    """)


def _capture(trapped: Trapped, folder: Path) -> None:
    trapped.run("check")
    trapped.run("cdc", "enable-db", "--lake", str(folder / "lake"))
    for table in ("orders", "public.items", "parts"):
        trapped.run("cdc", "enable-table", table)
    trapped.run("cdc", "scan")
    _change(trapped)
    trapped.run("cdc", "scan")
    trapped.execute("alter table public.orders add column extra int default 5; truncate public.items")
    trapped.run("cdc", "scan")
    trapped.run_each("cdc", ASKED_OF_CAPTURE)
    trapped.run("health")
    for table in ("orders", "items", "parts"):
        trapped.run("cdc", "disable-table", f"public.{table}")


def _replicate(trapped: Trapped, folder: Path) -> None:
    trapped.run("replication", "add-publication", "p", "--lake", str(folder / "lake"))
    for table in ("orders", "public.items", "parts"):
        trapped.run("replication", "add-article", "p", table)
    trapped.run("replication", "add-subscription", "p", "--subscriber", trapped.subscriber)
    trapped.run("replication", "run", "--once")
    _change(trapped)
    trapped.run("replication", "run", "--once")
    trapped.execute("alter table public.orders add column more text; update public.orders set more = 'm'")
    trapped.run("replication", "run", "--once")
    query = "select pg_catalog.count(*), pg_catalog.sum(n), pg_catalog.max(more) from public.orders"
    assert trapped.execute(query, url=trapped.subscriber) == trapped.execute(query)
    trapped.run_each("replication", ASKED_OF_REPLICATION)
    trapped.run("replication", "run", "--once")
    trapped.run("health")
    trapped.run("replication", "drop-subscription", "p", "--subscriber", trapped.subscriber)
    trapped.run("replication", "drop-publication", "p", "--yes")


def _merge(trapped: Trapped, folder: Path) -> None:
    device = folder / "device.db"
    subscriber = f"sqlite:///{device}"
    trapped.run("merge", "add-publication", "m")
    for table in ("orders", "parts"):
        trapped.run("merge", "add-article", "m", table)
    trapped.execute("create type public.mood as enum ('ok', 'low')", url=trapped.subscriber)
    for each in (subscriber, trapped.subscriber):
        trapped.run("merge", "add-subscription", "m", "--subscriber", each)
    _change(trapped)
    with closing(sqlite3.connect(device)) as session:
        (table,) = session.execute(
            "select name from sqlite_master where name like '%orders' and type = 'table'"
        ).fetchone()
        session.execute(f'update "{table}" set n = 9 where id = 1')
        session.execute(f'update "{table}" set n = 10 where id = 2')
        session.execute(f'delete from "{table}" where id = 70')
        session.commit()
    for each in (subscriber, trapped.subscriber, subscriber):
        trapped.run("merge", "sync", "m", "--subscriber", each)
    trapped.run_each("merge", ASKED_OF_MERGE)
    for each in (subscriber, trapped.subscriber):
        trapped.run("merge", "validate", "m", "--subscriber", each)
        trapped.run("merge", "drop-subscription", "m", "--subscriber", each)
    for table in ("orders", "parts"):
        trapped.run("merge", "drop-article", "m", f"public.{table}")
    trapped.run("merge", "drop-publication", "m")


def _track(trapped: Trapped, _folder: Path) -> None:
    for words in (("orders",), ("public.items", "--storage", "side"), ("parts", "--storage", "side")):
        trapped.run("tracking", "enable", *words)
    trapped.run("tracking", "changes", "public.orders")
    _change(trapped)
    trapped.execute("truncate public.items")
    trapped.run("tracking", "changes", "public.orders")
    trapped.run("tracking", "options", "orders")
    trapped.run("health")
    trapped.run("tracking", "purge", "tombstones", "orders", "--days", "1")
    for table in ("orders", "items", "parts"):
        trapped.run("tracking", "disable", f"public.{table}")


USE: Mapping[str, Callable[[Trapped, Path], None]] = {
    "capture": _capture,
    "replication": _replicate,
    "merge": _merge,
    "tracking": _track,
}
