"""Cleaning up: what goes, what stays, what readers are shown meanwhile, and what a crash leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide, rowtide_process
from builders.faults.cuts import Cut, cut_at
from builders.faults.failpoints import CLEANUP_FAILPOINTS
from rowtide.cdc.cleanup import cleanup as cleanup_module, retention
from rowtide.cdc.cleanup.cleanup import Cleaned, Cleanup
from rowtide.cdc.errors.capturing import (
    CleanupImplausible,
    CleanupIncomplete,
    LowWaterMarkOutOfRange,
    LowWaterMarkUnknown,
)
from rowtide.cdc.errors.querying import InstanceUnknown, LsnOutOfRange
from rowtide.cdc.lake_lease import LakeLease
from rowtide.cdc.requests import CleanupOrder
from rowtide.cdc.system_tables import SystemTables
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.connect import open_engine
from rowtide.delta.errors import LakeWriteFailed
from rowtide.delta.writing.changes import Below
from rowtide.handle import register
from rowtide.lake import tables
from rowtide.lake.tables import delete_rows
from rowtide.log.postgres.lease import AdvisoryLease

pytestmark = pytest.mark.usefixtures("vacuumed")

CLEANED = ("public_item_CT", "public_other_CT", "lsn_time_mapping", "cycles")


@pytest.fixture
def written(captured: CapturedDatabase) -> CapturedDatabase:
    """Tables item and other, and three cycles, in each of which one transaction writes to both."""
    captured.execute("create table item (id int primary key)", "create table other (id int primary key)")
    captured.enable("item", "other")
    for number in (1, 2, 3):
        captured.execute(f"insert into item values ({number}); insert into other values ({number})")
        captured.capture()
    return captured


def lsns(captured: CapturedDatabase, instance: str = "public_item") -> list[CommitLsn]:
    return [CommitLsn(row["__$start_lsn"]) for row in captured.changes(instance)]


def ids(captured: CapturedDatabase, instance: str = "public_item") -> list[int]:
    return [row["id"] for row in captured.changes(instance)]


def stored_ids(captured: CapturedDatabase, instance: str = "public_item") -> list[int]:
    """Return the ids of all rows of a change table, whether anybody may see them or not."""
    rows = tables.read_table(captured.spark, f"{captured.lake}/cdc/{instance}_CT")
    return sorted(row["id"] for row in rows.collect())


def clean(captured: CapturedDatabase, order: CleanupOrder) -> tuple[Cleaned, ...]:
    return captured.cdc.cleanup(order)


@contextmanager
def opened(captured: CapturedDatabase) -> Iterator[Cleanup]:
    """The lake, held for a cleanup in steps."""
    source = captured.cdc.get_source()
    with AdvisoryLease.take(open_engine(captured.url), "lake") as lease:
        held = LakeLease.take(captured.store(), lease)
        yield Cleanup(SystemTables(source.lake, source.source_id), held)


def commit_times(captured: CapturedDatabase) -> dict[int, datetime]:
    """Return the times of the transactions of `lsn_time_mapping`, by LSN."""
    mapping = tables.read_table(captured.spark, f"{captured.lake}/cdc/lsn_time_mapping").where("start_lsn is not null")
    rows = mapping.select("start_lsn", "tran_end_time").toArrow().to_pylist()
    return {row["start_lsn"]: row["tran_end_time"] for row in rows}


def test_cleanup_removes_what_exceeds_the_retention_and_no_more(written: CapturedDatabase, vacuumed: list[str]) -> None:
    first, second, third = lsns(written)
    times = commit_times(written)
    cleaned = clean(written, CleanupOrder(retention=times[third.value] - times[second.value]))
    removed = {found.name: (found.low, found.removed_rows) for found in cleaned}
    assert removed["public_item"] == removed["public_other"] == (second, 1)
    assert vacuumed == [f"{written.lake}/cdc/{name}" for name in CLEANED]
    assert ids(written) == ids(written, "public_other") == stored_ids(written) == [2, 3]
    assert sorted(commit_times(written)) == [second.value, third.value]
    with pytest.raises(LsnOutOfRange, match="removed by the cleanup"):
        written.changes("public_item", from_lsn=first)
    written.execute("insert into item values (4)")
    written.capture()
    assert ids(written) == [2, 3, 4]
    assert [found.removed_rows for found in clean(written, CleanupOrder())] == [0] * len(cleaned)


@pytest.mark.exhaustive
def test_instance_begun_above_the_mark_keeps_its_low_endpoint(written: CapturedDatabase) -> None:
    written.execute("create table late (id int primary key)")
    written.enable("late")
    written.execute("insert into late values (9)")
    written.capture()
    low = written.cdc.get_min_lsn("public_late")
    second = lsns(written)[1]
    clean(written, CleanupOrder(low_water_mark=second))
    assert written.cdc.get_min_lsn("public_late") == low
    assert written.cdc.get_min_lsn("public_other") == second
    assert ids(written, "public_late") == [9]


@pytest.mark.exhaustive
def test_one_instance_is_cleaned_up_by_itself(written: CapturedDatabase) -> None:
    first, second, third = lsns(written)
    assert clean(written, CleanupOrder("public_item", third)) == (Cleaned("public_item", third, 2),)
    assert (ids(written), ids(written, "public_other")) == ([3], [1, 2, 3])
    assert first.value in commit_times(written)
    with pytest.raises(LowWaterMarkOutOfRange):
        clean(written, CleanupOrder("public_item", second))


@pytest.mark.exhaustive
def test_an_order_that_cannot_be_followed_changes_nothing(written: CapturedDatabase) -> None:
    second = lsns(written)[1]
    with pytest.raises(InstanceUnknown):
        clean(written, CleanupOrder("public_nothing"))
    with pytest.raises(LowWaterMarkUnknown):
        clean(written, CleanupOrder(low_water_mark=second.increment()))
    assert ids(written) == stored_ids(written) == [1, 2, 3]


@pytest.mark.exhaustive
def test_a_mark_that_moves_by_more_than_the_clock_needs_force(
    written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the source's clock had gone forward by days since the first cleanup: by the slack that there is not."""
    monkeypatch.setattr(retention, "SLACK", timedelta(days=-1))
    order = CleanupOrder(retention=timedelta(0))
    with pytest.raises(CleanupImplausible):
        clean(written, order)
    assert ids(written) == [1, 2, 3]
    clean(written, replace(order, is_forced=True))
    assert ids(written) == stored_ids(written) == [3]


