"""Two servers with one identity: the files of one were copied while it was stopped."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import LoggedDatabase
from builders.servers.copied_databases import NOTHING, read_metadata
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion
from rowtide.handle import connect
from rowtide.log.errors import HistoryDiverged

BOTH_VERSIONS = pytest.mark.parametrize("version", [18, 16])


@contextmanager
def opened(server: EmbeddedServer, lake: Path) -> Iterator[LoggedDatabase]:
    with psycopg.connect(server.url(), autocommit=True) as session:
        yield LoggedDatabase(server.url(), lake, session)


@pytest.mark.exhaustive
@BOTH_VERSIONS
def test_copied_server_cannot_write_to_the_original_log_store(version: ServerVersion, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with EmbeddedServer.start(tmp_path / "original", version=version) as original, opened(original, lake) as logged:
        logged.execute("create table t (id int primary key)")
        logged.enable("t")
        logged.execute("insert into t values (1)")
        logged.read_log()
    subprocess.run(["cp", "--archive", tmp_path / "original", tmp_path / "copy"], check=True)

    with EmbeddedServer.start(tmp_path / "original", version=version) as original, opened(original, lake) as logged:
        logged.execute("insert into t values (2)")
        # Without a mark, by which the copy would be known.
        read = logged.read_log(read_log_end(logged) - 1)
    with EmbeddedServer.start(tmp_path / "copy", version=version) as copy, opened(copy, lake) as copied:
        copied.execute("insert into t select generate_series(100, 9999)", "select pg_switch_wal()")
        with pytest.raises(HistoryDiverged, match=f"it has no transaction at {read.segments[-1].last}, which was read"):
            copied.read_log()
        assert copied.manifest().state.position == read.position

    with EmbeddedServer.start(tmp_path / "original", version=version) as original, opened(original, lake) as logged:
        logged.execute("insert into t values (3)")
        read = logged.read_log()
    with EmbeddedServer.start(tmp_path / "copy", version=version) as copy, opened(copy, lake) as copied:
        copied.execute("insert into t select generate_series(10000, 19999)", "select pg_switch_wal()")
        for refused in (copied.read_log, lambda: copied.cdc.reinitialize("a test")):
            with pytest.raises(HistoryDiverged, match="it did not write the row of rowtide.control"):
                refused()
        assert "did not write the row" in str(connect(copy.url()).find_adoption().blocker)
        copied.cdc.disable_db()
        assert read_metadata(copy.url()) == NOTHING

    with EmbeddedServer.start(tmp_path / "original", version=version) as original, opened(original, lake) as logged:
        assert logged.manifest().state == read
        logged.execute("insert into t values (4)")
        logged.read_log()
        assert logged.inserted() == ["1", "2", "3", "4"]


def read_log_end(logged: LoggedDatabase) -> int:
    return int(logged.execute("select (pg_current_wal_flush_lsn() - '0/0')::bigint")[0][0])


@BOTH_VERSIONS
def test_server_crashed_before_storing_the_position_continues(version: ServerVersion, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with EmbeddedServer.start(tmp_path / "server", version=version) as server:
        with opened(server, lake) as logged:
            logged.execute("create table t (id int primary key)")
            logged.enable("t")
        crashes = next(number for number in range(1, 20) if read_and_crash(server, lake, number))
        with opened(server, lake) as logged:
            logged.read_log()
            assert logged.inserted() == [str(number) for number in range(1, crashes + 1)]


def read_and_crash(server: EmbeddedServer, lake: Path, number: int) -> bool:
    """Insert and read a row, and crash the server; return whether its slot stands before the row again.

    How far was read is written to the disk when the server's horizon moves, which it does by time.
    """
    with opened(server, lake) as logged:
        logged.execute(f"insert into t values ({number})")
        last = logged.read_log().segments[-1].last
    server.restart("immediate")
    with opened(server, lake) as logged:
        ((confirmed,),) = logged.execute("select (confirmed_flush_lsn - '0/0')::bigint from pg_replication_slots")
    return bool(confirmed <= last.log)
