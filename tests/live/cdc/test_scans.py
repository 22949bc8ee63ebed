"""Scans by hand and the limits of scans."""

from __future__ import annotations

from collections import Counter

import pytest

from builders.capture.captured_databases import CapturedDatabase, LoggedDatabase
from builders.commands.command_lines import rowtide
from rowtide.cdc.capture import appends
from rowtide.databases.postgres.connect import open_engine
from rowtide.delta.errors import AppendNotFound
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
