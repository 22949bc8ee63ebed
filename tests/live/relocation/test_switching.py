"""A database's lake and log store move: capture resumes at the new place, with every change exactly once."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import rowtide
from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import LoggedDatabase
from builders.commands.command_lines import rowtide as run
from builders.faults.failpoints import SWITCH_FAILPOINTS
from builders.faults.killed_programs import KILLED, run_program
from builders.lakes.relocated_lakes import FilledLake
from builders.servers.object_servers import Bucket
from builders.threads import in_thread
from rowtide.cdc.lake_lease import LakeLease
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import ConnectionFailed
from rowtide.handle import connect
from rowtide.lake.errors import LakeNested
from rowtide.log.catalogue import read_source
from rowtide.log.errors import LeaseHeld, LogStoreRelocated
from rowtide.log.opening import open_log_reader
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import ReaderAdvanced
from rowtide.log.store.location import open_store
from rowtide.log.store.manifest import Manifest
from rowtide.relocation.copying import Copied
from rowtide.relocation.errors import CopyDiverged, LakeElsewhere

NAME = "public_item"
SWITCH = "import sys, rowtide; rowtide.connect(sys.argv[1]).switch_lake(*sys.argv[2:])"


@pytest.fixture
def enabled(logged: LoggedDatabase) -> LoggedDatabase:
    """A database whose log was read, and not captured yet."""
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.execute("insert into item values (1)")
    logged.read_log()
    return logged


@pytest.fixture
def moving(logged: LoggedDatabase) -> LoggedDatabase:
    """A database with two captured rows."""
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    capture(logged, 1, 2)
    return logged


def capture(logged: LoggedDatabase, *ids: int) -> None:
    """Insert rows, and capture all that was committed."""
    logged.execute(*(f"insert into item values ({key})" for key in ids))
    ended = run("cdc", "run", "--once", "--db", logged.url)
    assert ended.code == 0, ended.errors


def switch(logged: LoggedDatabase, target: object) -> Copied | None:
    return connect(logged.url).switch_lake(str(logged.lake), str(target))


def read_ids(lake: object) -> list[int]:
    """Return the keys of the inserts that a lake has published, in order."""
    rows = rowtide.open_lake(str(lake)).get_all_changes(NAME).to_arrow().read_all().to_pylist()
    return [row["id"] for row in rows]


def find_places(logged: LoggedDatabase) -> SourceDefinition:
    with open_engine(logged.url).connect() as connection:
        return read_source(connection, logged.url)


@contextmanager
def writing(logged: LoggedDatabase, begin: int) -> Iterator[list[int]]:
    """Insert rows all the time; the list has those that were committed."""
    written: list[int] = []

    def write(is_over: threading.Event) -> None:
        while not is_over.is_set():
            key = begin + len(written)
            logged.execute(f"insert into item values ({key})")
            written.append(key)

    with in_thread(write):
        yield written


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["disk", "bucket"])
def test_capture_goes_on_at_the_new_place(
    moving: LoggedDatabase, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    bucket: Bucket | None = request.getfixturevalue("bucket") if kind == "bucket" else None
    target = f"{bucket.url}/shop" if bucket is not None else str(tmp_path / "moved")
    with writing(moving, 3) as written:
        with CaptureProcess(moving.url, tmp_path) as process:
            process.wait_published(moving)
            rowtide.copy_lake(str(moving.lake), target)
            process.wait_published(moving)
            assert run("lake", "copy", str(moving.lake), target, "--switch", "--db", moving.url).code == 1
            assert process.terminate() == 0
        ended = run("lake", "copy", str(moving.lake), target, "--switch", "--db", moving.url)
        assert ended.code == 0, ended.errors
        assert f"The database uses {target} from now on." in ended.errors
        before = read_ids(target)
        with CaptureProcess(moving.url, tmp_path) as process:
            process.wait_published(moving)
            process.terminate()
    capture(moving)
    assert read_ids(target) == [1, 2, *written]
    assert read_ids(moving.lake) == before == [1, 2, *written][: len(before)]
    assert (find_places(moving).lake, find_places(moving).log_store) == (target, f"{target}/log")


@pytest.mark.parametrize("failpoint", SWITCH_FAILPOINTS)
def test_a_killed_switch_leaves_one_place_in_force(moving: LoggedDatabase, tmp_path: Path, failpoint: str) -> None:
    target = tmp_path / "moved"
    assert run_program(SWITCH, moving.url, str(moving.lake), str(target), failpoint=failpoint) == KILLED
    was_switched = failpoint == "lake_switch.after"
    in_force = target if was_switched else moving.lake
    assert find_places(moving).lake == str(in_force)
    capture(moving, 3)
    assert read_ids(in_force) == [1, 2, 3]
    assert (switch(moving, target) is None) == was_switched
    capture(moving, 4)
    assert read_ids(target) == [1, 2, 3, 4]
    with pytest.raises(LogStoreRelocated, match=re.escape(f"the log store was moved to {target}")):
        Manifest.find(open_store(f"{moving.lake}/log"))


def test_a_process_with_the_old_place_is_refused(enabled: LoggedDatabase, tmp_path: Path) -> None:
    store, manifest = enabled.store(), enabled.manifest()
    switch(enabled, tmp_path / "moved")
    position = manifest.state.position
    for use in (
        manifest.refresh,
        lambda: manifest.append(ReaderAdvanced("cdc", position)),
        lambda: manifest.take_lease("log", "somebody"),
        lambda: Manifest.open(store),
    ):
        with pytest.raises(LogStoreRelocated, match=f"RT-2145: the log store was moved to {tmp_path}/moved/log"):
            use()
    assert enabled.manifest().state.position == position


def test_a_lake_goes_back_to_a_folder_that_was_emptied(enabled: LoggedDatabase, tmp_path: Path) -> None:
    switch(enabled, tmp_path / "moved")
    back = partial(connect(enabled.url).switch_lake, f"{tmp_path}/moved", str(enabled.lake))
    with pytest.raises(CopyDiverged, match="a lake was moved from here"):
        back()
    shutil.rmtree(enabled.lake)
    assert back() is not None
    assert find_places(enabled).lake == str(enabled.lake)


def test_a_capture_that_lost_its_session_writes_no_more(enabled: LoggedDatabase, tmp_path: Path) -> None:
    with AdvisoryLease.take(open_engine(enabled.url), "lake") as session:
        lease = LakeLease.take(enabled.store(), session)
        enabled.execute("select pg_terminate_backend(pid, 10000) from pg_locks where locktype = 'advisory'")
        switch(enabled, tmp_path / "moved")
        with pytest.raises(ConnectionFailed):
            lease.require()
        with pytest.raises(LogStoreRelocated):
            lease.manifest.refresh()


@pytest.mark.exhaustive
def test_a_lake_that_is_captured_is_not_switched(moving: LoggedDatabase, tmp_path: Path) -> None:
    with open_log_reader(moving.url), pytest.raises(LeaseHeld, match="RT-2108: the log lease is held by"):
        switch(moving, tmp_path / "moved")
    assert find_places(moving).lake == str(moving.lake)
    switch(moving, tmp_path / "moved")
    assert find_places(moving).lake == f"{tmp_path}/moved"


@pytest.mark.exhaustive
def test_a_lake_goes_to_a_bucket_and_back(moving: LoggedDatabase, tmp_path: Path, bucket: Bucket) -> None:
    there, back = f"{bucket.url}/shop", str(tmp_path / "back")
    switch(moving, there)
    capture(moving, 3)
    connect(moving.url).switch_lake(there, back)
    capture(moving, 4)
    assert (read_ids(back), read_ids(there)) == ([1, 2, 3, 4], [1, 2, 3])


@pytest.mark.exhaustive
def test_a_log_store_outside_the_lake_stays(logged: LoggedDatabase, tmp_path: Path) -> None:
    logs = str(tmp_path / "logs")
    logged.execute("create table item (id int primary key)")
    logged.cdc.enable_db(str(logged.lake), logs)
    logged.cdc.enable_table("item")
    capture(logged, 1)
    switch(logged, tmp_path / "moved")
    capture(logged, 2)
    assert read_ids(tmp_path / "moved") == [1, 2]
    assert find_places(logged).log_store == logs
    connect(logged.url).switch_lake(f"{tmp_path}/moved", f"{tmp_path}/again", target_log_store=f"{tmp_path}/other logs")
    capture(logged, 3)
    assert read_ids(tmp_path / "again") == [1, 2, 3]
    assert find_places(logged).log_store == f"{tmp_path}/other logs"


def test_another_lake_than_the_databases_is_not_switched(enabled: LoggedDatabase, tmp_path: Path) -> None:
    with pytest.raises(LakeElsewhere, match="RT-3126"):
        connect(enabled.url).switch_lake(str(tmp_path / "another"), str(tmp_path / "moved"))


@pytest.mark.exhaustive
def test_a_database_restored_to_before_the_move_follows(enabled: LoggedDatabase, tmp_path: Path) -> None:
    switch(enabled, tmp_path / "moved")
    enabled.execute(f"update rowtide.source set lake = '{enabled.lake}', log_store = '{enabled.lake}/log'")
    run("cdc", "run", "--once", "--db", enabled.url).require_error(2145)
    assert switch(enabled, tmp_path / "moved") is None
    capture(enabled, 2)
    assert read_ids(tmp_path / "moved") == [1, 2]


def test_a_dry_run_prints_the_statement(enabled: LoggedDatabase, tmp_path: Path) -> None:
    target = f"{tmp_path}/moved"
    ended = run("lake", "copy", str(enabled.lake), target, "--switch", "--dry-run", "--db", enabled.url)
    assert ended.code == 0, ended.errors
    assert ended.output.startswith("UPDATE rowtide.source SET ")
    assert f"'{target}'" in ended.output
    assert find_places(enabled).lake == str(enabled.lake)
    assert not Path(target).exists()
    again = run("lake", "copy", str(enabled.lake), target, "--switch")
    assert again.code == 2


def test_a_lake_inside_another_is_refused(logged: LoggedDatabase, tmp_path: Path) -> None:
    inside = f"{FilledLake(tmp_path / 'another').path}/inside"
    database = connect(logged.url)
    for enable in (
        lambda: database.cdc.enable_db(inside),
        lambda: database.cdc.enable_db(str(logged.lake), f"{inside}/log"),
        lambda: database.cdc.rehearsal().enable_db(inside),
        lambda: database.replication.add_publication("shop", lake=inside),
    ):
        with pytest.raises(LakeNested, match="RT-3112"):
            enable()
    assert not Path(inside).exists()
    assert not logged.lake.exists()


@pytest.mark.exhaustive
def test_a_lake_of_publications_alone_moves(logged: LoggedDatabase, tmp_path: Path) -> None:
    logged.execute("create table item (id int primary key)")
    replication = connect(logged.url).replication
    replication.add_publication("shop", lake=str(logged.lake))
    replication.add_article("shop", "item")
    logged.execute("insert into item values (1)")
    before = logged.read_log().position
    switch(logged, tmp_path / "moved")
    assert logged.manifest().state.position == before
    logged.execute("insert into item values (2)")
    logged.read_log()
    assert logged.inserted() == ["1", "2"]
