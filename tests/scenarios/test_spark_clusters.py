"""Spark on a standalone cluster of two workers: drivers are processes, workers have one disk or one object store."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import rowtide
from builders.capture.captured_databases import LoggedDatabase
from builders.replication.replicated_databases import ReplicatedDatabase
from builders.servers.object_servers import Bucket
from builders.servers.spark_clusters import SparkCluster
from builders.tracking.device_files import Fleet

ORDERS = "create table orders (id int primary key, qty int)"
SOME, MANY = 5000, 60_000
PER_TRANSACTION = 5000


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


def test_workers_convert_a_range_of_the_log(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, str(logged.lake))
    insert(logged, SOME)
    spark_cluster.rowtide("cdc", "run", "--once", "--engine", "spark", "--db", logged.url)
    require_once(str(logged.lake), SOME)
    require_converted_by_spark(logged)


_CAPTURES_LARGE_RANGES = f"""
import sys, rowtide
from rowtide.cdc.capture import engines
engines.SPARK_ROWS = {SOME // 2}
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
from rowtide.replication.spark.backlogs import deliver_backlogs
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
