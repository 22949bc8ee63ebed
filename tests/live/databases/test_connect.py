"""Connections of ours: every form of URL, no secret in errors, and both ends notice that the network was cut."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from traceback import format_exception
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

import rowtide
from builders.capture.captured_databases import wait_until
from builders.commands import command_lines
from rowtide.databases.postgres.connect import open_engine, open_replication_connection, open_url
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import (
    ConnectionFailed,
    NoReplicationRight,
    TransactionAborted,
    UnexpectedSqlError,
    translated,
)
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.databases.postgres.session_settings import WHOLE_TABLES
from rowtide.databases.urls import PostgresNeeded, UrlNotRead, parse_url
from rowtide.log.errors import DatabaseNotEnabled
from rowtide.merge.nodes.connecting import open_node
from rowtide.tracking.api import open_tracking


def network_parameters(url: str) -> dict[str, str]:
    """Return what libpq was told about the network by a connection of ours, and what the server was."""
    with open_engine(url).connect() as connection:
        driver: Any = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        told = driver.info.get_parameters()
        options = dict(option.split("=") for option in told["options"].split(" ") if option.startswith("tcp_"))
    return {name: value for name, value in (told | options).items() if name.startswith(("keepalives_", "tcp_"))}


PROBED = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3", "tcp_user_timeout": "60000"}


def test_the_network_is_probed_from_both_ends(database: str) -> None:
    ours = network_parameters(database)
    assert ours == PROBED | {f"tcp_{name}": value for name, value in PROBED.items() if name.startswith("keep")}


def test_what_the_url_says_of_the_network_stays(database: str) -> None:
    assert network_parameters(f"{database}&keepalives_idle=77")["keepalives_idle"] == "77"


def test_what_an_engine_has_learned_the_next_knows(database: str) -> None:
    engine = open_engine(database)
    assert open_engine(database) is engine
    others = (open_engine(database, application_name="a test"), open_engine(database, settings=WHOLE_TABLES))
    kept = open_engine(database, most_kept=1)
    assert len({id(engine), *map(id, others), id(kept), id(open_engine(database, most_kept=1))}) == 5


@pytest.mark.parametrize("addition", ["", "&keepalives_idle=77"])
def test_the_stream_is_probed_too(database: str, addition: str) -> None:
    connection = open_replication_connection(database + addition, application_name="a test")
    told = {option.keyword.decode(): option.val for option in connection.info}
    assert told["keepalives_idle"] == (b"77" if addition else b"30")
    assert told["tcp_user_timeout"] == b"60000"
    connection.finish()


def test_a_stream_that_is_refused_names_the_role(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where not the URL has it, but libpq's environment."""
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("""create role "may ""not" login""")
    monkeypatch.setenv("PGUSER", 'may "not')
    with pytest.raises(NoReplicationRight) as refused:
        open_replication_connection(database.replace("postgres@", "", 1), application_name="a test")
    assert """run `alter role "may ""not" replication`""" in str(refused.value)


def forms(url: str, folder: Path) -> dict[str, str]:
    """Return a database's URL in every form that is accepted."""
    parameters = parse_url(url).parameters
    name, user, place = parameters["dbname"], parameters["user"], parameters["host"]
    (folder / "services").write_text(f"[here]\nhost={place}\nuser={user}\ndbname={name}\n")
    return {
        "url": url,
        "postgres": url.replace("postgresql://", "postgres://"),
        "driver": url.replace("postgresql://", "postgresql+psycopg://"),
        "keywords": f"host='{place}' user={user} dbname={name}",
        "hosts": f"postgresql://{user}@%2Fnowhere,{quote(place, safe='')}/{name}",
        "service": "postgresql://?service=here",
        "service keyword": "service=here",
    }


