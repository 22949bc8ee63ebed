"""A standby takes over: the log is read on where it has everything that was read, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import LoggedDatabase, wait_until
from builders.commands.checks import matching, only, run_mend
from builders.servers.standbys import KEEPS_SLOTS, Standby, make_ordinary, standby_of
from fixtures.servers import SETTINGS
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion
from rowtide.databases.postgres.errors import ServerIsStandby
from rowtide.diagnosis.result import CheckResult
from rowtide.handle import connect
from rowtide.log.errors import HistoryDiverged, ServerPromoted

HAS_FAILOVER = "select to_jsonb(s) -> 'failover' from pg_replication_slots s where database = current_database()"


def check(url: str) -> tuple[CheckResult, ...]:
    return connect(url).check()


Replicating = tuple[EmbeddedServer, LoggedDatabase, Standby]


@contextmanager
def replicating(place: Path, settings: Mapping[str, str], *, version: ServerVersion = 18) -> Iterator[Replicating]:
    """Yield a server, a database of it with a captured table and a row in the log store, and a standby."""
    with (
        EmbeddedServer.start(place / "primary", version=version, settings=SETTINGS) as primary,
        psycopg.connect(primary.url(), autocommit=True) as session,
    ):
        logged = LoggedDatabase(primary.url(), place / "lake", session)
        logged.execute("create table item (id int primary key)")
        logged.enable("item")
        logged.execute("insert into item values (1)")
        logged.read_log()
        with standby_of(primary, place / "standby", settings, version=version) as standby:
            yield primary, logged, standby


@contextmanager
def taken_over(standby: Standby, place: Path) -> Iterator[LoggedDatabase]:
    """Promote a standby, and yield the database there."""
    standby.promote()
    url = standby.server.url()
    with psycopg.connect(url, autocommit=True) as session:
        yield LoggedDatabase(url, place / "lake", session)


def test_reading_goes_on_at_the_standby_that_took_over(tmp_path: Path) -> None:
    with replicating(tmp_path, KEEPS_SLOTS) as (primary, logged, standby):
        assert logged.execute(HAS_FAILOVER) == [(True,)]
        standby.keep_slot(logged)
        run_mend(only(check(logged.url), "capture can be ahead"), logged.url)
        assert matching(check(logged.url), "standby") == []
        assert "capture resumes here after a promotion" in only(check(standby.server.url()), "is kept here").message
        logged.execute("insert into item values (2)")
        read = logged.read_log().position
        logged.execute("insert into item values (3)")
        standby.wait_for(primary)
        primary.stop("immediate")
        with taken_over(standby, tmp_path) as after:
            after.execute("insert into item values (4)")
            state = after.read_log()
            assert (state.epoch, state.source.timeline, state.gaps) == (0, 2, ())
            assert state.position > read
            assert after.inserted() == ["1", "2", "3", "4"]


@pytest.mark.exhaustive
def test_a_standby_is_not_read_though_it_has_the_slot(tmp_path: Path) -> None:
    with replicating(tmp_path, KEEPS_SLOTS) as (_, logged, standby):
        standby.keep_slot(logged)
        leases = logged.manifest().state.leases
        url = standby.server.url()
        with psycopg.connect(url) as session, pytest.raises(ServerIsStandby):
            LoggedDatabase(url, tmp_path / "lake", session).read_log(target=0)
        with CaptureProcess(url, tmp_path) as run:
            assert run.process.wait(60) == 78
            assert "RT-1108" in run.messages()
        assert logged.manifest().state.leases == leases


@pytest.mark.exhaustive
def test_a_run_that_knows_both_servers_goes_on_by_itself(tmp_path: Path) -> None:
    with replicating(tmp_path, KEEPS_SLOTS) as (primary, logged, standby):
        standby.keep_slot(logged)
        hosts = f"{primary.socket_directory},{standby.server.socket_directory}"
        url = f"postgresql://postgres@/postgres?host={hosts}&port=5432,5432&target_session_attrs=read-write"
        with CaptureProcess(url, tmp_path) as run:
            logged.execute("insert into item values (2)")
            wait_until(lambda: logged.inserted() == ["1", "2"], what="the row is read")
            logged.execute("insert into item values (3)")
            standby.wait_for(primary)
            primary.stop("immediate")
            with taken_over(standby, tmp_path) as after:
                after.execute("insert into item values (4)")
                wait_until(lambda: after.inserted() == ["1", "2", "3", "4"], what="the later rows are read")
                run.require_alive()
                assert "RT-2107" not in run.messages()


def test_what_the_standby_had_not_received_is_not_read(tmp_path: Path) -> None:
    """Nothing makes capture wait for the standby here: it has read what the failover loses."""
    with replicating(tmp_path, KEEPS_SLOTS) as (primary, logged, standby):
        standby.keep_slot(logged)
        standby.disconnect()
        logged.execute("insert into item values (2)")
        logged.read_log()
        primary.stop("immediate")
        with taken_over(standby, tmp_path) as after:
            # More than was read of the primary.
            after.execute("create table other as select generate_series(1, 10000)")
            with pytest.raises(HistoryDiverged, match="timeline 1 ended at"):
                after.read_log()
            assert after.inserted() == ["1", "2"]


@pytest.mark.exhaustive
def test_a_standby_is_made_to_keep_the_slot_by_what_is_printed(tmp_path: Path) -> None:
    with replicating(tmp_path, {}) as (primary, logged, standby):
        lacking = only(check(logged.url), "no standby keeps a copy").message
        assert lacking.endswith("lacking there: sync_replication_slots, hot_standby_feedback")
        run_mend(only(check(standby.server.url()), "keeps no copies of slots"), standby.server.url())
        wait_until(lambda: not matching(check(logged.url), "no standby keeps"), what="a standby looks for slots")
        standby.keep_slot(logged)
        primary.stop("immediate")
        with taken_over(standby, tmp_path) as after:
            after.execute("insert into item values (2)")
            after.read_log()
            assert after.inserted() == ["1", "2"]


@pytest.mark.exhaustive
def test_before_17_the_slot_does_not_outlive_a_failover(tmp_path: Path) -> None:
    with replicating(tmp_path, {}, version=16) as (primary, logged, standby):
        assert "PostgreSQL 16 has no failover slots" in only(check(logged.url), "is missing").message
        standby.wait_for(primary)
        primary.stop("immediate")
        with taken_over(standby, tmp_path) as after, pytest.raises(ServerPromoted, match="does not exist"):
            after.read_log()


def test_an_earlier_slot_becomes_a_failover_slot(logged: LoggedDatabase) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    make_ordinary(logged.url, logged.cdc.get_source().slot)
    assert logged.execute(HAS_FAILOVER) == [(False,)]
    logged.read_log()
    assert logged.execute(HAS_FAILOVER) == [(True,)]


def test_16_has_ordinary_slots(logged_16: LoggedDatabase) -> None:
    logged_16.execute("create table item (id int primary key)")
    logged_16.enable("item")
    logged_16.read_log()
    assert logged_16.execute(HAS_FAILOVER) == [(None,)]
