"""Spark on a standalone cluster of two workers, each in a process of its own, on one disk."""

from __future__ import annotations

import rowtide
from builders.captured_databases import LoggedDatabase
from fixtures.spark_clusters import SparkCluster

ORDERS = "create table orders (id int primary key, qty int)"


def enable(logged: LoggedDatabase, *statements: str) -> None:
    logged.execute(*statements)
    logged.cdc.enable_db(str(logged.lake))
    logged.cdc.enable_table("public.orders")


def read_ids(logged: LoggedDatabase) -> list[int | None]:
    return rowtide.open_lake(str(logged.lake)).get_all_changes("public_orders").to_arrow().read_all()["id"].to_pylist()


def test_workers_convert_a_range_of_the_log(logged: LoggedDatabase, spark_cluster: SparkCluster) -> None:
    enable(logged, ORDERS)
    logged.execute("insert into orders select i, i from generate_series(1, 5000) i")
    spark_cluster.rowtide("cdc", "run", "--once", "--engine", "spark", "--db", logged.url)
    assert read_ids(logged) == list(range(1, 5001))
    assert {session.engine for session in logged.cdc.list_scan_sessions() if session.command_count} == {"spark"}