@pytest.mark.parametrize("form", ["url", "postgres", "driver", "keywords", "hosts", "service", "service keyword"])
def test_a_server_is_reached_by_every_form_of_its_url(
    database: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    url = forms(database, tmp_path)[form]
    name = parse_url(database).database

    with open_engine(url).connect() as connection:
        assert connection.scalar(text("select current_database()")) == name
    with closing(open_url(url)) as session:
        assert session.info.dbname == name
    stream = open_replication_connection(url, application_name="a test")
    assert stream.db.decode() == name
    stream.finish()
    with open_tracking(url) as tracking:
        assert tracking.list_tracked() == ()
    with open_node(url) as node:
        assert not node.tables.is_prepared()
    assert rowtide.connect(url).check()
    with pytest.raises(DatabaseNotEnabled, match="database (here|" + str(name) + ") is not enabled"):
        rowtide.connect(url).replication.post_tracer_token("shop")


@pytest.mark.parametrize("url", ["postgresql:///shop?nonsense=1", "nonsense=1", "service=nowhere", "port=abc"])
def test_parameters_that_libpq_does_not_know_are_named(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGSERVICEFILE", raising=False)
    refused = pytest.raises((UrlNotRead, ConnectionFailed), match='nonsense|"nowhere" not found|port is not a number')
    with refused:
        open_url(url)
    with refused, translated():
        open_engine(url).connect()


def test_each_use_of_a_lost_connection_fails_as_the_first(database: str) -> None:
    with open_engine(database).connect() as connection, open_url(database) as other:
        pid = connection.execute(text("select pg_backend_pid()")).scalar_one()
        other.execute("select pg_terminate_backend(%s, 10000)", [pid])
        for _ in range(2):
            with pytest.raises(ConnectionFailed), translated():
                connection.execute(text("select 1"))


def test_errors_show_neither_passwords_nor_statement_values(database: str) -> None:
    engine = open_engine(database)
    with engine.connect() as connection, pytest.raises(DBAPIError) as raised:
        connection.execute(text("select 1 / 0, :value"), {"value": " ".join(("a", "value"))})

    assert "a value" not in "".join(format_exception(raised.value))
    assert "secret" not in repr(open_engine("postgresql://me:secret@localhost/shop"))
    with translated(), engine.begin() as connection:
        connection.execute(text("create table public.people (ssn text primary key, n int check (n > 0), d date)"))
        connection.execute(text("insert into public.people values ('a value', 1)"))
    refused = (
        "insert into public.people values ('a value', 1)",
        "insert into public.people values ('another value', -1)",
    )
    for statement in refused:
        with (
            pytest.raises(UnexpectedSqlError, match="(unique|check) constraint") as refusal,
            translated(),
            engine.connect() as session,
        ):
            session.execute(text(statement))
        assert "(a value)" not in str(refusal.value)
        assert "another" not in str(refusal.value)
    with pytest.raises(PostgresNeeded, match="sqlite:///field.db is not a PostgreSQL database"):
        open_engine("sqlite:///field.db")


def test_an_object_dropped_while_it_is_read_is_read_again(database: str) -> None:
    reading = "select pg_get_viewdef((select oid from pg_class where relname = 'format'))"
    waiting = "select count(*) from pg_locks where not granted"
    engine = open_engine(database)
    with engine.connect() as owner, engine.connect() as reader, ThreadPoolExecutor() as beside:
        owner.execute(text("create view public.format as select 1 as number"))
        owner.commit()
        owner.execute(text("drop view public.format"))
        read = beside.submit(lambda: reader.execute(text(reading)).scalar_one())
        wait_until(lambda: owner.execute(text(waiting)).scalar_one() == 1, what="the reader waits")
        owner.commit()
        with pytest.raises(TransactionAborted), translated():
            read.result()
        reader.rollback()
        assert reader.execute(text(reading)).scalar_one() is None


ROW = "some-value"


def test_a_traceback_shows_no_values_of_a_row(each_server: EmbeddedServer) -> None:
    program = (
        "import psycopg\n"
        "import rowtide.cli.main as cli\n"
        "from rowtide.databases.postgres.errors import translated\n"
        "def app(_arguments):\n"
        f"    with translated(), psycopg.connect({each_server.url()!r}) as connection:\n"
        "        connection.execute('create temporary table people (ssn text primary key)')\n"
        "        with connection.cursor().copy('copy people from stdin') as copy:\n"
        f"            copy.write('{ROW}\\n{ROW}\\n')\n"
        "cli._run = app\n"
        "import sys; sys.argv.append('--debug')\n"
        "cli.main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "psycopg.errors.UniqueViolation" in ended.stderr
    assert "DETAIL:  ***" in ended.stderr
    assert ended.stderr.count(ROW) == 0


@pytest.mark.parametrize(
    "wrong", [{"database": "nowhere"}, {"username": "nobody"}, {"query": {"options": "-c no.such"}}]
)
@pytest.mark.parametrize("debug", [(), ("--debug",)], ids=["plain", "debug"])
def test_what_a_server_refuses_is_reported_without_the_password(
    each_server: EmbeddedServer, debug: tuple[str, ...], wrong: dict[str, Any]
) -> None:
    known = make_url(each_server.url())
    query = {**known.query, **wrong.get("query", {})}
    url = known.set(password="s3cr3t", **{**wrong, "query": query})

    ended = command_lines.rowtide(*debug, "cdc", "status", "--db", url.render_as_string(hide_password=False))

    assert (ended.code, "FATAL" in ended.errors, "RT-1101: " in ended.errors) == (1, True, True), ended
    assert "s3cr3t" not in ended.output + ended.errors


def sessions(engine: Engine) -> set[int]:
    """Return the server's processes of two connections that follow each other, and of two beside each other."""

    def pid() -> int:
        with engine.connect() as connection:
            return int(connection.execute(text("select pg_backend_pid()")).scalar_one())

    with engine.connect():
        return {pid(), pid()}


def test_an_operation_keeps_its_sessions_until_its_end(database: str) -> None:
    engine = open_engine(database)
    assert len(sessions(engine)) == 2
    with keeping_sessions():
        with keeping_sessions():
            (kept,) = sessions(engine)
        assert sessions(engine) == {kept}
        with ThreadPoolExecutor() as pool:
            assert kept not in pool.submit(sessions, engine).result()
        with engine.connect() as connection:
            connection.invalidate()
        assert len(sessions(engine)) == 1
    with engine.connect() as connection:
        others = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        wait_until(lambda: not connection.execute(text(others)).all(), what="all of them have ended")


def test_a_session_that_was_lost_is_not_kept(database: str) -> None:
    engine = open_engine(database)
    with keeping_sessions():
        with pytest.raises(ConnectionFailed), translated(), engine.connect() as connection:
            connection.execute(text("select pg_terminate_backend(pg_backend_pid())"))
        assert len(sessions(engine)) == 1
