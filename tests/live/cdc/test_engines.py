"""Both engines publish the same rows, and each fails by number and without a trace in the change tables."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from builders.capture.captured_databases import CapturedDatabase
from builders.commands.command_lines import rowtide
from rowtide.cdc.capture import appends
from rowtide.cdc.capture.change_files import ChangeFile, Selection, count_change_rows
from rowtide.cdc.errors.capturing import ChangeFileMissing, ChangeRowsMiscounted
from rowtide.cdc.system_tables import SystemTables
from rowtide.log.errors import SegmentCorrupt

HISTORY = (
    "insert into item values (1, 'one', 1.5), (2, null, null), (3, 'three', 'nan')",
    "update item set name = 'uno' where id = 1",
    "update item set id = 20 where id = 2",
    "delete from item where id = 3",
    "truncate item",
    "insert into item values (4, 'four', 4)",
)
PUBLISHED = [
    (2, 1, "one"),
    (2, 2, None),
    (2, 3, "three"),
    (3, 1, "one"),
    (4, 1, "uno"),
    (1, 2, None),
    (2, 20, None),
    (1, 3, "three"),
    (6, None, None),
    (2, 4, "four"),
]


@pytest.fixture
def written(captured: CapturedDatabase) -> CapturedDatabase:
    """A database with a captured table; its history is in the log store, and not captured."""
    captured.execute("create table item (id int primary key, name text, size numeric)")
    captured.execute("alter table item replica identity full", "create table other (id int primary key)")
    captured.enable("item", "other")
    captured.capture()
    captured.execute(*HISTORY, "insert into other select generate_series(1, 3)")
    captured.read_log()
    return captured


@pytest.fixture
def by_spark(written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch) -> CapturedDatabase:
    """The same, to be captured by Spark."""
    monkeypatch.setenv("ROWTIDE_ENGINE", "spark")
    return written


def files_of(captured: CapturedDatabase, table: str) -> set[Path]:
    return set(Path(captured.lake, "cdc", f"public_{table}_CT").glob("*.parquet"))


@pytest.mark.parametrize(("engine", "used"), [("auto", "process"), ("spark", "spark")])
def test_engines_publish_the_same_rows(
    written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch, engine: str, used: str
) -> None:
    monkeypatch.setenv("ROWTIDE_ENGINE", engine)
    assert rowtide("cdc", "run", "--once", "--db", written.url).code == 0

    assert written.values("public_item", "id", "name") == PUBLISHED
    assert written.values("public_other", "id") == [(2, 1), (2, 2), (2, 3)]
    total, *_ = written.cdc.list_scan_sessions()
    assert total.engine == used


def test_an_error_in_a_task_of_spark_keeps_its_number(by_spark: CapturedDatabase) -> None:
    segment = max(by_spark.manifest().state.segments, key=lambda one: one.first)
    Path(by_spark.cdc.get_source().log_store, segment.path).write_bytes(b"PAR1 nothing PAR1")
    with by_spark.open_capture() as capture, pytest.raises(SegmentCorrupt):
        capture.step()


@pytest.mark.exhaustive
def test_a_file_that_only_a_task_sees_is_not_committed(
    by_spark: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = pickle.loads

    def lose(pickled: bytes) -> ChangeFile:
        file: ChangeFile = load(pickled)
        (lost,) = Path(by_spark.lake, "cdc").glob(f"*_CT/{file.file.path}")
        lost.unlink()
        return file

    monkeypatch.setattr(pickle, "loads", lose)
    with by_spark.open_capture() as capture, pytest.raises(ChangeFileMissing):
        capture.step()
    monkeypatch.setattr(pickle, "loads", load)
    by_spark.capture()
    assert by_spark.values("public_item", "id", "name") == PUBLISHED


@pytest.mark.exhaustive
def test_rows_that_the_log_does_not_have_are_not_committed(
    written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def count_more(captured: Mapping[str, pa.Table], selections: Sequence[Selection]) -> Mapping[str, int]:
        return {member_id: rows + 1 for member_id, rows in count_change_rows(captured, selections).items()}

    with monkeypatch.context() as miscounting:
        miscounting.setattr(appends, "count_change_rows", count_more)
        with written.open_capture() as capture, pytest.raises(ChangeRowsMiscounted):
            capture.step()
    assert written.changes("public_item") == []
    written.capture()
    assert written.values("public_item", "id", "name") == PUBLISHED


def test_a_redone_cycle_writes_only_what_is_not_committed(
    written: CapturedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ended before the cycle was published."""

    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as ending:
        ending.setattr(SystemTables, "publish", interrupt)
        with written.open_capture() as capture, pytest.raises(KeyboardInterrupt):
            capture.step()
    written_before = files_of(written, "item")
    written.capture()
    assert files_of(written, "item") == written_before
    assert written.values("public_item", "id", "name") == PUBLISHED
