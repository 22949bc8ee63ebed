"""A lake opened by its path: LSNs, times, instances and changes, in Arrow, DuckDB and Polars, without Spark."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import rowtide
from builders.capture.capture_instances import instance, source_table
from builders.lakes.made_lakes import BEGIN, SECONDS_PER_CYCLE, MadeLake, make_rows
from rowtide.cdc.errors.capturing import LakeUnknown
from rowtide.cdc.errors.querying import InstanceUnknown, LsnOutOfRange, NetChangesUnsupported, UnknownRowFilter
from rowtide.core.errors import ExtraMissing
from rowtide.core.lsn import CommitLsn

ITEM = instance(table=source_table([("id", "integer"), ("name", "text"), ("price", "numeric(8,2)"), ("at", "date")]))
NAME = ITEM.capture_instance


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two cycles: two inserts, then an update of the first row and a delete of the second."""
    made = MadeLake(tmp_path_factory.mktemp("lakes") / "lake")
    made.enable(ITEM, 90)
    first = [change(100, 1, 2, 1, "tea"), change(100, 2, 2, 2, "milk")]
    made.publish((ITEM, [make_rows(ITEM, first)]))
    second = [change(110, 1, 3, 1, "tea"), change(110, 1, 4, 1, "green tea"), change(120, 1, 1, 2, "milk")]
    made.publish((ITEM, [make_rows(ITEM, second)]))
    return made.path


def change(lsn: int, seqval: int, operation: int, key: int, name: str) -> dict[str, object]:
    return {
        "__$start_lsn": lsn,
        "__$seqval": seqval,
        "__$operation": operation,
        "__$update_mask": b"\x02" if operation in (3, 4) else b"\x0f",
        "id": key,
        "name": name,
    }


def test_published_lsns_times_and_instances_are_known(lake: str) -> None:
    opened = rowtide.open_lake(lake)
    assert opened.get_max_lsn() == CommitLsn(120)
    assert opened.get_min_lsn(NAME) == CommitLsn(90)
    assert [one.instance.capture_instance for one in opened.list_recorded_instances()] == [NAME]
    time = BEGIN + timedelta(seconds=SECONDS_PER_CYCLE)
    assert opened.map_lsn_to_time(CommitLsn(100)) == time
    assert opened.map_time_to_lsn("largest less than or equal", time) == CommitLsn(100)


@pytest.mark.parametrize(
    ("time", "lsn"), [("9999-12-31T23:59:59-14:00", CommitLsn(120)), ("0001-01-01T00:00:00+14:00", None)]
)
def test_times_beyond_what_python_has_in_utc_are_compared(lake: str, time: str, lsn: CommitLsn | None) -> None:
    assert rowtide.open_lake(lake).map_time_to_lsn("largest less than", datetime.fromisoformat(time)) == lsn


def test_changes_are_arrow(lake: str) -> None:
    changes = rowtide.open_lake(lake).get_all_changes(NAME, row_filter_option="all update old")
    rows = changes.to_arrow().read_all()
    assert rows["__$operation"].to_pylist() == [2, 2, 3, 4, 1]
    assert rows.schema == changes.schema
    assert rows.equals(changes.to_arrow().read_all())


def test_window_by_time_excludes_its_start(lake: str) -> None:
    time = BEGIN + timedelta(seconds=SECONDS_PER_CYCLE)
    rows = rowtide.open_lake(lake).get_all_changes(NAME, time).to_arrow().read_all()
    assert rows["__$start_lsn"].to_pylist() == [110, 120]


def test_net_changes_are_one_row_per_key(lake: str) -> None:
    net = rowtide.open_lake(lake).get_net_changes(NAME, CommitLsn(110), None, "all with mask").to_arrow().read_all()
    rows = net.select(["__$start_lsn", "__$operation", "__$update_mask", "name"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(110, 4, b"\x02", "green tea"), (120, 1, None, "milk")]


def test_duckdb_reads_changes_as_often_as_asked(lake: str) -> None:
    # Loaded while tests are collected, it would miss at the end what `conftest` keeps from the search for garbage.
    import duckdb

    with duckdb.connect() as connection:
        relation = rowtide.open_lake(lake).get_all_changes(NAME).to_duckdb(connection)
        for _ in range(2):
            assert relation.aggregate("count(*), max(name)").fetchall() == [(4, "tea")]


def test_polars_has_the_changes(lake: str) -> None:
    frame = rowtide.open_lake(lake).get_net_changes(NAME).to_polars()
    assert frame.select("id", "name", "price").rows() == [(1, "green tea", None)]


def test_missing_polars_is_named(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    changes = rowtide.open_lake(lake).get_all_changes(NAME)
    with pytest.raises(ExtraMissing, match=r"rowtide\[polars\]"):
        changes.to_polars()


def test_what_cannot_be_asked_is_refused(lake: str, tmp_path: Path) -> None:
    opened = rowtide.open_lake(lake)
    with pytest.raises(LsnOutOfRange, match="0/5A to 0/78"):
        opened.get_all_changes(NAME, CommitLsn(1))
    with pytest.raises(InstanceUnknown):
        opened.get_all_changes("other")
    with pytest.raises(UnknownRowFilter):
        opened.get_net_changes(NAME, row_filter_option="all update old")
    with pytest.raises(LakeUnknown):
        rowtide.open_lake(str(tmp_path))


def test_net_changes_need_a_key(tmp_path: Path) -> None:
    keyless = instance(table=source_table([("name", "text")], key=()))
    made = MadeLake(tmp_path / "lake")
    made.enable(keyless, 90)
    made.publish((keyless, []), lsns=[100])
    with pytest.raises(NetChangesUnsupported):
        rowtide.open_lake(made.path).get_net_changes(keyless.capture_instance)


def test_neither_spark_nor_duckdb_is_imported_for_all_changes(lake: str) -> None:
    program = (
        "import sys, rowtide\n"
        f"assert rowtide.open_lake({lake!r}).get_all_changes({NAME!r}).to_arrow().read_all().num_rows == 4\n"
        "print(*({'pyspark', 'py4j', 'duckdb', 'polars', 'psycopg'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
