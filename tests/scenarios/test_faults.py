"""Killed anywhere, under load: the change tables end up with the source's history, and never show part of it.

One story for the whole module, because a Spark start takes ten seconds: a workload runs, capture runs beside it, and
test after test kills capture or its log reader at one failpoint, sees it come back, and reads the change tables.
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
from pyspark.sql import DataFrame

from builders.capture_processes import CaptureProcess
from builders.captured_databases import FINDS_EVERYTHING, CapturedDatabase, wait_until
from builders.workloads import COLUMNS, TABLES, ChangeRow, History, Workload, make_tables, read_history
from rowtide.cdc.lake_tables import change_table_path, ledger_path
from rowtide.cdc.queries import Changes
from rowtide.core.lsn import CommitLsn
from rowtide.handle import register
from rowtide.lake import tables
from rowtide.lake.session import pinned

LOG_READER_FAILPOINTS = [
    f"{step}.{side}" for step in ("segment_sync", "manifest_entry", "slot_confirmation") for side in ("before", "after")
]
CAPTURE_FAILPOINTS = [
    f"{step}.{side}" for step in ("cycle_record", "change_table_append", "publication") for side in ("before", "after")
]


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
        """Wait until all that is committed now is published."""
        target, manifest = self.captured.mark(), self.captured.manifest()

        def is_published() -> bool:
            self.process.require_alive()
            return manifest.refresh().readers["cdc"].position.log > target

        wait_until(is_published, what=f"published up to {target:X}")

    def read(self) -> History:
        """Read what a user sees now; each transaction in it must be whole."""
        lsn = self.captured.cdc.max_lsn(spark=self.captured.spark)
        assert lsn is not None
        history = read_changes(self.captured, lsn)
        written = read_history(self.captured.session)
        for xid, rows in history.items():
            assert rows == written[xid]
        self.seen.append((lsn, frozenset(history)))
        return history


def read_changes(captured: CapturedDatabase, to_lsn: CommitLsn) -> History:
    """Return the change rows of all tables up to an LSN, by transaction."""
    mapping = captured.spark.read.format("delta").load(ledger_path(str(captured.lake), "lsn_time_mapping"))
    published = mapping.select("start_lsn", "tran_id").toArrow().to_pylist()
    xids: dict[int, int] = {row["start_lsn"]: row["tran_id"] for row in published}
    history: dict[int, list[ChangeRow]] = defaultdict(list)
    for instance, columns in COLUMNS.items():
        changes = captured.cdc.get_all_changes(instance, None, to_lsn, FINDS_EVERYTHING, spark=captured.spark)
        rows = changes.select("`__$start_lsn`", "`__$seqval`", "`__$operation`", *columns).toArrow().columns
        by_column: list[list[Any]] = [column.to_pylist() for column in rows]
        for lsn, seqval, operation, *values in zip(*by_column, strict=True):
            history[xids[lsn]].append((seqval, operation, instance, tuple(values)))
    return {xid: sorted(rows) for xid, rows in history.items()}


@pytest.fixture(scope="module")
def story(shared: CapturedDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    make_tables(shared.session)
    shared.enable(*TABLES)
    directory = tmp_path_factory.mktemp("story")
    with Workload(shared.url) as workload:
        told = Story(shared, workload, directory, CaptureProcess(shared.url, directory))
        try:
            told.wait_published()
            yield told
        finally:
            told.process.__exit__(None, None, None)


@pytest.mark.parametrize("reads", [50, pytest.param(500, marks=pytest.mark.soak)])
def test_no_maximum_lsn_is_ahead_of_its_rows(story: Story, reads: int) -> None:
    """A user's two statements: the bound, then the rows up to it; counted again when all have long arrived."""
    changes = Changes(pinned(story.captured.spark), str(story.captured.lake))
    counted = []
    for _ in range(reads):
        lsn = changes.max_lsn()
        assert lsn is not None
        counted.append((lsn.value, row_lsns(story.captured, *COLUMNS).where(f"lsn <= {lsn.value}").count()))
    story.process.require_alive()
    require_counts(counted, row_lsns(story.captured, *COLUMNS))


def test_no_maximum_lsn_of_the_reading_statement_itself_is_ahead_of_its_rows(story: Story) -> None:
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
    require_counts(counted, row_lsns(story.captured, "public_account"))


def row_lsns(captured: CapturedDatabase, *instances: str) -> DataFrame:
    """Return the LSNs of the rows of change tables, published or not, in one statement."""
    rows = (tables.read_table(captured.spark, change_table_path(str(captured.lake), name)) for name in instances)
    return reduce(DataFrame.unionAll, (table.selectExpr("`__$start_lsn` as lsn") for table in rows))


def require_counts(counted: Sequence[tuple[int, int]], rows: DataFrame) -> None:
    """Compare how many rows were seen up to maximum LSNs with how many there are, now that all have arrived."""
    lsns: list[Any] = rows.orderBy("lsn").toArrow()["lsn"].to_pylist()
    assert counted == [(high, bisect_right(lsns, high)) for high, _ in counted]
    assert len({high for high, _ in counted}) > len(counted) // 10


@pytest.mark.parametrize("failpoint", LOG_READER_FAILPOINTS)
def test_a_log_reader_that_is_killed_is_started_anew_and_misses_nothing(story: Story, failpoint: str) -> None:
    story.process.arm(failpoint)
    story.wait_published()
    story.read()


@pytest.mark.parametrize("failpoint", CAPTURE_FAILPOINTS)
def test_capture_that_is_killed_and_run_again_goes_on_where_it_stopped(story: Story, failpoint: str) -> None:
    story.process.arm(failpoint)
    story.process.wait_killed()
    story.read()
    story.restart()
    story.wait_published()
    story.read()


def test_capture_that_is_killed_while_its_jvm_appends_goes_on_where_it_stopped(story: Story) -> None:
    place = Path(change_table_path(str(story.captured.lake), "public_account"))
    known = set(place.glob("*/*.parquet"))
    wait_until(lambda: bool(set(place.glob("*/*.parquet")) - known), what="a file of the next append")
    story.process.process.kill()
    story.process.wait_killed()
    story.restart()
    story.wait_published()
    story.read()


def test_after_all_kills_the_change_tables_equal_the_history_of_the_source(story: Story) -> None:
    story.workload.stop()
    assert story.process.terminate() == 0
    story.captured.capture()
    captured = story.read()
    assert captured == read_history(story.captured.session)
    lsns = read_commit_lsns(story.captured)
    for lsn, xids in story.seen:
        assert xids == {xid for xid in captured if lsns[xid] <= lsn}


def read_commit_lsns(captured: CapturedDatabase) -> dict[int, CommitLsn]:
    """Return where each published transaction committed."""
    mapping = captured.spark.read.format("delta").load(ledger_path(str(captured.lake), "lsn_time_mapping"))
    return {row["tran_id"]: CommitLsn(row["start_lsn"]) for row in mapping.where("start_lsn is not null").collect()}
