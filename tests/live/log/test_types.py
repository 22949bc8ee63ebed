"""The log store has every value of every type as the server prints it, whatever roles and databases set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from builders.capture.captured_databases import LoggedDatabase
from builders.values.type_catalogue import SAMPLES
from builders.values.typed_tables import (
    COLUMNS,
    TABLE,
    VERSION_OF,
    Texts,
    create_typed_table,
    find_altered,
    read_kept,
    read_texts,
    write_typed_table,
)
from fixtures.servers import drop_database, fresh_database
from rowtide.core.operations import Operation
from rowtide.databases.postgres.catalogue import find_table
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.session_settings import STREAM_SETTINGS
from rowtide.log.postgres.stream.stream import ReplicationStream

ODD_ROLE_SETTINGS = {
    "DateStyle": "German, DMY",
    "TimeZone": "Asia/Kathmandu",
    "IntervalStyle": "postgres_verbose",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "lc_monetary": "C.utf8",
    "xmlbinary": "hex",
    "client_encoding": "LATIN1",
    "search_path": "public, pg_catalog",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
}
ODD_DATABASE_SETTINGS = {
    "DateStyle": "SQL, DMY",
    "TimeZone": "America/St_Johns",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "0",
    "bytea_output": "escape",
    "search_path": "pg_catalog, public",
}
ODD_ENVIRONMENT = {"PGTZ": "Asia/Kathmandu", "PGDATESTYLE": "German, DMY", "PGCLIENTENCODING": "LATIN1"}


@pytest.fixture(params=[16, 18])
def each_server(request: pytest.FixtureRequest, server: EmbeddedServer, server_16: EmbeddedServer) -> EmbeddedServer:
    """Each of the two servers."""
    return {16: server_16, 18: server}[request.param]


@pytest.fixture
def odd_role(each_server: EmbeddedServer) -> Iterator[str]:
    """A role that sets all that changes how values are printed; dropped when the test's database is gone."""
    with psycopg.connect(each_server.url(), autocommit=True) as session:
        session.execute("create role odd superuser login")
        for name, value in ODD_ROLE_SETTINGS.items():
            session.execute(sql.SQL("alter role odd set {} = " + _listed(value)).format(sql.Identifier(name)))
        yield "odd"
        session.execute("drop role odd")


@pytest.fixture
def typed(each_server: EmbeddedServer, tmp_path: Path) -> Iterator[LoggedDatabase]:
    """A database of each server with the table of all types, not enabled yet."""
    with fresh_database(each_server) as database, psycopg.connect(database, autocommit=True) as session:
        create_typed_table(session)
        yield LoggedDatabase(database, tmp_path / "lake", session)


def test_every_type_that_a_column_can_have_has_samples(typed: LoggedDatabase) -> None:
    named = typed.execute(f"select array[{', '.join(f'to_regtype($${s.type_text}$$)::oid' for s in SAMPLES)}]")[0][0]
    others = typed.execute(
        "select format_type(t.oid, null) from pg_type t "
        "where t.typnamespace = 'pg_catalog'::regnamespace and t.typtype in ('b', 'r', 'm', 'e', 'd') "
        "and t.typisdefined and not exists (select from pg_type e where e.typarray = t.oid) "
        f"and t.oid <> all (array{named}::oid[])"
    )
    for (name,) in others:
        with pytest.raises(psycopg.errors.FeatureNotSupported):  # the server itself takes no value of it
            typed.execute(f"select ''::{name}")


def test_the_log_has_every_value_as_the_server_prints_it(typed: LoggedDatabase) -> None:
    typed.enable(f"public.{TABLE}")
    write_typed_table(typed.session)
    typed.read_log()
    assert logged_rows(typed) == every_change(typed.url)


def test_the_text_that_the_log_has_is_the_value_to_the_byte(typed: LoggedDatabase) -> None:
    write_typed_table(typed.session)
    assert find_altered(typed.url, read_kept(typed.url)) == []


def test_arrays_of_every_type_are_logged_as_the_server_prints(typed: LoggedDatabase) -> None:
    write_typed_table(typed.session)
    scalars = [name for name, s in COLUMNS.items() if not s.value_type_text.endswith(("[]", "vector"))]
    gathered = ", ".join(f"array_agg({name} order by id) as {name}" for name in scalars)
    typed.execute(f"create table arrays as select 0 as id, 0 as other, {gathered} from kept")
    typed.enable("public.arrays")
    printed = read_texts(typed.url, "arrays", ("id", "other", *scalars))
    typed.execute("delete from arrays")
    typed.read_log()
    assert [record["before"] for record in typed.records()] == [list(row) for row in printed]


