"""What a role or a database sets for its sessions is not what sessions of rowtide work under."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from builders.capture.captured_databases import wait_until
from builders.servers.odd_settings import MEANINGS, TIME_LIMITS, open_program, set_for_database
from fixtures.servers import fresh_database
from rowtide.core.errors import Remedy
from rowtide.databases.postgres.catalogue import find_table, find_table_id, list_tables, spell_names
from rowtide.databases.postgres.connect import open_engine, open_engine_beside, open_url
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import (
    ConnectionFailed,
    RowsHidden,
    StatementCancelled,
    WritesRefused,
    translated,
)
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS, STREAM_SETTINGS, WHOLE_TABLES
from rowtide.log.postgres.stream.stream import ReplicationStream
from rowtide.replication.targets.postgres.connecting import connect

Asking = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["server", "server_16"])
def odd(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of each server that sets everything."""
    with fresh_database(request.getfixturevalue(request.param)) as url:
        with psycopg.connect(url, autocommit=True) as session:
            set_for_database(session, MEANINGS | TIME_LIMITS)
        yield url


@contextmanager
def by_engine(url: str) -> Iterator[Asking]:
    with open_engine(url).connect() as connection:
        yield lambda query: [tuple(row) for row in connection.exec_driver_sql(query)]


@contextmanager
def beside_a_program(url: str) -> Iterator[Asking]:
    with open_program(url) as program, open_engine_beside(program).connect() as connection:
        yield lambda query: [tuple(row) for row in connection.exec_driver_sql(query)]


@contextmanager
def by_url(url: str) -> Iterator[Asking]:
    with closing(open_url(url)) as connection:
        yield lambda query: connection.execute(query.encode()).fetchall()


@contextmanager
def to_subscriber(url: str) -> Iterator[Asking]:
    with closing(connect(url, application_name="a test")) as connection:
        yield lambda query: connection.execute(query.encode()).fetchall()


@contextmanager
def by_stream(url: str) -> Iterator[Asking]:
    with closing(ReplicationStream.connect(url, application_name="a test")) as stream:
        yield lambda query: [tuple(row) for row in stream._query(query)]


OPENINGS = (by_engine, beside_a_program, by_url, to_subscriber, by_stream)


def settings(ask: Asking, names: Mapping[str, str]) -> dict[str, str]:
    """Return what a session's settings are, of those that the server has."""
    found = {name: ask(f"select current_setting('{name}', true)")[0][0] for name in names}
    return {name: value for name, value in found.items() if value}


@pytest.mark.parametrize("opening", OPENINGS)
def test_sessions_set_what_they_work_under(odd: str, opening: Callable[[str], Any]) -> None:
    wanted = STREAM_SETTINGS if opening is by_stream else PINNED_SETTINGS
    with opening(odd) as ask:
        found = settings(ask, wanted)
        assert found == {name: wanted[name] for name in found}
        assert set(wanted) - set(found) <= {"transaction_timeout"}
        assert ask("show session_replication_role") == [("origin",)]
        assert ask("show synchronous_commit") == [("local",)]
    assert set(TIME_LIMITS) <= set(wanted)


def test_a_way_of_committing_that_is_safe_stays(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        set_for_database(session, {"synchronous_commit": "remote_apply"})
    with by_engine(database) as ask:
        assert ask("show synchronous_commit") == [("remote_apply",)]


def test_sessions_outlast_every_time_limit(odd: str) -> None:
    with by_engine(odd) as ask:
        assert ask("select pg_sleep(0.35)") == [("",)]
        assert ask("select 1") == [(1,)]


def test_a_role_without_rights_connects_where_nothing_is_odd(make_role: Callable[[str], str], database: str) -> None:
    role = make_role("login")
    with by_engine(as_role(database, role)) as ask:
        assert ask("select current_user") == [(role,)]


def test_a_statement_that_is_cancelled_is_tried_again(database: str) -> None:
    with closing(open_url(database)) as session:
        session.execute("set statement_timeout = '1ms'")
        with pytest.raises(StatementCancelled, match="RT-1041") as raised, translated():
            session.execute("select pg_sleep(1)")
    assert raised.value.remedy is Remedy.RETRY


def test_a_session_that_the_server_ended_is_a_broken_connection(database: str) -> None:
    others = "select from pg_stat_activity where datname = current_database() and application_name = 'to be ended'"
    with (
        closing(open_url(database, application_name="to be ended")) as session,
        psycopg.connect(database, autocommit=True) as other,
    ):
        session.execute("set idle_in_transaction_session_timeout = '1ms'")
        session.execute("begin")
        wait_until(lambda: not other.execute(others).fetchall(), what="the end of the session")
        with pytest.raises(ConnectionFailed), translated():
            session.execute("select 1")


def test_a_database_for_reading_only_is_no_standby(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        set_for_database(session, {"default_transaction_read_only": "on"})
    with closing(open_url(database)) as session, pytest.raises(WritesRefused, match="RT-1042"), translated():
        session.execute("create table t ()")


def test_no_schema_of_a_role_hides_the_servers_names(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("create schema oracle; create function oracle.lower(text) returns text return 'x'")
        session.execute("create function oracle.is_never(text, text) returns boolean return false")
        session.execute("create operator oracle.= (leftarg = text, rightarg = text, function = oracle.is_never)")
        set_for_database(session, {"search_path": "oracle, pg_catalog, public"})
    with by_engine(database) as ask:
        assert ask("show search_path") == [("pg_catalog, pg_temp",)]
        assert ask("select lower('A'), 'a'::text = 'a'::text") == [("a", True)]


def test_tables_are_found_by_the_search_path_of_the_role(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("create schema oracle; create schema other")
        session.execute("create table oracle.item (); create table other.item (); create table other.rest ()")
        session.execute("create table public.item (); create view oracle.rest as select 1")
        set_for_database(session, {"search_path": '"$user", oracle, pg_catalog, other, absent'})
    with open_engine(database).connect() as connection:
        assert spell_names(connection, "Item") == ["Item", "oracle.item", "other.item"]
        assert find_table(connection, "item").qualified_name == "oracle.item"
        assert find_table(connection, "OTHER.item").qualified_name == "other.item"
        assert find_table_id(connection, "rest") is None
        named = {(table.schema, table.name): table.is_visible for table in list_tables(connection)}
    assert named == {
        ("oracle", "item"): True, ("other", "item"): False, ("other", "rest"): False, ("public", "item"): False,
    }  # fmt: skip


def test_rows_that_are_hidden_are_an_error_of_their_own(make_role: Callable[[str], str], database: str) -> None:
    role = make_role("login")
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("create table t (id int); alter table t enable row level security")
        session.execute(f'grant select on t to "{role}"'.encode())
    opened = open_url(as_role(database, role), settings=PINNED_SETTINGS | WHOLE_TABLES)
    with closing(opened) as reader, pytest.raises(RowsHidden, match="bypassrls"), translated():
        reader.execute("select * from public.t")


def as_role(url: str, role: str) -> str:
    return url.replace("//postgres@", f"//{role.replace(' ', '%20')}@")


def test_the_remedy_for_a_session_that_may_not_write_is_taken(server: EmbeddedServer) -> None:
    with fresh_database(server) as url:
        with psycopg.connect(url, autocommit=True) as session:
            name = session.info.dbname
            session.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        with pytest.raises(WritesRefused) as refused, translated(), psycopg.connect(url) as session:
            session.execute("create table t (id int)")
        remedy = str(refused.value).split("`")[1].replace("NAME", name)
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(remedy.encode())
        with psycopg.connect(url) as session:
            session.execute("create table t (id int)")
