"""PgBouncer before the server: what needs a session is refused where it lends them for transactions."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

import rowtide as library
from builders.commands.command_lines import rowtide
from builders.servers.poolers import IGNORING, Pooler, pooling
from fixtures.servers import fresh_database
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.databases.postgres.errors import TransactionsPooled
from rowtide.databases.postgres.silent_sessions import WatchedConnection
from rowtide.log.postgres.lease import AdvisoryLease

MORE = {"default configuration": (), "options ignored": (IGNORING,), "round robin": ("server_round_robin = 1",)}
READING = (
    "health",
    "check --as monitor",
    "cdc status",
    "cdc instances",
    "cdc sessions",
    "cdc jobs",
    "cdc changes public_orders",
    "replication status",
    "replication publications",
)
WORKING = (
    "cdc run --once",
    "cdc cleanup",
    "cdc enable-table more",
    "cdc disable-table orders",
    "replication run --once",
    "replication add-publication another --lake {lake}",
    "replication add-article p items",
    "replication drop-publication p",
    "merge add-publication another",
    "merge status",
    "merge sync m --subscriber {device}",
    "tracking enable more",
    "tracking options",
    "tracking changes items",
    "agent run",
    "grant postgres --as monitor",
)


@pytest.fixture(scope="module")
def direct(server_16: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL, past the pooler, of a database that is captured, published and tracked."""
    folder = tmp_path_factory.mktemp("pooled")
    with fresh_database(server_16) as url:
        with psycopg.connect(url, autocommit=True) as session:
            for table in ("orders", "items", "more"):
                session.execute(f"create table {table} (id int primary key, note text)".encode())
        opened = library.connect(url)
        opened.cdc.enable_db(lake=str(folder / "lake"))
        opened.cdc.enable_table("orders")
        opened.replication.add_publication("p")
        opened.replication.add_article("p", "orders")
        assert rowtide("tracking", "enable", "items", "--db", url).code == 0
        with psycopg.connect(url, autocommit=True) as session:
            session.execute("insert into orders values (1, 'a')")
            session.execute("insert into items values (1, 'a')")
        opened.cdc.run(once=True)
        yield url


@pytest.fixture(scope="module", params=MORE)
def pooler(
    request: pytest.FixtureRequest, server_16: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pooler]:
    with pooling(server_16, tmp_path_factory.mktemp("pooler"), "transaction", *MORE[request.param]) as started:
        yield started


def test_reading_needs_no_session(pooler: Pooler, direct: str) -> None:
    for command in READING:
        ended = rowtide(*command.split(), "--db", pooler.url(direct))
        expected = rowtide(*command.split(), "--db", direct)
        assert (ended.code, _still(ended.output), ended.errors) == (0, _still(expected.output), ""), (command, ended)


def _still(output: str) -> list[str]:
    """Return the words of an output without numbers and times, which change by the second."""
    return re.sub(r"\b[\dA-F]*\d[\dA-F./:]*", "#", output).split()


def test_work_is_refused_for_want_of_a_session(pooler: Pooler, direct: str, tmp_path: Path) -> None:
    places = {"lake": tmp_path / "lake", "device": f"sqlite:///{tmp_path / 'device.db'}"}
    for command in WORKING:
        ended = rowtide(*command.format(**places).split(), "--db", pooler.url(direct))
        refusal = ended.errors.splitlines()[-1]
        assert refusal.startswith("RT-1147: "), (command, ended)


def test_sessions_are_left_as_they_were(pooler: Pooler, direct: str) -> None:
    for command in ("health", "cdc status", "check --as monitor", "cdc run --once", "merge status"):
        rowtide(*command.split(), "--db", pooler.url(direct))
    with ExitStack() as opened:
        found = set()
        for _ in range(6):
            session = opened.enter_context(psycopg.connect(pooler.url(direct), prepare_threshold=None))
            found |= set(
                session.execute(
                    "select current_setting('search_path'), current_setting('rowtide.schemas', true), "
                    "current_setting('transaction_read_only'), current_setting('lock_timeout'), "
                    "(select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory')"
                ).fetchall()
            )
    assert {(path, read_only, timeout, locks) for path, _, read_only, timeout, locks in found} == {
        ('"$user", public', "off", "0", 0)
    }
    assert {schemas or "" for _, schemas, *_ in found} == {""}


