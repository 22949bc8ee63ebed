"""Spark on a standalone cluster of two workers: drivers are processes, workers have one disk or one object store."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rowtide
from builders.capture.captured_databases import LoggedDatabase
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.servers.object_servers import Bucket
from builders.servers.spark_clusters import SparkCluster
from builders.tracking.device_files import Fleet
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.stores import locate
from rowtide.targets.options import ApplyEngine, TargetFormat

ORDERS = "create table orders (id int primary key, qty int)"
SOME, MANY = 5000, 60_000
PER_TRANSACTION = 5000
DRIVER_S = 800.0
HISTORY_S = 3600


def enable(logged: LoggedDatabase, lake: str) -> None:
    logged.execute(ORDERS)
    logged.cdc.enable_db(lake)
    logged.cdc.enable_table("public.orders")


def insert(logged: LoggedDatabase, count: int) -> None:
    for first in range(0, count, PER_TRANSACTION):
        logged.execute(f"insert into orders select {first} + i, i from generate_series(1, {PER_TRANSACTION}) i")


def require_once(lake: str, count: int) -> None:
    """Require that the lake has each insert once."""
    ids = rowtide.open_lake(lake).get_all_changes("public_orders").to_arrow().read_all()["id"].to_pylist()
    assert ids == list(range(1, count + 1))


def require_converted_by_spark(logged: LoggedDatabase) -> None:
    assert {session.engine for session in logged.cdc.list_scan_sessions() if session.command_count} == {"spark"}


@pytest.mark.exhaustive
def test_workers_convert_a_range_of_the_log(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, str(logged.lake))
    insert(logged, SOME)
    spark_cluster.rowtide("cdc", "run", "--once", "--engine", "spark", "--db", logged.url)
    require_once(str(logged.lake), SOME)
    require_converted_by_spark(logged)


_CAPTURES_LARGE_RANGES = f"""
import sys, rowtide
from rowtide.cdc.capture import appends
appends.SPARK_ROWS = {SOME // 2}
rowtide.connect(sys.argv[1]).cdc.run(once=True)
print("null")
"""


@pytest.mark.exhaustive
def test_only_large_ranges_go_to_workers(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, str(logged.lake))
    insert(logged, SOME)
    spark_cluster.run_program(_CAPTURES_LARGE_RANGES, logged.url)
    require_once(str(logged.lake), SOME)
    require_converted_by_spark(logged)


_QUERIES = """
import json, sys, rowtide
url, lake = sys.argv[1:]
cdc = rowtide.connect(url).cdc
found = {
    "all": [row.id for row in cdc.get_all_changes("public_orders").collect()],
    "net": sorted(row.id for row in cdc.get_net_changes("public_orders").collect()),
}
spark = rowtide.build_session()
rowtide.register(spark, lake)
low, high = cdc.get_min_lsn("public_orders"), cdc.get_max_lsn()
query = f"select id from fn_cdc_get_all_changes_public_orders({int(low)}, {int(high)}, 'all')"
found["sql"] = [row.id for row in spark.sql(f"{query} order by `__$start_lsn`, `__$seqval`").collect()]
found["master"] = spark.sparkContext.master
rowtide.register_source(spark)
batch, stream = (each.format("rowtide").option("instance", "public_orders") for each in (spark.read, spark.readStream))
query = stream.load(lake).writeStream.format("memory").queryName("orders").trigger(availableNow=True).start()
query.awaitTermination()
for name, rows in (("batch", batch.load(lake)), ("stream", spark.table("orders"))):
    found[name] = [row.id for row in rows.orderBy("`__$start_lsn`", "`__$seqval`").collect()]
print(json.dumps(found))
"""


@pytest.mark.exhaustive
def test_workers_answer_queries(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, str(logged.lake))
    insert(logged, SOME)
    logged.execute("delete from orders where id <= 10")
    spark_cluster.rowtide("cdc", "run", "--once", "--db", logged.url)
    found = spark_cluster.run_program(_QUERIES, logged.url, str(logged.lake))
    every = [*range(1, SOME + 1), *range(1, 11)]
    net, master = list(range(11, SOME + 1)), spark_cluster.master
    assert found == {"all": every, "net": net, "sql": every, "master": master, "batch": every, "stream": every}


_ENUMERATES = """
import json, sys
from rowtide.tracking.spark import read_changes
pattern, spool = sys.argv[1:]
first = read_changes(pattern, "t", {}, spool=spool)
again = read_changes(pattern, "t", json.loads(json.dumps(first.anchors)), spool=spool)
print(json.dumps({"rows": sorted(row.name for row in first["t"].collect()), "again": again["t"].count()}))
"""


@pytest.mark.exhaustive
def test_workers_enumerate_device_files(spark_cluster: SparkCluster, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path / "devices")
    for number in range(20):
        fleet.add(f"d{number:02}")
        fleet.write(f"d{number:02}", f"insert into t (id, name, qty) values (1, 'row of {number:02}', 1)")
    found = spark_cluster.run_program(_ENUMERATES, fleet.pattern, str(tmp_path / "spool"))
    assert found == {"rows": [f"row of {number:02}" for number in range(20)], "again": 0}


_DELIVERS = """
import json, sys, rowtide
from rowtide.databases.postgres.connect import open_engine
from rowtide.replication.running.spark_backlogs import deliver_backlogs
url = sys.argv[1]
done = deliver_backlogs(rowtide.build_session(), open_engine(url), url, None, {}, least_rows=1000)
print(json.dumps([[backlog.commands, backlog.failure] for backlog in done]))
"""


@pytest.mark.exhaustive
def test_workers_deliver_backlogs(replicated: ReplicatedDatabase, spark_cluster: SparkCluster) -> None:
    replicated.begin(ORDERS, orders={})
    insert(replicated.publisher, SOME)
    replicated.publisher.read_log()
    assert spark_cluster.run_program(_DELIVERS, replicated.publisher.url) == [[SOME, None]]
    replicated.require_equal("orders")


@pytest.mark.exhaustive
def test_a_killed_executors_tasks_run_again(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, str(logged.lake))
    insert(logged, MANY)
    run = spark_cluster.start(*spark_cluster.command("cdc", "run", "--once", "--engine", "spark", "--db", logged.url))
    os.kill(spark_cluster.await_busy_executor(), signal.SIGKILL)
    _, errors = run.communicate(timeout=300)
    assert run.returncode == 0, errors.decode()
    require_once(str(logged.lake), MANY)
    require_converted_by_spark(logged)


@pytest.mark.exhaustive
def test_a_killed_driver_leaves_nothing_in_part(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, str(logged.lake))
    insert(logged, MANY)
    command = spark_cluster.command("cdc", "run", "--once", "--engine", "spark", "--db", logged.url)
    killed = spark_cluster.start(*command)
    spark_cluster.await_busy_executor()
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    spark_cluster.await_no_executor()
    spark_cluster.run(*command)
    require_once(str(logged.lake), MANY)


@pytest.mark.exhaustive
def test_a_worker_whose_python_lacks_arrow_is_named(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, str(logged.lake))
    insert(logged, SOME)
    bare = {"PYSPARK_PYTHON": "/usr/bin/python3"}
    command = spark_cluster.command("cdc", "run", "--once", "--engine", "spark", "--db", logged.url)
    with pytest.raises(AssertionError, match="RT-1015: Python of Spark's executors has no module (pyarrow|numpy)"):
        spark_cluster.run(*command, **bare)


@pytest.mark.exhaustive
def test_lake_and_log_store_may_be_in_a_bucket(
    logged: LoggedDatabase, spark_cluster: SparkCluster, bucket: Bucket
) -> None:
    lake = f"{bucket.url}/lake"
    enable(logged, lake)
    insert(logged, SOME)
    place = f"{spark_cluster.environment['ROWTIDE_SPARK_CONF']} spark.master={spark_cluster.master}"
    environment = {**bucket.environment, "ROWTIDE_SPARK_CONF": place}
    spark_cluster.run("-m", "rowtide", "cdc", "run", "--once", "--engine", "spark", "--db", logged.url, **environment)
    require_once(lake, SOME)
    require_converted_by_spark(logged)
    logged.execute("delete from orders where id <= 10")
    spark_cluster.run("-m", "rowtide", "cdc", "run", "--once", "--db", logged.url, **environment)
    found = spark_cluster.run_program(_QUERIES, logged.url, lake, **bucket.environment)
    assert found["all"] == found["sql"] == found["batch"] == found["stream"] == [*range(1, SOME + 1), *range(1, 11)]
    assert found["net"] == list(range(11, SOME + 1))


_FOLLOWS = """
import json, sys, rowtide
from rowtide.cdc import CaptureOptions, EngineSetting
url, bucket, *places = sys.argv[1:]
database = rowtide.connect(url)
spark = database.targets.make_spark()
database.cdc.run(once=True, options=CaptureOptions(EngineSetting.SPARK), spark=spark)
rowtide.register_source(spark)
changes = spark.readStream.format("rowtide").option("instance", "public_orders").load(f"s3a://{bucket}/lake")
writer = changes.writeStream.format("delta").option("checkpointLocation", f"s3a://{bucket}/checkpoint")
found = None
for place in places:
    if place == "sink":
        writer.trigger(availableNow=True).start(f"s3a://{bucket}/sink").awaitTermination()
    else:
        database.targets.apply(place, spark=spark)
    if place == "iceberg":
        found = sorted(map(list, database.targets.read(place, "public_orders", spark=spark).collect()))
print(json.dumps(found))
"""
"""Captures, and follows in a bucket: targets, and the sink of a stream, in an order. Prints what only Spark reads."""
SINK = "sink"
PLACES = (*map(str, TargetFormat), SINK)


class FollowedBucket:
    """A lake, targets and a stream's sink in a bucket, which drivers on a cluster write."""

    def __init__(self, logged: LoggedDatabase, cluster: SparkCluster, bucket: Bucket) -> None:
        self.logged = logged
        self.cluster = cluster
        self.bucket = bucket
        self.lake = f"{bucket.url}/lake"
        enable(logged, self.lake)
        for form in TargetFormat:
            rowtide.connect(logged.url).targets.add(
                form, ["public_orders"], path=f"{bucket.url}/{form}", format=form, engine=ApplyEngine.SPARK
            )

    def start(self, *places: str) -> subprocess.Popen[bytes]:
        """Start a driver that writes to places in an order."""
        arguments = (self.logged.url, self.bucket.name, *places)
        return self.cluster.start_program(_FOLLOWS, *arguments, **self.bucket.environment)

    def kill_at_file_in(self, place: str, driver: subprocess.Popen[bytes], kill: Callable[[], None]) -> bool:
        """Kill once executors have written another data file to a place; return false if the driver ends before."""
        store = locate(f"{self.bucket.url}/{place}").store

        def count() -> int:
            return sum(path.endswith(".parquet") for path in store.list(""))

        before, deadline = count(), time.monotonic() + DRIVER_S
        # It may write to all the other places before.
        while count() <= before and driver.poll() is None:
            if time.monotonic() >= deadline:
                raise AssertionError(f"executors do not write to {place}: {self._end(driver)}")
            time.sleep(0.1)
        if driver.poll() is not None:
            return False
        kill()
        return True

    def kill(self, driver: subprocess.Popen[bytes]) -> None:
        """Kill a driver with its executors."""
        os.killpg(driver.pid, signal.SIGKILL)
        self.cluster.kill_executors()
        driver.communicate()

    def _end(self, driver: subprocess.Popen[bytes]) -> str:
        """Kill a driver that does not end; return its messages."""
        os.killpg(driver.pid, signal.SIGKILL)
        return driver.communicate()[1].decode()

    def require_equal(self, driver: subprocess.Popen[bytes], *places: str) -> None:
        """Require that a driver succeeds, and places equal the source then; the sink has each change once."""
        try:
            printed, errors = driver.communicate(timeout=DRIVER_S)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"the driver goes on: {self._end(driver)}") from error
        assert driver.returncode == 0, errors.decode()
        for place in places:
            if place == SINK:
                every = rowtide.open_lake(self.lake).get_all_changes("public_orders").to_arrow().read_all()
                assert sorted(map(repr, self._read(SINK))) == sorted(map(repr, every.to_pylist()))
            else:
                is_delta = place == TargetFormat.DELTA
                rows = map(dict.values, self._read("delta/public_orders")) if is_delta else json.loads(printed)
                assert sorted(map(tuple, rows)) == sorted(self.logged.execute("select * from orders"))

    def _read(self, place: str) -> list[dict[str, Any]]:
        table = open_snapshot(locate(f"{self.bucket.url}/{place}"))
        assert table is not None
        return table.read().to_pylist()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("follows_a_killed_driver", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_killed_in_the_middle_executors_write_to_a_bucket(
    logged: LoggedDatabase,
    spark_cluster: SparkCluster,
    bucket: Bucket,
    place: str,
    follows_a_killed_driver: bool,  # noqa: FBT001
) -> None:
    followed = FollowedBucket(logged, spark_cluster, bucket)
    insert(logged, SOME)
    if follows_a_killed_driver:
        killed = followed.start(place)
        followed.kill_at_file_in(place, killed, lambda: followed.kill(killed))
    driver = followed.start(place)
    followed.kill_at_file_in(place, driver, spark_cluster.kill_executor)
    followed.require_equal(driver, place)
    require_converted_by_spark(logged)


@pytest.mark.exhaustive
@pytest.mark.timeout(HISTORY_S)
@pytest.mark.parametrize("seed", range(3))
def test_a_bucket_follows_through_kills_of_all_kinds(
    logged: LoggedDatabase, spark_cluster: SparkCluster, bucket: Bucket, seed: int
) -> None:
    chance = random.Random(seed)
    followed = FollowedBucket(logged, spark_cluster, bucket)
    for turn in range(6):
        logged.execute(
            f"insert into orders select i, {turn} from generate_series({turn * SOME + 1}, {(turn + 1) * SOME}) i",
            f"update orders set qty = qty + 10 where id % 6 = {chance.randrange(6)}",
            f"delete from orders where id % 11 = {chance.randrange(11)}",
        )
        driver = followed.start(*chance.sample(PLACES, len(PLACES)))
        kill_driver = partial(followed.kill, driver)
        kill = chance.choice((kill_driver, spark_cluster.kill_executor, spark_cluster.kill_worker))
        is_killed = followed.kill_at_file_in(chance.choice((*PLACES, "lake")), driver, kill)
        if not is_killed or kill != kill_driver:
            followed.require_equal(driver, *PLACES)
        spark_cluster.replace_workers()
    followed.require_equal(followed.start(*PLACES), *PLACES)
