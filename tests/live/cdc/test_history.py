"""A log store belongs to one history: another server, or the same one set back, is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.handle import connect
from rowtide.log.errors import HistoryDiverged, LogStoreMoved


def test_the_log_store_of_another_server_is_refused(logged: LoggedDatabase, logged_16: LoggedDatabase) -> None:
    for database in (logged, logged_16):
        database.execute("create table item (id int primary key)")
        database.enable("item")
    shutil.rmtree(logged_16.cdc.get_source().log_store)
    shutil.copytree(logged.cdc.get_source().log_store, logged_16.cdc.get_source().log_store)
    with pytest.raises(
        LogStoreMoved, match=rf"RT-2141: .* belongs to slot {logged.cdc.get_source().slot} of system \d+"
    ):
        logged_16.read_log()


def test_a_server_set_back_to_before_our_position_is_refused(tmp_path: Path) -> None:
    place, copy = tmp_path / "server", tmp_path / "copy"
    with EmbeddedServer.start(place) as server, psycopg.connect(server.url(), autocommit=True) as session:
        logged = LoggedDatabase(server.url(), tmp_path / "lake", session)
        logged.execute("create table item (id int primary key)")
        logged.enable("item")
        logged.execute("insert into item values (1)")
        logged.read_log()
    copy_directory(place, copy)
    with EmbeddedServer.start(place) as server, psycopg.connect(server.url(), autocommit=True) as session:
        LoggedDatabase(server.url(), tmp_path / "lake", session).execute(
            "insert into item select generate_series(2, 10000)"
        )
        LoggedDatabase(server.url(), tmp_path / "lake", session).read_log()
    with EmbeddedServer.start(copy) as server, psycopg.connect(server.url(), autocommit=True) as session:
        restored = LoggedDatabase(server.url(), tmp_path / "lake", session)
        position = restored.manifest().state.position
        with pytest.raises(HistoryDiverged, match=f"RT-2107: .*its log ends at .*the recorded position is {position}"):
            restored.read_log()
        with pytest.raises(HistoryDiverged, match="RT-2107"):
            restored.cdc.reinitialize("restored from a copy")
        connect(server.url()).adopt("restored from a copy")
        restored.execute("insert into item values (2)")
        assert restored.read_log().epoch == 1
        assert restored.inserted()[-1] == "2"


def copy_directory(place: Path, copy: Path) -> None:
    """Copy a stopped server's directory with its owners."""
    subprocess.run(["cp", "-a", str(place), str(copy)], check=True)
