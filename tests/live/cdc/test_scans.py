"""Scans by hand and the limits of scans."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide import open_lake
from rowtide.cdc.capture import appends
from rowtide.cdc.errors.capturing import ChangeTableLost
from rowtide.cdc.running import capture_run
from rowtide.databases.postgres.connect import open_engine
from rowtide.delta.errors import AppendNotFound, LakeReadFailed
from rowtide.diagnosis import read_health
from rowtide.lake import tables
from rowtide.log.postgres.lease import AdvisoryLease


@pytest.fixture
def written(captured: CapturedDatabase) -> CapturedDatabase:
    """A captured table with ten rows, each of a transaction of its own, in one batch of the log."""
    captured.execute("create table item (id int primary key)")
    captured.enable("item")
    captured.capture()
    captured.execute(*(f"insert into item values ({number})" for number in range(10)))
    captured.read_log()
    return captured


def ids(written: CapturedDatabase) -> list[int]:
    return [row["id"] for row in written.changes("public_item")]


def sizes(written: CapturedDatabase) -> list[int]:
    """Return the numbers of transactions of the cycles with rows, in their order."""
    mapping = tables.read_table(written.spark, f"{written.lake}/cdc/lsn_time_mapping").where("start_lsn is not null")
    counts = Counter(row["cycle"] for row in mapping.collect())
    return [counts[cycle] for cycle in sorted(counts)][1:]


@pytest.mark.exhaustive
def test_scans_honour_maxtrans_and_maxscans(written: CapturedDatabase) -> None:
    limits = ("--maxtrans", "3", "--maxscans", "2")
    ended = rowtide("cdc", "scan", *limits, "--db", written.url)
    assert ended.code == 0, ended.errors
    assert (ids(written), sizes(written)) == (list(range(6)), [3, 3])
    total, *sessions = written.cdc.list_scan_sessions()
    scans = [session for session in sessions if not session.empty_scan_count]
    assert [(scan.tran_count, scan.command_count, scan.scan_phase) for scan in scans] == [(3, 3, "Done")] * 2
    assert (total.tran_count, total.error_count) == (6, 0)
    assert scans[0].start_lsn == scans[1].end_lsn
    assert scans[0].latency is not None
    assert scans[0].latency > 0
    written.cdc.change_job("capture", maxtrans=2, maxscans=1)
    assert rowtide("cdc", "run", "--once", "--db", written.url).code == 0
    assert (ids(written), sizes(written)) == (list(range(10)), [3, 3, 2, 2])


@pytest.mark.exhaustive
def test_a_job_that_is_not_continuous_ends_after_a_round(written: CapturedDatabase) -> None:
    written.cdc.change_job("capture", maxtrans=4, maxscans=1, continuous=False)
    assert rowtide("cdc", "run", "--db", written.url).code == 0
    assert ids(written) == list(range(4))
    assert rowtide("cdc", "scan", "--db", written.url).code == 0
    assert (ids(written), sizes(written)) == (list(range(10)), [4, 6])


@pytest.mark.exhaustive
def test_an_error_that_ends_a_scan_is_listed(written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise AppendNotFound("the change table", 2)

    monkeypatch.setattr(appends, "convert_in_process", fail)
    rowtide("cdc", "scan", "--db", written.url).require_error(3102)
    (error,) = written.cdc.list_scan_errors()
    assert (error.error_number, error.phase_number) == (3102, 3)
    failed = written.cdc.list_scan_sessions()[1]
    assert (failed.session_id, failed.scan_phase, failed.error_count) == (error.session_id, "Second scan", 1)


def test_a_scan_is_refused_while_another_runs(logged: LoggedDatabase) -> None:
    logged.enable()
    with AdvisoryLease.take(open_engine(logged.url, application_name="the other scan"), "lake"):
        error = rowtide("cdc", "scan", "--db", logged.url).require_error(22903)
    assert "the other scan" in error


def test_limits_of_a_scan_are_positive(logged: LoggedDatabase) -> None:
    rowtide("cdc", "scan", "--maxtrans", "0", "--db", logged.url).require_error(22991)
    rowtide("cdc", "scan", "--maxscans", "0", "--db", logged.url).require_error(22970)


def test_a_run_by_hand_ends_with_what_does_not_pass(logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    logged.execute("create table item (id int primary key)")
    logged.enable("item")
    logged.cdc.run(once=True)
    commits = logged.lake / "cdc" / "public_item_CT" / "_delta_log"
    for version in range(1, 3):
        logged.execute(f"insert into item values ({version})")
        logged.cdc.run(once=True)
    lost = commits / f"{1:020d}.json"
    content = lost.read_bytes()
    lost.unlink()
    logged.execute("insert into item values (3)")
    monkeypatch.setattr(capture_run, "LONGEST_OUTAGE_S", 1.0)
    with pytest.raises(ChangeTableLost, match="version 1 is missing from its log"):
        logged.cdc.run(once=True)
    lost.write_bytes(content)
    logged.cdc.run(once=True)
    assert read_ids(logged, "public_item") == [1, 2, 3]


def read_ids(logged: LoggedDatabase, instance: str) -> list[int | None]:
    changes = open_lake(str(logged.lake)).get_all_changes(instance).to_arrow().read_all()
    return changes.sort_by("id")["id"].to_pylist()


@pytest.mark.parametrize("left", ["nothing", "some of its log"])
def test_a_lost_change_table_is_passed_once_it_is_disabled(
    logged: LoggedDatabase, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    logged.execute("create table item (id int primary key)", "create table other (id int primary key)")
    logged.enable("item", "other")
    logged.execute("insert into item values (1)")
    logged.cdc.run(once=True)
    folder = logged.lake / "cdc" / "public_item_CT"
    if left == "nothing":
        shutil.rmtree(folder)
        with pytest.raises(LakeReadFailed, match="there is no table"):
            open_lake(str(logged.lake)).get_all_changes("public_item").to_arrow()
    else:
        (folder / "_delta_log" / f"{0:020d}.json").unlink()
    logged.execute("insert into item values (2)", "insert into other values (2)")
    monkeypatch.setattr(capture_run, "LONGEST_OUTAGE_S", 0.0)
    with pytest.raises(ChangeTableLost, match="RT-4115: the change table of public_item"):
        logged.cdc.run(once=True)
    logged.cdc.disable_table("item")
    for number in (3, 4):
        # What is damaged stays so, and keeps nobody from capturing.
        logged.execute(f"insert into other values ({number})")
        logged.cdc.run(once=True)
        assert read_ids(logged, "public_other") == list(range(2, number + 1))
    told = [found.message for found in read_health(logged.url) if "its rows cannot be removed" in found.message]
    assert len(told) == (left != "nothing"), told
    shutil.rmtree(folder, ignore_errors=True)
    logged.cdc.enable_table("item")
    logged.execute("insert into item values (3)")
    logged.cdc.run(once=True)
    assert (read_ids(logged, "public_item"), read_ids(logged, "public_other")) == ([3], [2, 3, 4])
