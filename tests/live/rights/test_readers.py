"""What a plan calls, functions in indexes, checks and statistics, has the rights of the table's owner at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from builders.commands.command_lines import rowtide
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer

OWNER = "owner of indexes"
EVIL = """
create function app.evil(int) returns int language plpgsql immutable as $$
begin
    perform app.gain();
    return $1;
end $$;
create function app.gain() returns void language plpgsql as $$
begin
    begin
        execute 'reset role';
        -- A transaction that is read-only allows this, too.
        execute format('copy (select 1) to %L', pg_catalog.current_setting('config_file') || current_database());
    exception when others then null;
    end;
    perform pg_catalog.set_config('search_path', 'app', false);
end $$;
create function app.text_of(oid, bigint) returns boolean language plpgsql as $$
begin perform app.gain(); return true; end $$;
create operator app.= (leftarg = oid, rightarg = bigint, function = app.text_of);
"""
TABLES = """
create table app.in_index (id int primary key, v text);
create index on app.in_index ((id + app.evil(1)));
create table app.in_predicate (id int primary key, v text);
create index on app.in_predicate (v) where id > app.evil(0);
create table app.in_statistics (id int primary key, v text);
create statistics app.s on (id + app.evil(1)), v from app.in_statistics;
create table app.in_check (id int primary key, v text check (app.evil(1) operator(pg_catalog.>) 0));
create table app.in_bound (id int, v text, primary key (id)) partition by range (id);
create table app.part partition of app.in_bound for values from (0) to (1000);
create index on app.part ((id + app.evil(2)));
"""
ENABLING: Mapping[str, Sequence[Sequence[str]]] = {
    "tracking": [("tracking", "enable", "app.emptied")],
    "merge": [("merge", "add-publication", "m"), ("merge", "add-article", "m", "app.emptied")],
}
NAMES = ("in_index", "in_predicate", "in_statistics", "in_check", "in_bound")


@pytest.fixture
def databases(each_server: EmbeddedServer) -> Iterator[tuple[str, str]]:
    """The URLs, as a superuser, of a database where another role has tables, and of an empty one."""
    with psycopg.connect(each_server.url(), autocommit=True) as session:
        role = sql.Identifier(OWNER)
        session.execute(sql.SQL("create role {} login").format(role))
        with fresh_database(each_server) as publisher, fresh_database(each_server) as subscriber:
            with psycopg.connect(publisher, autocommit=True) as setting_up:
                setting_up.execute(sql.SQL("create schema app authorization {}").format(role))
                setting_up.execute(sql.SQL("set session authorization {}").format(role))
                setting_up.execute(EVIL.encode())
                setting_up.execute(TABLES)
                for name in NAMES:
                    setting_up.execute(f"insert into app.{name} select g, 'v' from generate_series(1, 9) g".encode())
            yield publisher, subscriber
        session.execute(sql.SQL("drop role {}").format(role))


def gained(url: str) -> bool:
    """Return whether a function of the owner's has ever had the rights of a superuser on this server."""
    file = "current_setting('config_file') || current_database()"
    with psycopg.connect(url) as session:
        found = session.execute(f"select size from pg_stat_file({file}, true)".encode()).fetchone()
    return found != (None,)


def test_initial_copies_call_nothing_with_the_readers_rights(databases: tuple[str, str], tmp_path: Path) -> None:
    publisher, subscriber = databases
    for words in (
        ("add-publication", "p", "--lake", str(tmp_path / "lake")),
        *(("add-article", "p", f"app.{name}") for name in NAMES),
        ("add-subscription", "p", "--subscriber", subscriber),
        ("run", "--once"),
        ("validate", "p"),
    ):
        ended = rowtide("replication", *words, "--db", publisher)
        assert ended.code == 0, (words, ended)
        assert not gained(publisher), words
    with psycopg.connect(subscriber) as session:
        counts = {name: session.execute(f"select count(*) from app.{name}".encode()).fetchone() for name in NAMES}
    assert counts == dict.fromkeys(NAMES, (9,))


def test_snapshots_call_nothing_with_the_readers_rights(databases: tuple[str, str], tmp_path: Path) -> None:
    publisher, _ = databases
    assert rowtide("cdc", "enable-db", "--lake", str(tmp_path / "lake"), "--db", publisher).code == 0
    for name in NAMES:
        assert rowtide("cdc", "enable-table", f"app.{name}", "--db", publisher).code == 0
        assert not gained(publisher), name


@pytest.mark.parametrize("feature", list(ENABLING))
def test_truncates_call_nothing_with_the_triggers_rights(databases: tuple[str, str], feature: str) -> None:
    """The index comes after the triggers; a truncate of merge is refused, tracking counts it as a large one."""
    url, _ = databases
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        session.execute(
            "create table app.emptied (id int primary key, v text); insert into app.emptied values (1, 'v')"
        )
    for words in ENABLING[feature]:
        assert rowtide(*words, "--db", url).code == 0
    assert not gained(url)
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(sql.SQL("set session authorization {}").format(sql.Identifier(OWNER)))
        session.execute("create index on app.emptied ((id + app.evil(1)))")
        if feature == "merge":
            with pytest.raises(psycopg.errors.RaiseException, match="RT-8153"):
                session.execute("truncate app.emptied")
        else:
            session.execute("truncate app.emptied")
    assert not gained(url)
