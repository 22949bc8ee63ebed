"""A server that lacks everything: its settings are mended by the printed statements and a restart."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.checks import matching, only, run_mend, stopping
from builders.servers.standbys import make_ordinary
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion
from rowtide.diagnosis.postgres import server as server_rules, server_facts
from rowtide.diagnosis.result import CheckResult, State
from rowtide.handle import connect

pytestmark = pytest.mark.live

ON_THE_COMMAND_LINE = ("listen_addresses", "port", "shared_buffers")
"""What statements are to change must not be set there: it would win."""
LACKING = {
    "wal_level": "replica",
    "max_replication_slots": "1",
    "max_wal_senders": "0",
    "max_slot_wal_keep_size": "512MB",
    "wal_sender_timeout": "5s",
}
LACKING_18 = {"idle_replication_slot_timeout": "2h"}


@pytest.fixture(params=get_args(ServerVersion))
def own(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server of the test's own, whose settings are the built-in ones."""
    with EmbeddedServer.start(tmp_path / "server", version=request.param) as server:
        server.settings = {name: server.settings[name] for name in ON_THE_COMMAND_LINE}
        yield server


def execute(server: EmbeddedServer, *statements: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as session:
        for statement in statements:
            session.execute(statement)


def alter(server: EmbeddedServer, settings: Mapping[str, str]) -> None:
    execute(server, *(f"alter system set {name} = '{value}'" for name, value in settings.items()))


@contextmanager
def altered(server: EmbeddedServer, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings that take effect at once, until the end."""
    alter(server, settings)
    execute(server, "select pg_reload_conf()")
    try:
        yield
    finally:
        execute(server, "alter system reset all", "select pg_reload_conf()")


def check(server: EmbeddedServer) -> tuple[CheckResult, ...]:
    return connect(server.url()).check()


def test_settings_are_mended_by_the_printed_statements(own: EmbeddedServer, tmp_path: Path) -> None:
    is_18 = own.programs.parent.name.endswith("18")
    alter(own, {**LACKING, **(LACKING_18 if is_18 else {})})
    own.restart()
    execute(own, "select pg_create_physical_replication_slot('somebody')")
    found = {
        words: only(check(own), words)
        for words in (
            "wal_level is replica",
            "1 of 1 replication slots are used, idle: somebody",
            "0 of 0 WAL senders are used",
            "max_slot_wal_keep_size is 512 MiB",
            "wal_sender_timeout is 5 s",
            *(("a stop of more than 2 hours loses the slot",) if is_18 else ()),
        )
    }
    assert {finding.message for finding in stopping(found.values())} == {
        finding.message for finding in stopping(check(own))
    }
    assert len(stopping(found.values())) == 3
    for finding in found.values():
        run_mend(finding, own.url())
    own.restart()
    assert [words for words in found if matching(check(own), words)] == []
    assert stopping(check(own)) == []
    connect(own.url()).cdc.enable_db(str(tmp_path / "lake"))
    assert stopping(check(own)) == []


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server that tests may alter and restart, if they leave it as it was."""
    folder = tmp_path_factory.mktemp("plain")
    with EmbeddedServer.start(folder / "server", settings={"max_prepared_transactions": "2"}) as server:
        yield server


@pytest.fixture
def url(plain: EmbeddedServer) -> Iterator[str]:
    """The URL of an empty database on it."""
    with fresh_database(plain) as made:
        yield made


@contextmanager
def standby_of(server: EmbeddedServer, slot: str, folder: Path) -> Iterator[None]:
    """Receive the server's log through a physical slot, as a standby does."""
    execute(server, f"select pg_create_physical_replication_slot('{slot}')")
    folder.mkdir()
    command = [str(server.binary("pg_receivewal")), f"--directory={folder}", f"--slot={slot}", "--no-loop"]
    is_active = f"select 1 from pg_replication_slots where slot_name = '{slot}' and active"
    with psycopg.connect(server.url(), autocommit=True) as session:
        process = subprocess.Popen(command, env={**os.environ, **server.environment()}, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: session.execute(is_active).fetchone() is not None, what="the standby is there")
            yield
        finally:
            process.terminate()
            process.wait()
        wait_until(lambda: session.execute(is_active).fetchone() is None, what="the standby is away")


def test_printed_statements_make_capture_wait_for_live_standbys(
    plain: EmbeddedServer, url: str, tmp_path: Path
) -> None:
    connect(url).cdc.enable_db(str(tmp_path / "lake"))
    make_ordinary(url, connect(url).cdc.get_source().slot)
    with altered(plain, {"synchronous_commit": "local", "synchronous_standby_names": "one"}):
        with standby_of(plain, "one", tmp_path / "standby"):
            run_mend(only(connect(url).check(), "has synchronous standbys"), url)
            finding = only(connect(url).check(), "no failover slot")
            run_mend(finding, url, {**plain.environment(), "PATH": str(plain.programs)})
            assert matching(connect(url).check(), "standbys") == []
        absent = only(connect(url).check(), "standbys that are away: one")
        assert absent.state is State.FAILING
        run_mend(absent, url)
        assert stopping(connect(url).check()) == []


def test_a_slot_that_falls_behind_is_warned_of_until_it_is_lost(
    plain: EmbeddedServer, url: str, tmp_path: Path
) -> None:
    """Each switch of the log leaves a segment of 16 MB behind."""
    with altered(plain, {"max_slot_wal_keep_size": "96MB"}), psycopg.connect(url, autocommit=True) as session:
        logged = LoggedDatabase(url, tmp_path / "lake", session)
        # The slot begins in a segment of its own, wherever other tests have left the log.
        logged.execute("create table item (id int)", "select pg_switch_wal()")
        logged.enable("item")

        def fall_behind(segments: int) -> CheckResult:
            for _ in range(segments):
                logged.execute("insert into item values (1)", "select pg_switch_wal()")
            return only(connect(url).check(), logged.cdc.get_source().slot)

        assert matching(connect(url).check(), logged.cdc.get_source().slot) == []
        assert "more of WAL are written" in fall_behind(6).message
        assert "beyond max_slot_wal_keep_size" in fall_behind(2).message
        logged.execute("checkpoint")
        lost = only(connect(url).check(), "was invalidated")
        assert lost.state is State.FAILING
        run_mend(lost, url)
        assert stopping(connect(url).check()) == []


def test_capture_downtime_limit_is_estimated_from_wal_rate(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_facts, "SHORTEST_STATISTICS_S", 0)
    assert "of WAL a day on average" in only(connect(url).check(), "max_slot_wal_keep_size").message


def test_a_standby_is_reported_and_is_none_when_it_is_promoted(plain: EmbeddedServer) -> None:
    (plain.directory / "data" / "standby.signal").touch()
    plain.restart()
    assert only(check(plain), "standby").state is State.FAILING
    execute(plain, "select pg_promote()")
    assert stopping(check(plain)) == []


def test_what_is_left_open_is_named_and_ended_by_what_is_printed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_rules, "FORGOTTEN_PREPARED_S", 0)
    monkeypatch.setattr(server_rules, "LONG_TRANSACTION_S", 0)
    prepare = ("create table item (id int)", "begin", "insert into item values (1)", "prepare transaction 'it''s'")
    with psycopg.connect(url, autocommit=True) as session:
        for statement in prepare:
            session.execute(statement)
    reading, writing = (psycopg.connect(url, application_name=name) for name in ("reading", "writing"))
    reading.execute("select from item")
    writing.execute("insert into item values (2)")
    prepared = only(connect(url).check(), "prepared transaction it's")
    assert prepared.state is State.FAILING
    found = [prepared, *(only(connect(url).check(), f"({name})") for name in ("reading", "writing"))]
    assert ["keeps enable-db" in finding.message for finding in found] == [True, False, True]
    for finding in found:
        run_mend(finding, url)
    assert [each.subject for each in connect(url).check() if each.subject in {gone.subject for gone in found}] == []
    for session in (reading, writing):
        session.close()
    connect(url).cdc.enable_db(str(tmp_path / "lake"))
