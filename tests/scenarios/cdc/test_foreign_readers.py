"""Other engines read a lake by the page's recipe, beside a writer that publishes: whole cycles, and none too many.

The writer is a thread that publishes as fast as it can, and then capture itself, under a small load.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.compute as pc
import pytest

from builders.capture.capture_instances import instance, source_table
from builders.capture.capture_processes import CaptureProcess
from builders.capture.captured_databases import CapturedDatabase, wait_until
from builders.lakes.delta_tables import own
from builders.lakes.made_lakes import MadeLake, make_rows
from builders.lakes.outside_readers import list_blocks
from builders.threads import in_thread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PACKAGES = ("deltalake==1.6.6", "duckdb==1.5.5", "pyarrow==26.0.1")
ORDERS = instance(table=source_table([("id", "integer"), ("note", "text")], name="orders"))
ROWS = 40
"""So many rows has each cycle, in two files."""
MOST_CYCLES = 120
_LOOK = """
import sys
lake, name, looks, rows_of_a_cycle = sys.argv[1], "public_orders", int(sys.argv[2]), int(sys.argv[3])
seen = []
for look in range(looks):
    rows = read_changes(lake, name)
    lsns = rows["__$start_lsn"].to_pylist()
    cycles = sorted(set(lsns))
    assert cycles == list(range(100, 100 + len(cycles))), cycles
    assert len(lsns) == len(cycles) * rows_of_a_cycle, len(lsns)
    assert count_changes(lake, name, 100, cycles[-1]) == len(lsns)
    seen.append(len(cycles))
assert seen == sorted(seen), seen
assert seen[-1] > seen[0], seen
"""

LOOKS = 50
"""So many looks has each reader beside capture."""
BATCH = (
    "insert into orders (batch, note) select %(batch)s, 'new' from generate_series(1, 5)",
    "update orders set note = 'seen' where batch = %(batch)s and id %% 5 < 2",
)
ROWS_OF_A_BATCH = 5 + 2 * 2
_PAUSE_S = 0.03
_MARGIN = timedelta(seconds=2)
_LOOK_BESIDE_CAPTURE = """
import sys
from collections import Counter
lake, name, looks, rows_of_a_batch = sys.argv[1], "public_orders", int(sys.argv[2]), int(sys.argv[3])
seen = []
for look in range(looks):
    rows = read_changes(lake, name)
    batches = Counter(rows["batch"].to_pylist())
    assert sorted(batches) == list(range(1, len(batches) + 1)), batches
    assert set(batches.values()) == {rows_of_a_batch}, batches
    lsns = rows["__$start_lsn"]
    assert count_changes(lake, name, pc.min(lsns).as_py(), pc.max(lsns).as_py()) == len(lsns)
    seen.append(len(batches))
assert seen == sorted(seen), seen
assert seen[-1] > seen[0], seen
"""


@pytest.fixture(scope="module")
def foreign_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python of its own, with delta-rs and the DuckDB that most people have."""
    folder = tmp_path_factory.mktemp("foreign") / "venv"
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    python = folder / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *PACKAGES], check=True)
    return python


@contextmanager
def publishing(made: MadeLake) -> Iterator[None]:
    """Publish cycle after cycle, as capture does: the rows, then what publishes them."""

    def publish(is_over: threading.Event) -> None:
        while made.cycle < MOST_CYCLES and not is_over.is_set():
            publish_cycle(made)

    with in_thread(publish):
        yield


def publish_cycle(made: MadeLake) -> None:
    lsn = 100 + made.cycle
    rows = [
        {"__$start_lsn": lsn, "__$seqval": number, "__$operation": 2, "__$update_mask": b"\x03", "id": number}
        for number in range(ROWS)
    ]
    made.publish((ORDERS, [make_rows(ORDERS, rows[: ROWS // 2]), make_rows(ORDERS, rows[ROWS // 2 :])]))


def read_recipe() -> str:
    """Return the page's functions for changes, with delta-rs and DuckDB."""
    return "".join(block for block in list_blocks("python") if "/cdc/" in block)


@pytest.mark.exhaustive
def test_readers_of_other_engines_see_whole_published_cycles(foreign_python: Path, tmp_path: Path) -> None:
    made = MadeLake(tmp_path / "lake")
    made.enable(ORDERS, 90)
    publish_cycle(made)
    with publishing(made):
        looking = subprocess.run(
            [str(foreign_python), "-c", read_recipe() + _LOOK, made.path, "8", str(ROWS)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (looking.returncode, looking.stderr) == (0, "")


@contextmanager
def writing_batches(url: str) -> Iterator[None]:
    """Commit batch after batch, each in a transaction of its own."""

    def write(is_over: threading.Event) -> None:
        with psycopg.connect(url) as connection:
            batch = 0
            while not is_over.wait(_PAUSE_S):
                batch += 1
                with connection.transaction():
                    for statement in BATCH:
                        connection.execute(statement, {"batch": batch})

    with in_thread(write):
        yield


@pytest.mark.exhaustive
def test_three_engines_see_whole_transactions_beside_capture(
    foreign_python: Path, captured: CapturedDatabase, tmp_path: Path
) -> None:
    captured.execute("create table orders (id int generated always as identity primary key, batch int, note text)")
    captured.enable("orders")
    lake = str(captured.lake)
    command = [str(foreign_python), "-c", read_recipe() + _LOOK_BESIDE_CAPTURE, lake, str(LOOKS), str(ROWS_OF_A_BATCH)]
    with CaptureProcess(captured.url, tmp_path) as process, writing_batches(captured.url):
        process.wait_published(captured)
        wait_until(lambda: has_safe_rows(captured.lake), what="rows that every reader may see")
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as others:
            look_by_spark(captured)
            _, errors = others.communicate()
        assert process.terminate() == 0
    assert (others.returncode, errors) == (0, "")


def has_safe_rows(lake: Path) -> bool:
    published = own(lake / "cdc" / "lsn_time_mapping").read()
    safe = datetime.now(UTC) - _MARGIN
    rows: list[dict[str, Any]] = published.select(["published_at", "start_lsn"]).to_pylist()
    return any(row["start_lsn"] is not None and row["published_at"] < safe for row in rows)


def look_by_spark(captured: CapturedDatabase) -> None:
    """Look until files have been compacted too."""
    seen: list[int] = []
    while len(seen) < LOOKS or not list((captured.lake / "cdc" / "public_orders_CT").glob("**/compacted-*.parquet")):
        batches = count_by_spark(captured.spark, str(captured.lake))
        assert sorted(batches) == list(range(1, len(batches) + 1))
        assert set(batches.values()) == {ROWS_OF_A_BATCH}
        seen.append(len(batches))
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def count_by_spark(spark: SparkSession, lake: str) -> dict[int, int]:
    """Take the recipe's steps in Spark, without rowtide; return the rows of each batch."""

    def read(name: str) -> DataFrame:
        return spark.read.format("delta").load(f"{lake}/cdc/{name}")

    safe = f"published_at < current_timestamp() - interval {_MARGIN.seconds} seconds"
    high = read("lsn_time_mapping").where(safe).selectExpr("max(start_lsn)").collect()[0][0]
    rows = read("public_orders_CT").where(f"`__$start_lsn` <= {high}").toArrow()
    enabled = read("instances").where("capture_instance = 'public_orders' and state = 'enabled'")
    low = enabled.orderBy("cycle", "ordinal").collect()[-1]["lsn"]
    batches: list[Any] = rows.filter(pc.field("__$start_lsn") >= low)["batch"].to_pylist()
    return dict(Counter(batches))