@pytest.mark.exhaustive
def test_low_endpoint_moves_first_and_open_queries_keep_rows(written: CapturedDatabase) -> None:
    first, second, _ = lsns(written)
    asked = written.cdc.get_all_changes("public_item", spark=written.spark)
    register(written.spark, str(written.lake))
    with opened(written) as cleanup:
        cleanup.begin(CleanupOrder(low_water_mark=second))
        assert written.cdc.get_min_lsn("public_item") == second
        assert stored_ids(written) == [1, 2, 3]
        assert written.spark.sql("select fn_cdc_get_min_lsn('public_other') as low").collect() == [(second.value,)]
        with pytest.raises(Exception, match="outside the validity interval"):
            written.spark.sql(
                f"select * from fn_cdc_get_all_changes_public_item({first.value}, {second.value}, 'all')"
            ).collect()
        while cleanup.step():
            pass
    assert stored_ids(written) == [2, 3]
    assert sorted(row["id"] for row in asked.collect()) == [1, 2, 3]


@pytest.mark.exhaustive
def test_nothing_is_removed_before_readers_have_their_rows(
    written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup_module, "READER_GRACE_S", 3600.0)
    mark = lsns(written)[2]
    for _process in ("the one that moves low endpoints, and is killed", "the next one, which has nothing to move"):
        with opened(written) as cleanup:
            cleanup.begin(CleanupOrder(low_water_mark=mark))
            assert not cleanup.step()
            assert not cleanup.is_done
        assert (ids(written), stored_ids(written)) == ([3], [1, 2, 3])


