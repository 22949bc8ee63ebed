"""SQL Server's query functions in a Spark session: `rowtide.register(spark, lake)`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from rowtide.cdc.instances import Instance
from rowtide.cdc.lake_tables import base_table_path
from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.cdc.queries.sql_functions import sql_functions
from rowtide.cdc.queries.table_functions import SqlFunction
from rowtide.delta.formats import IDENTITY
from rowtide.delta.snapshot import open_snapshot
from rowtide.lake.session import require_reachable
from rowtide.lake.spark.failures import lack_named
from rowtide.lake.stores import locate
from rowtide.lake.tables import host_name
from rowtide.storage.object_urls import spark_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = 4
"""Instances: to create a function, Spark asks the storage for each table that it reads."""


def register(spark: SparkSession, lake: str) -> tuple[str, ...]:
    """Create the functions of a lake's enabled instances as temporary functions of a session; return their names.

    Call again for instances that are enabled later. Raises `LakeUnknown`, `StorageNotShared`.
    """
    require_reachable(lake)
    instances = [recorded.instance for recorded in PublishedLake(lake).list_recorded_instances()]
    copied = [one.member_id for one in instances if _has_base(lake, one)]
    scalar, of_instances = sql_functions(spark_url(lake, os.environ), instances, host_name(), copied)
    create = partial(_create, spark)
    with lack_named():
        # Alone: the first one to read a table prepares Spark for all.
        create(scalar)
        with ThreadPoolExecutor(_AT_ONCE, "rowtide-register") as pool:
            list(pool.map(create, of_instances))
    return tuple(function.name for functions in (scalar, *of_instances) for function in functions)


def _create(spark: SparkSession, functions: Sequence[SqlFunction]) -> None:
    for function in functions:
        spark.sql(function.statement)


def _has_base(lake: str, instance: Instance) -> bool:
    snapshot = open_snapshot(locate(base_table_path(lake, instance.capture_instance)))
    return snapshot is not None and snapshot.properties.get(IDENTITY) == instance.member_id
