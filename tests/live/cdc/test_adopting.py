"""A database that was moved for good continues in the next epoch, whatever moved it; a mere copy does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide, rowtide_process
from builders.commands.hints import run_printed
from builders.faults.failpoints import ADOPTION_FAILPOINTS, LOG_RESTART_FAILPOINTS
from builders.replication.replicated_databases import PUBLICATION, ReplicatedDatabase
from builders.servers.copied_databases import NOTHING, base_backup, copied, moved, read_metadata, restored
from fixtures.servers import SETTINGS
from rowtide.cdc.errors.querying import LsnOutOfRange
from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.embedded import EmbeddedServer, find_programs, launcher
from rowtide.handle import connect
from rowtide.log.errors import DatabaseCopied, LeaseHeld, LogStoreMoved, ServerPromoted
from rowtide.relocation.adopting import Adoption
from rowtide.relocation.errors import NothingToResumeFrom, OriginalAlive

SHORT_FAILPOINTS = ("adoption_record.after", "slot_renewal.after")
TABLES = (
    "create type mood as enum ('sad', 'glad')",
    "create table item (gone int, id int primary key, mood mood)",
    "alter table item drop column gone",
)


def begin(logged: LoggedDatabase) -> None:
    """Capture a table, with one row in the log store."""
    logged.execute(*TABLES)
    logged.enable("item")
    logged.execute("insert into item values (1, 'glad')")
    logged.read_log()


def require_next_row_in_next_epoch(url: str, lake: Path) -> None:
    """What is written in the adopted database is read, in the next epoch."""
    with psycopg.connect(url, autocommit=True) as session:
        adopted = LoggedDatabase(url, lake, session)
        adopted.execute("insert into item values (2, 'sad')")
        assert adopted.read_log().epoch == 1
        assert adopted.inserted() == ["1", "2"]
        [gap] = adopted.manifest().state.gaps
        assert gap.reason == "adopted"
        assert [member.name for member in adopted.manifest().state.members] == ["public_item"]


@pytest.mark.parametrize(
    ("fixture", "on"), [("logged", "server"), pytest.param("logged_16", "server_16", marks=pytest.mark.soak)]
)
def test_a_database_restored_in_place_goes_on(request: pytest.FixtureRequest, fixture: str, on: str) -> None:
    logged: LoggedDatabase = request.getfixturevalue(fixture)
    server: EmbeddedServer = request.getfixturevalue(on)
    begin(logged)
    with moved(logged, server) as url:
        rowtide("cdc", "status", "--db", url).require_error(2140)
        planned = rowtide("adopt", "--dry-run", "--db", url)
        assert planned.code == 0, planned.errors
        for statement in (
            "create publication",
            "update rowtide.source",
            "pg_create_logical_replication_slot",
            "enable",
        ):
            assert statement in planned.output.lower()
        asked = rowtide_process("adopt", "--db", url)
        assert asked.code == 1
        for words in (
            "it belongs to slot",
            "cannot be seen from here",
            "Lost: changes that committed after",
            "Continue?",
        ):
            assert words in asked.errors
        rowtide("cdc", "status", "--db", url).require_error(2140)
        ended = rowtide("adopt", "--yes", "--db", url)
        assert ended.code == 0, ended.errors
        require_next_row_in_next_epoch(url, logged.lake)
        again = rowtide("adopt", "--yes", "--db", url)
        assert (again.code, "nothing to adopt" in again.errors) == (0, True)
        assert rowtide("check", "--db", url).code == 0


@pytest.mark.exhaustive
def test_a_database_restored_on_a_newer_server_goes_on(
    logged_16: LoggedDatabase, server_16: EmbeddedServer, server: EmbeddedServer
) -> None:
    begin(logged_16)
    with restored(server, server_16, logged_16.session.info.dbname) as url:
        connect(url).adopt()
        require_next_row_in_next_epoch(url, logged_16.lake)
        # The one that was left behind is no owner any more, and takes nothing along.
        with pytest.raises(LogStoreMoved) as moved_away:
            logged_16.read_log()
        run_printed(moved_away.value, logged_16.url)
        assert read_metadata(logged_16.url) == NOTHING
        with psycopg.connect(url, autocommit=True) as session:
            adopted = LoggedDatabase(url, logged_16.lake, session)
            adopted.execute("insert into item values (3, 'sad')")
            adopted.read_log()
            assert adopted.inserted() == ["1", "2", "3"]


def test_a_mere_copy_is_refused_while_the_original_is_there(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    with copied(server, logged) as copy:
        before = read_metadata(copy)
        for words in ((), ("--yes",), ("--dry-run",)):
            ended = rowtide("adopt", *words, "--db", copy)
            assert ended.code == 1
            assert f"RT-2143: database copy_{copy.split('copy_')[1].partition('?')[0]} is a copy: " in ended.errors
            assert "--abandon-original" in ended.errors
        with pytest.raises(OriginalAlive) as alive:
            connect(copy).adopt()
        assert read_metadata(copy) == before
        run_printed(alive.value, copy)
        assert read_metadata(copy) == NOTHING
        logged.execute("insert into item values (5, 'sad')")
        logged.read_log()
        assert logged.inserted() == ["1", "5"]


def test_equal_oid_on_another_server_is_not_the_original(logged: LoggedDatabase) -> None:
    begin(logged)
    for system, originals in (("7001", ()), (logged.cdc.get_source().system_identifier, ("template1",))):
        logged.execute(f"update rowtide.source set system_identifier = '{system}', slot = 'rowtide_1'")
        found = connect(logged.url).find_adoption()
        assert found.blocker is not None
        assert f"slot rowtide_1 of system {system}" in found.blocker
        assert found.originals == originals


def test_who_reads_or_captures_for_the_original_is_shut_out(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    elsewhere = logged.manifest()
    reading, capturing = elsewhere.take_lease("log", "elsewhere"), elsewhere.take_lease("lake", "elsewhere")
    with copied(server, logged) as copy:
        connect(copy).adopt(abandon_original=True)
    leases = elsewhere.refresh().leases
    assert leases["log"].token != reading
    assert leases["lake"].token != capturing


@pytest.mark.exhaustive
def test_an_original_that_is_given_up_owns_nothing(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    with copied(server, logged) as copy:
        ended = rowtide("adopt", "--abandon-original", "--yes", "--db", copy)
        assert ended.code == 0, ended.errors
        assert f"Lost: log store and lake for {logged.session.info.dbname}, which stops" in ended.errors
        require_next_row_in_next_epoch(copy, logged.lake)
        for words in (("cdc", "status"), ("cdc", "reinitialize", "--yes")):
            rowtide(*words, "--db", logged.url).require_error(2141)
        checked = rowtide("check", "--db", logged.url, "--format", "jsonl")
        assert "reinitialize" not in checked.output
        with pytest.raises(OriginalAlive):
            connect(logged.url).adopt()
        assert connect(logged.url).cdc.disable_db().owner is not None
        assert read_metadata(logged.url) == NOTHING
        with psycopg.connect(copy, autocommit=True) as session:
            adopted = LoggedDatabase(copy, logged.lake, session)
            adopted.execute("insert into item values (3, 'sad')")
            adopted.read_log()
            assert adopted.inserted() == ["1", "2", "3"]


@pytest.mark.parametrize(
    "failpoint",
    [
        pytest.param(failpoint, marks=[pytest.mark.soak] if failpoint not in SHORT_FAILPOINTS else [])
        for failpoint in (*ADOPTION_FAILPOINTS, *LOG_RESTART_FAILPOINTS)
    ],
)
def test_an_adoption_that_was_killed_is_repeated(
    logged: LoggedDatabase, server: EmbeddedServer, failpoint: str
) -> None:
    begin(logged)
    with moved(logged, server) as url:
        killed = rowtide_process("adopt", "--yes", "--db", url, environment={"ROWTIDE_FAILPOINT": failpoint})
        assert killed.code == -9
        if failpoint != LOG_RESTART_FAILPOINTS[-1]:
            with pytest.raises((DatabaseCopied, LogStoreMoved), match="of which it is a copy|not to this database"):
                connect(url).cdc.status()
        ended = rowtide("adopt", "--yes", "--db", url)
        assert ended.code == 0, ended.errors
        require_next_row_in_next_epoch(url, logged.lake)


def test_two_that_adopt_at_once_do_it_once(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    with moved(logged, server) as url, ThreadPoolExecutor(2) as threads:
        start = threading.Barrier(2)

        def adopt(_number: int) -> Adoption | RowtideError:
            start.wait()
            try:
                return connect(url).adopt()
            except RowtideError as error:
                return error

        ended = list(threads.map(adopt, range(2)))
        assert {type(end) for end in ended} <= {Adoption, LeaseHeld}
        assert sum(isinstance(end, Adoption) and end.is_needed for end in ended) == 1
        require_next_row_in_next_epoch(url, logged.lake)


def test_a_database_that_was_not_moved_is_left_as_it_is(logged: LoggedDatabase) -> None:
    begin(logged)
    before = read_metadata(logged.url)
    for words in (("--yes",), ("--dry-run",)):
        ended = rowtide("adopt", *words, "--db", logged.url)
        assert (ended.code, "nothing to adopt" in ended.errors) == (0, True)
    assert read_metadata(logged.url) == before
    assert logged.read_log().epoch == 0


def test_a_log_store_that_is_not_there_is_named(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    begin(logged)
    with moved(logged, server) as url:
        shutil.rmtree(logged.lake)
        with pytest.raises(NothingToResumeFrom, match=f"RT-2144: the log store {logged.lake}/log") as named:
            connect(url).adopt()
        assert not logged.lake.exists()
        run_printed(named.value, url)
        assert read_metadata(url) == NOTHING
        assert not logged.lake.exists()


def test_tables_that_did_not_come_along_are_named(logged: LoggedDatabase, server: EmbeddedServer) -> None:
    logged.execute("create table lost (id int primary key)")
    begin(logged)
    logged.enable("lost")
    logged.read_log()
    with moved(logged, server) as url, psycopg.connect(url, autocommit=True) as session:
        # Renamed where nothing tells the log: another table has its name by now, and is not taken for it.
        session.execute("alter table lost rename to renamed")
        session.execute("create table lost (id int primary key)")
        ended = rowtide("adopt", "--yes", "--db", url)
        assert "Tables are not here of: public_lost." in ended.errors
        require_next_row_in_next_epoch(url, logged.lake)


@pytest.mark.exhaustive
def test_publications_beside_capture_go_on(replicated: ReplicatedDatabase, server: EmbeddedServer) -> None:
    publisher = replicated.publisher
    begin(publisher)
    replicated.subscriber.execute("create type mood as enum ('sad', 'glad')")
    replicated.replication.add_publication(PUBLICATION)
    replicated.replication.add_article(PUBLICATION, "public.item")
    replicated.replication.add_subscription(PUBLICATION, replicated.subscriber.url)
    replicated.deliver()
    replicated.require_equal("item")
    with moved(publisher, server) as url, psycopg.connect(url, autocommit=True) as session:
        adopted = connect(url)
        assert "each has to be reinitialized" in adopted.find_adoption().loss
        adopted.adopt()
        session.execute("insert into item values (2, 'sad')")
        adopted.replication.reinitialize(PUBLICATION)
        adopted.replication.run(once=True)
        session.execute("update item set mood = 'glad'")
        adopted.replication.run(once=True)
        assert replicated.subscriber.execute("select * from item order by 1") == [(1, "glad"), (2, "glad")]


@pytest.mark.exhaustive
def test_change_rows_go_on_behind_the_gap(captured: CapturedDatabase, server: EmbeddedServer) -> None:
    begin(captured)
    captured.capture()
    before = captured.cdc.get_validity_interval("public_item")
    with moved(captured, server) as url, psycopg.connect(url, autocommit=True) as session:
        connect(url).adopt()
        adopted = CapturedDatabase(url, captured.lake, session, captured.spark)
        adopted.execute("insert into item values (2, 'sad')")
        adopted.capture()
        assert adopted.values("public_item", "id", "mood") == [(2, 2, "sad")]
        with pytest.raises(LsnOutOfRange, match="adopted"):
            adopted.changes("public_item", "all", before.low)


@contextmanager
def promoted(server: EmbeddedServer, place: Path) -> Iterator[EmbeddedServer]:
    """Yield a standby of a server that was promoted: same system and database, another timeline, no slot."""
    base_backup(server, place, "--write-recovery-conf")
    with EmbeddedServer.start(place, settings=SETTINGS) as standby:
        with psycopg.connect(standby.url(), autocommit=True) as session:
            session.execute("select pg_promote()")
        yield standby


def test_promoted_standby_without_slot_continues_once_adopted(
    logged: LoggedDatabase, server: EmbeddedServer, tmp_path: Path
) -> None:
    begin(logged)
    with promoted(server, tmp_path / "standby") as standby:
        url = standby.url(logged.session.info.dbname)
        with psycopg.connect(url, autocommit=True) as session:
            clone = LoggedDatabase(url, logged.lake, session)
            # It may be a copy of a server that lives on: nothing of the original's changes.
            leases = logged.manifest().state.leases
            with pytest.raises(ServerPromoted, match="RT-2142: the server is on timeline 2, .* timeline 1"):
                clone.read_log()
            with pytest.raises(ServerPromoted):
                clone.cdc.run(once=True)
            assert logged.manifest().state.leases == leases
            with pytest.raises(ServerPromoted):
                clone.cdc.reinitialize("a test")
            checked = rowtide("check", "--format", "jsonl", "--db", url)
            assert "rowtide adopt" in checked.output
            assert "reinitialize`" not in checked.output
            logged.execute("insert into item values (7, 'sad')")
            assert logged.read_log().source.timeline == 1
            found = connect(url).adopt()
            assert found.blocker is not None
            clone.execute("insert into item values (8, 'sad')")
            assert clone.read_log().epoch == 1
            assert clone.inserted() == ["1", "7", "8"]


def test_disabling_a_promoted_copy_leaves_the_original_alone(
    logged: LoggedDatabase, server: EmbeddedServer, tmp_path: Path
) -> None:
    begin(logged)
    with promoted(server, tmp_path / "standby") as standby:
        url = standby.url(logged.session.info.dbname)
        assert "timeline 1" in str(connect(url).cdc.find_disabling())
        connect(url).cdc.disable_db()
        assert read_metadata(url) == NOTHING
    logged.execute("insert into item values (2, 'sad')")
    logged.read_log()
    assert logged.inserted() == ["1", "2"]


@pytest.mark.soak
def test_a_server_upgraded_by_pg_upgrade_goes_on(tmp_path: Path) -> None:
    old, new, lake = tmp_path / "old", tmp_path / "new", tmp_path / "lake"
    with (
        EmbeddedServer.start(old, version=16, settings=SETTINGS) as server,
        psycopg.connect(server.url(), autocommit=True) as session,
    ):
        before, logged = server.programs, LoggedDatabase(server.url(), lake, session)
        begin(logged)
        # Such a slot cannot be carried over from before 17; the log knows of neither name.
        logged.execute(f"select pg_drop_replication_slot('{logged.cdc.get_source().slot}')")
    new.mkdir(mode=0o777)
    after = find_programs(18)
    as_server(
        new, after / "initdb", "--no-data-checksums", "--auth=trust", "--encoding=UTF8", "--locale=C", "-Upostgres"
    )
    upgrade = (
        f"--old-datadir={old}/data",
        f"--new-datadir={new}/data",
        f"--old-bindir={before}",
        f"--new-bindir={after}",
    )
    as_server(new, after / "pg_upgrade", *upgrade, "-Upostgres", f"--socketdir={new}")
    with EmbeddedServer.start(new, version=18, settings=SETTINGS) as server:
        rowtide("cdc", "status", "--db", server.url()).require_error(2140)
        connect(server.url()).adopt()
        require_next_row_in_next_epoch(server.url(), lake)


def as_server(place: Path, program: Path, *arguments: str) -> None:
    """Run one of PostgreSQL's programs as the servers are run."""
    place.chmod(0o777)
    data = {**os.environ, "PGDATA": str(place / "data")}
    subprocess.run([*launcher(), str(program), *arguments], cwd=place, env=data, check=True, stdout=subprocess.DEVNULL)