def test_sessions_for_a_statement_are_refused_too(server_16: EmbeddedServer, direct: str, tmp_path: Path) -> None:
    with pooling(server_16, tmp_path, "statement") as pooler:
        for command in ("cdc status", "cdc run --once"):
            rowtide(*command.split(), "--db", pooler.url(direct)).require_error(1147)


@pytest.fixture(scope="module")
def lending_sessions(server_16: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooler]:
    """A pooler in session mode."""
    with pooling(server_16, tmp_path_factory.mktemp("pooler"), "session") as started:
        yield started


@pytest.fixture
def captured(server_16: EmbeddedServer, tmp_path: Path) -> Iterator[str]:
    """The URL, past the pooler, of a database with rows that are to be captured, delivered and merged."""
    with fresh_database(server_16) as url:
        with psycopg.connect(url, autocommit=True) as session:
            for table in ("orders", "merged"):
                session.execute(f"create table {table} (id int primary key, note text)".encode())
        opened = library.connect(url)
        opened.cdc.enable_db(lake=str(tmp_path / "lake"))
        opened.cdc.enable_table("orders")
        yield url


def test_the_stream_of_the_log_is_refused_with_its_way(lending_sessions: Pooler, captured: str) -> None:
    refusal = rowtide("cdc", "run", "--once", "--db", lending_sessions.url(captured)).require_error(1148)
    assert "replication_url" in refusal


@pytest.fixture
def named(
    lending_sessions: Pooler, captured: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Runs commands on a database of the configuration file, whose log is read past the pooler."""
    file = tmp_path / "rowtide.toml"
    file.write_text(f'[databases.shop]\nurl = "{lending_sessions.url(captured)}"\nreplication_url = "{captured}"\n')
    file.chmod(0o600)
    monkeypatch.setenv("ROWTIDE_CONFIG", str(file))

    def run(command: str) -> None:
        ended = rowtide(*command.split(), "--db", "shop")
        assert ended.code == 0, (command, ended)

    return run


def test_capture_reads_the_log_past_the_pooler(named: Callable[[str], None], captured: str) -> None:
    named("cdc run --once")
    with psycopg.connect(captured, autocommit=True) as session:
        session.execute("insert into orders values (1, 'captured')")
    named("cdc run --once")

    assert "captured" in rowtide("cdc", "changes", "public_orders", "--db", captured).output


@pytest.mark.exhaustive
def test_delivery_and_merge_go_by_sessions_of_a_pooler(
    named: Callable[[str], None], captured: str, tmp_path: Path
) -> None:
    device, copy = tmp_path / "device.db", tmp_path / "copy.db"
    named("replication add-publication p")
    named("replication add-article p orders")
    named(f"replication add-subscription p --subscriber sqlite:///{copy}")
    named("merge add-publication m")
    named("merge add-article m merged")
    named(f"merge add-subscription m --subscriber sqlite:///{device}")
    with psycopg.connect(captured, autocommit=True) as session:
        session.execute("insert into orders values (1, 'sent')")
        session.execute("insert into merged values (1, 'sent')")
    named("replication run --once")
    named(f"merge sync m --subscriber sqlite:///{device}")

    for path, table in ((copy, "orders"), (device, "merged")):
        with closing(sqlite3.connect(path)) as program:
            assert program.execute(f"select id, note from {table}").fetchall() == [(1, "sent")]


def test_a_lease_ends_where_sessions_are_no_longer_its_own(
    server_16: EmbeddedServer, direct: str, tmp_path: Path
) -> None:
    """As after the pooler was configured in another way while an agent ran."""
    with pooling(server_16, tmp_path, "session") as pooler:
        engine = open_engine(pooler.url(direct))
        with AdvisoryLease.take(engine, "pooled") as lease:
            lease.verify()
            session = lease.connection.connection.driver_connection
            assert isinstance(session, WatchedConnection)
            session.begin_watch(session.known_pid + 1, None)
            with pytest.raises(TransactionsPooled):
                lease.verify()