@pytest.mark.exhaustive
def test_failed_cleanup_of_a_table_stops_no_other_table(
    written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_for_item(path: str, rows: Below) -> int:
        if path.endswith("public_item_CT"):
            raise LakeWriteFailed(path, "the storage is full")
        return delete_rows(path, rows)

    with monkeypatch.context() as patched:
        patched.setattr(cleanup_module, "delete_rows", fail_for_item)
        with pytest.raises(CleanupIncomplete, match="public_item .*the storage is full"):
            clean(written, CleanupOrder(low_water_mark=lsns(written)[2]))
    assert (ids(written), stored_ids(written)) == ([3], [1, 2, 3])
    assert stored_ids(written, "public_other") == [3]
    assert clean(written, CleanupOrder("public_item")) == (Cleaned("public_item", lsns(written)[0], 2),)
    assert stored_ids(written) == [3]


@pytest.mark.exhaustive
def test_rows_go_with_their_files(written: CapturedDatabase) -> None:
    """Each cycle is a file here: those that stay are the ones that were there."""
    path = f"{written.lake}/cdc/public_item_CT"
    before = set(tables.read_table(written.spark, path).inputFiles())
    clean(written, CleanupOrder(low_water_mark=lsns(written)[1]))
    after = set(tables.read_table(written.spark, path).inputFiles())
    assert len(after) == 2
    assert after < before


@pytest.mark.exhaustive
def test_a_cleanup_that_was_cut_is_completed_by_the_next(
    written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut at one place after the other, each time on the way to the next mark."""
    written.execute(*(f"insert into item values ({number})" for number in range(4, 8)))
    written.capture()
    marks = lsns(written)[1:]
    for number, (place, mark) in enumerate(zip(CLEANUP_FAILPOINTS, marks, strict=True), 2):
        with monkeypatch.context() as patched, opened(written) as cleanup:
            patched.setattr(cleanup_module, "failpoint", cut_at(place))
            patched.setattr(retention, "failpoint", cut_at(place))
            with pytest.raises(Cut):
                _work_off(cleanup, CleanupOrder("public_item", mark))
        assert ids(written) in (list(range(number - 1, 8)), list(range(number, 8)))
        with opened(written) as cleanup:
            _work_off(cleanup, CleanupOrder("public_item", mark))
        assert ids(written) == stored_ids(written) == list(range(number, 8))


def _work_off(cleanup: Cleanup, order: CleanupOrder) -> None:
    cleanup.begin(order)
    while not cleanup.is_done:
        cleanup.step()


@pytest.mark.exhaustive
def test_a_running_capture_cleans_up_for_others(written: CapturedDatabase, tmp_path: Path) -> None:
    second = lsns(written)[1]
    with CaptureProcess(written.url, tmp_path) as process:
        process.wait_published(written)
        waited: list[str] = []
        order = CleanupOrder(low_water_mark=second)
        cleaned = written.cdc.cleanup(order, on_progress=waited.append)
        assert {found.name: found.removed_rows for found in cleaned}["public_item"] == 1
        with pytest.raises(LowWaterMarkUnknown):
            written.cdc.cleanup(CleanupOrder(low_water_mark=second.increment()))
        written.execute("insert into item values (4)")
        process.wait_published(written)
        assert process.interrupt() == 0
    assert set(waited) == {waited[0]}
    assert "rowtide capture on" in waited[0]
    assert ids(written) == stored_ids(written) == [2, 3, 4]


@pytest.mark.exhaustive
def test_the_command_prints_what_it_did(written: CapturedDatabase) -> None:
    second = lsns(written)[1]
    options = ("--format", "jsonl", "--db", written.url)
    ended = rowtide("cdc", "cleanup", "public_item", "--low-water-mark", str(second), *options)
    assert ended.code == 0, ended.errors
    shown = {"table": "public_item", "low_endpoint": str(second), "removed_rows": 1}
    assert [json.loads(line) for line in ended.output.splitlines()] == [shown]
    rowtide("cdc", "cleanup", "--low-water-mark", "0/1", *options).require_error(22964)


@pytest.mark.exhaustive
def test_cleanup_and_disabling_need_no_java(written: CapturedDatabase) -> None:
    third = lsns(written)[2]
    without, db = {"JAVA_HOME": "/nowhere"}, ("--db", written.url)
    cleaned = rowtide_process("cdc", "cleanup", "--low-water-mark", str(third), *db, environment=without)
    assert cleaned.code == 0, cleaned.errors
    assert ids(written) == stored_ids(written) == [3]
    disabled = rowtide_process("cdc", "disable-db", "--yes", *db, environment=without)
    assert disabled.code == 0, disabled.errors
    assert stored_ids(written) == []


@pytest.mark.soak
@pytest.mark.parametrize("place", CLEANUP_FAILPOINTS)
def test_a_cleanup_that_is_killed_is_completed_by_the_next(written: CapturedDatabase, place: str) -> None:
    third = lsns(written)[2]
    command = ("cdc", "cleanup", "--low-water-mark", str(third), "--db", written.url)
    assert rowtide_process(*command, environment={"ROWTIDE_FAILPOINT": place}).code == -9
    assert ids(written) == ids(written, "public_other")
    assert rowtide_process(*command).code == 0
    assert ids(written) == stored_ids(written) == stored_ids(written, "public_other") == [3]
