"""Killed anywhere, under load: the change tables end up with the source's history, and never show part of it.

One story for each server, because a Spark start takes ten seconds: a workload runs, capture runs beside it, and
test after test kills capture or its log reader at one failpoint, sees it come back, and reads the change tables.
Each failpoint kills on one of the servers in turn; in `make soak` on both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.faults.failpoints import CAPTURE_FAILPOINTS, LOG_READER_FAILPOINTS
from builders.lakes.change_histories import read_instance, read_transactions
from builders.workloads import COLUMNS, TABLES, ChangeRow, History, Workload, make_tables, read_history
from fixtures.captured import open_captured
from rowtide.cdc.published import change_table_path
from rowtide.cdc.spark_changes import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.databases.postgres.embedded import EmbeddedServer, ServerVersion
from rowtide.handle import register
from rowtide.lake import tables
from rowtide.lake.session import pinned


@dataclass
class Story:
    """A captured database under load, the capture process of the moment, and what readers saw meanwhile."""

    captured: CapturedDatabase
    workload: Workload
    directory: Path
    process: CaptureProcess
    seen: list[tuple[CommitLsn, frozenset[int]]] = field(default_factory=list)

    def restart(self) -> None:
        self.process = CaptureProcess(self.captured.url, self.directory)

    def wait_published(self) -> None:
        self.process.wait_published(self.captured)

    def read(self) -> History:
        """Read what a user sees now; each transaction in it must be whole."""
        lsn = self.captured.cdc.get_max_lsn()
        assert lsn is not None
        history = read_changes(self.captured, lsn)
        written = read_history(self.captured.session)
        for xid, rows in history.items():
            assert rows == written[xid]
        self.seen.append((lsn, frozenset(history)))
        return history


def read_changes(captured: CapturedDatabase, to_lsn: CommitLsn) -> History:
    """Return the change rows of all tables up to an LSN, by transaction."""
    xids = read_transactions(captured)
    history: dict[int, list[ChangeRow]] = defaultdict(list)
    for instance in COLUMNS:
        for xid, rows in read_instance(captured, instance, instance, to_lsn, xids).items():
            history[xid] += rows
    return {xid: sorted(rows) for xid, rows in history.items()}


@pytest.fixture(scope="class")
def story(
    request: pytest.FixtureRequest,
    server: EmbeddedServer,
    server_16: EmbeddedServer,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("story")
    chosen = {18: server, 16: server_16}[request.cls.version]
    with open_captured(chosen, directory / "lake", spark) as captured:
        make_tables(captured.session)
        captured.enable(*TABLES)
        with Workload(captured.url) as workload:
            told = Story(captured, workload, directory, CaptureProcess(captured.url, directory))
            try:
                told.wait_published()
                yield told
            finally:
                told.process.__exit__(None, None, None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each class says with which values its tests run."""
    for name in {"log_reader_failpoint", "capture_failpoint", "reads"} & set(metafunc.fixturenames):
        metafunc.parametrize(name, getattr(metafunc.cls, name))


