"""The embedded PostgreSQL starts, keeps its data, and never stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE

import psycopg
import pytest
import sqlalchemy

from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer, EmbeddedServerFailed

pytestmark = pytest.mark.live

SERVING = """
import signal, sys, time
from pathlib import Path
from rowtide.databases.postgres.embedded import EmbeddedServer

# Whatever a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
server = EmbeddedServer.start(Path(sys.argv[1]))
print(server.pid, server.socket_directory, flush=True)
"""


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server for tests that stop or crash it."""
    with EmbeddedServer.start(tmp_path / "server") as server:
        yield server


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def is_running(pid: int) -> bool:
    """Tell whether a process is there; one that ended but was not yet asked how (a zombie) is not."""
    ended = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return ended.stdout.strip() != "" and not ended.stdout.startswith("Z")


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {timeout_s} s"
        time.sleep(0.02)


@contextmanager
def started_by(script: str, directory: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a script that starts a server; yield the script's process and the number of the server's."""
    parent = subprocess.Popen([sys.executable, "-c", script, str(directory)], stdout=PIPE, stderr=DEVNULL, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid, socket_directory = parent.stdout.readline().split()
    try:
        yield parent, int(pid)
    finally:
        parent.kill()
        parent.wait()
        shutil.rmtree(socket_directory)


def test_server_is_the_newest_version_and_logs_logically(server: EmbeddedServer) -> None:
    assert ask(server.url(), "select current_setting('server_version_num')::int / 10000") == 18
    assert ask(server.url(), "show wal_level") == "logical"


def test_older_version_logs_logically(server_16: EmbeddedServer) -> None:
    assert ask(server_16.url(), "select current_setting('server_version_num')::int / 10000") == 16
    assert ask(server_16.url(), "show wal_level") == "logical"


def test_server_keeps_its_promises_over_a_crash_by_default(own_server: EmbeddedServer) -> None:
    assert ask(own_server.url(), "show fsync") == "on"
    assert ask(own_server.url(), "show synchronous_commit") == "on"


def test_url_is_taken_by_sqlalchemy(database: str) -> None:
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(database).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("select current_database()")) == sqlalchemy.make_url(database).database
    engine.dispose()


def test_programs_of_postgresql_find_the_server(server: EmbeddedServer) -> None:
    listing = subprocess.run(
        [server.binary("psql"), "--tuples-only", "--no-psqlrc", "--command", "select current_user"],
        env={**os.environ, **server.environment()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert listing.stdout.strip() == "postgres"


def test_settings_go_over_the_defaults(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "server", settings={"max_replication_slots": "3"}) as server:
        assert ask(server.url(), "show max_replication_slots") == "3"


def test_refused_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedServerFailed, match=r'RT-1902: .*"wal_level": "nonsense"'):
        EmbeddedServer.start(tmp_path / "server", settings={"wal_level": "nonsense"})


def test_data_of_another_version_is_refused(tmp_path: Path) -> None:
    EmbeddedServer.start(tmp_path / "server", version=16).stop()
    with pytest.raises(EmbeddedServerFailed, match="incompatible with server"):
        EmbeddedServer.start(tmp_path / "server", version=18)


def test_stop_leaves_no_process_and_no_socket(tmp_path: Path) -> None:
    server = EmbeddedServer.start(tmp_path / "server")
    pid = server.pid
    assert pid is not None
    server.stop()
    assert not is_running(pid)
    assert server.pid is None
    assert not server.socket_directory.exists()


def test_stopping_twice_changes_nothing(own_server: EmbeddedServer) -> None:
    own_server.stop()
    own_server.stop()


def test_failed_start_leaves_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = list[str](), tempfile.mkdtemp

    def mkdtemp(**how: str) -> str:
        made.append(make(**how))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with pytest.raises(EmbeddedServerFailed):
        EmbeddedServer.start(tmp_path / "server", settings={"wal_level": "nonsense"})
    assert [Path(one).exists() for one in made] == [False]


def test_crash_and_restart_keep_committed_rows_and_the_url(own_server: EmbeddedServer) -> None:
    url = own_server.url()
    run(url, "create table kept (id int)", "insert into kept select generate_series(1, 10)")
    own_server.restart("immediate")
    assert own_server.url() == url
    assert ask(url, "select count(*) from kept") == 10


def test_start_after_stop_finds_the_data(tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "server") as server:
        run(server.url(), "create table kept as select 1 as id")
    with EmbeddedServer.start(tmp_path / "server") as server:
        assert ask(server.url(), "select count(*) from kept") == 1


def test_servers_stand_side_by_side(own_server: EmbeddedServer, tmp_path: Path) -> None:
    with EmbeddedServer.start(tmp_path / "other") as other:
        run(other.url(), "create table here as select 1 as id")
        assert ask(own_server.url(), "select to_regclass('here')::text") is None


def test_directory_under_a_private_one_keeps_its_permissions(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with EmbeddedServer.start(private / "server") as server:
        assert ask(server.url(), "select 1") == 1
    assert private.stat().st_mode & 0o777 == 0o700
    assert (private / "server").stat().st_mode & 0o777 == 0o700


def test_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[EmbeddedServer] = []
    thread = threading.Thread(target=lambda: started.append(EmbeddedServer.start(tmp_path / "server")))
    thread.start()
    thread.join()
    with started[0] as server:
        assert ask(server.url(), "select 1") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_parent_leaves_no_server(tmp_path: Path, sent: signal.Signals) -> None:
    with started_by(SERVING + "time.sleep(600)", tmp_path / "server") as (parent, pid):
        assert is_running(pid)
        parent.send_signal(sent)
        parent.wait()
        wait_until(lambda: not is_running(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
@pytest.mark.parametrize("ending", ["sys.exit(0)", "raise RuntimeError"])
def test_parent_that_ends_without_stopping_leaves_no_server(tmp_path: Path, ending: str) -> None:
    with started_by(SERVING + ending, tmp_path / "server") as (parent, pid):
        parent.wait()
        wait_until(lambda: not is_running(pid))


def test_dropped_database_takes_its_sessions_and_slots_along(server: EmbeddedServer) -> None:
    with fresh_database(server) as url:
        run(url, "select pg_create_logical_replication_slot('left_behind', 'pgoutput')")
        name = ask(url, "select current_database()::text")
        session = psycopg.connect(url)
    with session, pytest.raises(psycopg.OperationalError):
        session.execute("select 1")
    assert ask(server.url(), "select count(*) from pg_replication_slots where slot_name = 'left_behind'") == 0
    assert ask(server.url(), f"select count(*) from pg_database where datname = '{name}'") == 0
