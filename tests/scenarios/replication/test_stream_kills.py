"""A streaming query over a growing lake, whose sink fails and which is killed: its sink has each change once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import rowtide
from builders.capture.capture_instances import instance
from builders.capture.captured_databases import wait_until
from builders.lakes.made_lakes import MadeLake, make_rows
from builders.servers.object_servers import Bucket
from rowtide.cdc.change_columns import full_mask
from rowtide.delta.snapshot import Snapshot, open_snapshot
from rowtide.lake.stores import locate

ITEM = instance()
NAME = ITEM.capture_instance
QUERY = """
import json, os, random, sys
import rowtide
lake, instance, sink, checkpoint, variables = sys.argv[1:]
spark = rowtide.build_session(master="local[2]")
# Spark's processes have them from the source alone.
os.environ.update(json.loads(variables))
rowtide.register_source(spark)
changes = spark.readStream.format("rowtide").option("instance", instance).option("maxTransactionsPerTrigger", 3)
def write(batch, number):
    def refuse_now_and_then():
        if random.random() < 0.3:
            raise RuntimeError("the sink refuses")
    refuse_now_and_then()
    once = {"txnAppId": "changes", "txnVersion": number}
    batch.write.format("delta").mode("append").options(**once).save(sink)
    refuse_now_and_then()
writer = changes.load(lake).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
while True:
    try:
        writer.start().awaitTermination()
    except Exception as error:
        # Spark gives the source's process ten seconds to start, too little for a machine under load.
        if not any(expected in str(error) for expected in ("failed to connect back", "the sink refuses")):
            raise
"""


def publish(made: MadeLake, first: int, last: int) -> None:
    """Publish transactions of two rows each, five in a cycle."""
    for begin in range(first, last, 5):
        rows = [change(lsn, seqval) for lsn in range(begin, begin + 5) for seqval in (1, 2)]
        made.publish((ITEM, [make_rows(ITEM, rows)]))


def change(lsn: int, seqval: int) -> dict[str, Any]:
    position = {"__$start_lsn": lsn, "__$seqval": seqval, "__$operation": 2, "__$update_mask": full_mask(2)}
    return {**position, "id": 10 * lsn + seqval, "name": "tea"}


@contextmanager
def querying(made: MadeLake, place: Path, variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the query in a process, which is killed at the end, in the same moment as the JVM that it started."""
    paths = [str(place / "sink"), str(place / "checkpoint")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-c", QUERY, made.path, NAME, *paths, json.dumps(variables)]
    with (
        (place / "log").open("ab") as log,
        subprocess.Popen(command, stderr=log, env=environment, start_new_session=True) as process,
    ):
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def read_sink(place: Path) -> Snapshot | None:
    return open_snapshot(locate(str(place / "sink")))


def count_rows(place: Path) -> int:
    sink = read_sink(place)
    return sum(file.statistics.get("numRecords") or 0 for file in sink.files.values()) if sink is not None else 0


def wait_for_rows(query: subprocess.Popen[bytes], place: Path, rows: int) -> None:
    def has_rows() -> bool:
        assert query.poll() is None, (place / "log").read_text()
        return count_rows(place) >= rows

    wait_until(has_rows, what=f"the sink has {rows} rows")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_a_killed_query_loses_and_repeats_nothing(tmp_path: Path, bucket: Bucket, kind: str) -> None:
    made = MadeLake(tmp_path / "lake" if kind == "folder" else f"{bucket.url}/lake")
    made.enable(ITEM, 90)
    publish(made, 100, 130)
    variables = bucket.environment if kind == "bucket" else {}
    for more in range(130, 190, 20):
        before = count_rows(tmp_path)
        with querying(made, tmp_path, variables) as query:
            wait_for_rows(query, tmp_path, before + 1)
            publish(made, more, more + 20)
    with querying(made, tmp_path, variables) as query:
        wait_for_rows(query, tmp_path, 2 * 90)
    sink = read_sink(tmp_path)
    assert sink is not None
    expected = rowtide.open_lake(made.path).get_all_changes(NAME).to_arrow().read_all()
    assert sink.read().sort_by([("id", "ascending")]).to_pylist() == expected.to_pylist()
