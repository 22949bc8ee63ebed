"""SQL Server's query functions in a Spark session: `rowtide.register(spark, lake)`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rowtide.cdc.queries.published_lake import PublishedLake
from rowtide.cdc.queries.sql_functions import sql_functions
from rowtide.lake.session import require_reachable
from rowtide.lake.spark.failures import lack_named
from rowtide.lake.tables import host_name
from rowtide.storage.object_urls import spark_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, lake: str) -> tuple[str, ...]:
    """Create the functions of a lake's enabled instances as temporary functions of a session; return their names.

    Call again for instances that are enabled later. Raises `LakeUnknown`, `StorageNotShared`.
    """
    require_reachable(lake)
    instances = [recorded.instance for recorded in PublishedLake(lake).list_recorded_instances()]
    functions = tuple(sql_functions(spark_url(lake, os.environ), instances, host_name()))
    with lack_named():
        for function in functions:
            spark.sql(function.statement)
    return tuple(function.name for function in functions)