def test_what_role_and_database_set_changes_nothing_in_the_log(odd_role: str, typed: LoggedDatabase) -> None:
    odd = as_role(odd_role, typed)
    odd.enable(TABLE)
    with psycopg.connect(odd.url, client_encoding="UTF8") as session:
        assert session.execute("show DateStyle").fetchone() == ("German, DMY",)
        write_typed_table(session)
    odd.read_log()
    assert logged_rows(odd) == every_change(typed.url)


def test_what_role_and_database_set_changes_nothing_in_types(odd_role: str, typed: LoggedDatabase) -> None:
    odd = as_role(odd_role, typed)
    with open_engine(typed.url).connect() as plain, open_engine(odd.url).connect() as other:
        seen = find_table(plain, TABLE)
        assert find_table(other, TABLE) == seen
    assert [column.type_text for column in seen.columns[1:]] == [samples.type_text for samples in SAMPLES]
    assert [column.base_type_text for column in seen.columns[1:]] == [samples.base for samples in SAMPLES]


def test_what_libpq_finds_in_the_environment_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, logged: LoggedDatabase
) -> None:
    for name, value in ODD_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    stream = ReplicationStream.connect(logged.url, application_name="a test")
    shown = {name: stream._query(f"show {name}")[0][0] for name in STREAM_SETTINGS}
    stream.close()
    assert shown == STREAM_SETTINGS | {"synchronous_commit": "on"}
    logged.execute('create table "漢" (id int primary key)')
    logged.enable("漢")
    (listed,) = logged.cdc.list_instances()
    assert (listed.source_table, listed.create_date.tzinfo) == ("漢", UTC)


@pytest.mark.parametrize(("configured", "used"), [("64kB", "256MB"), ("1GB", "1GB")])
def test_decoding_has_memory_enough_for_large_transactions(logged: LoggedDatabase, configured: str, used: str) -> None:
    logged.execute(
        "do $$ begin execute format("
        f"'alter database %I set logical_decoding_work_mem = %L', current_database(), '{configured}'); end $$"
    )
    stream = ReplicationStream.connect(logged.url, application_name="a test")
    ((shown,),) = stream._query("show logical_decoding_work_mem")
    stream.close()
    assert shown == used


def test_bytes_that_are_no_text_come_as_marked_hex(server: EmbeddedServer, lake: Path) -> None:
    with encoded(server, "SQL_ASCII", lake) as database:
        database.execute("insert into item values (1, E'a\\xff'), (2, 'ä')")
        database.read_log()
        assert database.inserted(1) == ["\0x61ff", "ä"]


def test_letters_of_another_encoding_come_as_they_are(server: EmbeddedServer, lake: Path) -> None:
    with encoded(server, "LATIN1", lake) as database:
        database.execute("insert into item values (1, 'äß\u00a0')")
        database.read_log()
        assert database.inserted(1) == ["äß\u00a0"]


@contextmanager
def encoded(server: EmbeddedServer, encoding: str, lake: Path) -> Iterator[LoggedDatabase]:
    """A database of this encoding with a table that is captured."""
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(f"create database encoded encoding {encoding} template template0")
        try:
            with psycopg.connect(server.url("encoded"), autocommit=True, client_encoding="UTF8") as session:
                database = LoggedDatabase(server.url("encoded"), lake, session)
                database.execute("create table item (id int primary key, name text)")
                database.enable("item")
                yield database
        finally:
            drop_database(admin, "encoded")


def as_role(role: str, database: LoggedDatabase) -> LoggedDatabase:
    """Return the database as the role finds it; the database has settings of its own from now on."""
    name = conninfo_to_dict(database.url)["dbname"]
    for setting, value in ODD_DATABASE_SETTINGS.items():
        database.execute(f'alter database "{name}" set {setting} = {_listed(value)}')
    return LoggedDatabase(database.url.replace("//postgres@", f"//{role}@"), database.lake, database.session)


def _listed(value: str) -> str:
    return ", ".join(f"'{part}'" for part in value.split(", "))


def every_change(url: str) -> list[tuple[int, list[str | None]]]:
    """Return operation and values of what was written, each row version once for each change row that shows it."""
    kept = read_kept(url)
    changes = [
        (operation, key, kept[key]) for operation, version in VERSION_OF.items() for key in kept if key[0] == version
    ]
    return sorted((operation, [str(number), *texts]) for operation, (_, number), texts in changes)


def logged_rows(database: LoggedDatabase) -> list[tuple[int, list[str | None]]]:
    """Return operation and values of the log store's row versions, as change rows number them."""
    found: list[tuple[int, Texts]] = []
    for record in database.records():
        match record["operation"]:
            case Operation.INSERT:
                found.append((2, record["after"]))
            case Operation.DELETE:
                found.append((1, record["before"]))
            case _:
                found += [(3, record["before"]), (4, record["after"])]
    return sorted((operation, list(texts)) for operation, texts in found)