def in_turn(failpoints: Sequence[str], first: int) -> Sequence[str]:
    """Return every other failpoint: of one step the side before it, of the next the side after it."""
    return [failpoint for number, failpoint in enumerate(failpoints) if (number + number // 2) % 2 == first]


class ReadsAndAppends:
    """What does not depend on the server."""

    reads: Sequence[int]

    def test_no_maximum_lsn_is_ahead_of_its_rows(self, story: Story, reads: int) -> None:
        """A user's two statements: the bound, then the rows up to it; counted again when all have long arrived."""
        changes = Changes(pinned(story.captured.spark), str(story.captured.lake))
        counted = []
        for _ in range(reads):
            lsn = changes.get_max_lsn()
            assert lsn is not None
            counted.append((lsn.value, row_lsns(story.captured, *COLUMNS).where(f"lsn <= {lsn.value}").count()))
        story.process.require_alive()
        require_all_rows_seen_by_lsn(counted, row_lsns(story.captured, *COLUMNS))

    def test_max_lsn_in_the_reading_statement_is_not_ahead_of_rows(self, story: Story) -> None:
        """In SQL one statement asks for the bound and for the rows: their snapshots are the engine's own business."""
        spark = pinned(story.captured.spark)
        register(spark, str(story.captured.lake))
        bounds = "(select fn_cdc_get_min_lsn('public_account')), (select fn_cdc_get_max_lsn())"
        rows = f"fn_cdc_get_all_changes_public_account({bounds}, 'all update old')"
        counted = []
        for _ in range(10):
            found = spark.sql(f"select (select fn_cdc_get_max_lsn()) as high, count(*) as rows from {rows}").first()
            assert found is not None
            counted.append((found["high"], found["rows"]))
        story.process.require_alive()
        require_all_rows_seen_by_lsn(counted, row_lsns(story.captured, "public_account"))

    def test_capture_killed_while_its_jvm_appends_resumes(self, story: Story) -> None:
        place = Path(change_table_path(str(story.captured.lake), "public_account"))
        known = set(place.glob("*/*.parquet"))
        wait_until(lambda: bool(set(place.glob("*/*.parquet")) - known), what="a file of the next append")
        story.process.process.kill()
        story.process.wait_killed()
        story.restart()
        story.wait_published()
        story.read()


class Kills:
    """One kill after the other, and in the end the source's history."""

    version: ServerVersion
    log_reader_failpoint: Sequence[str]
    capture_failpoint: Sequence[str]

    @pytest.mark.exhaustive
    def test_killed_log_reader_is_restarted_and_misses_nothing(self, story: Story, log_reader_failpoint: str) -> None:
        story.process.arm(log_reader_failpoint)
        story.wait_published()
        story.read()

    def test_capture_killed_at_a_failpoint_resumes_where_it_stopped(self, story: Story, capture_failpoint: str) -> None:
        story.process.arm(capture_failpoint)
        story.process.wait_killed()
        story.read()
        story.restart()
        story.wait_published()
        story.read()

    def test_change_tables_equal_the_source_history_after_all_kills(self, story: Story) -> None:
        story.workload.stop()
        assert story.process.terminate() == 0
        story.captured.capture()
        captured = story.read()
        assert captured == read_history(story.captured.session)
        lsns = {xid: lsn for lsn, xid in read_transactions(story.captured).items()}
        for lsn, xids in story.seen:
            assert xids == {xid for xid in captured if lsns[xid] <= lsn.value}


class TestOneOfEachOnPostgres18(Kills):
    version = 18
    log_reader_failpoint = ("segment_sync.after",)
    capture_failpoint = ("change_table_append.after",)


@pytest.mark.exhaustive
class TestInTurnOnPostgres18(Kills, ReadsAndAppends):
    version = 18
    reads = (10,)
    log_reader_failpoint = in_turn(LOG_READER_FAILPOINTS, 0)
    capture_failpoint = in_turn(CAPTURE_FAILPOINTS, 0)


@pytest.mark.exhaustive
class TestInTurnOnPostgres16(Kills):
    version = 16
    log_reader_failpoint = in_turn(LOG_READER_FAILPOINTS, 1)
    capture_failpoint = in_turn(CAPTURE_FAILPOINTS, 1)


@pytest.mark.soak
class TestEveryOneOnPostgres18(Kills, ReadsAndAppends):
    version = 18
    reads = (150,)
    log_reader_failpoint = LOG_READER_FAILPOINTS
    capture_failpoint = CAPTURE_FAILPOINTS


@pytest.mark.soak
class TestEveryOneOnPostgres16(Kills):
    version = 16
    log_reader_failpoint = LOG_READER_FAILPOINTS
    capture_failpoint = CAPTURE_FAILPOINTS


def row_lsns(captured: CapturedDatabase, *instances: str) -> DataFrame:
    """Return the LSNs of the rows of change tables, published or not, in one statement."""
    rows = (tables.read_table(captured.spark, change_table_path(str(captured.lake), name)) for name in instances)
    return reduce(DataFrame.unionAll, (table.selectExpr("`__$start_lsn` as lsn") for table in rows))


def require_all_rows_seen_by_lsn(counted: Sequence[tuple[int, int]], rows: DataFrame) -> None:
    """Compare how many rows were seen up to maximum LSNs with how many there are, now that all have arrived."""
    lsns: list[Any] = rows.orderBy("lsn").toArrow()["lsn"].to_pylist()
    assert counted == [(high, bisect_right(lsns, high)) for high, _ in counted]
    assert len({high for high, _ in counted}) > len(counted) // 10
