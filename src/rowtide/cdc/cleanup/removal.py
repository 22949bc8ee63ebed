"""Removes one source's change data from a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.cdc.lake_tables import change_table_path, system_table_path
from rowtide.lake import tables
from rowtide.log.catalogue import SourceDefinition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SYSTEM_TABLES = ("lsn_time_mapping", "ddl_history", "instances", "cycles")


def empty_lake(spark: SparkSession, source: SourceDefinition) -> None:
    """Remove the rows of every change table and of the lake's system tables. Idempotent."""
    instances = system_table_path(source.lake, "instances")
    if tables.is_table(spark, instances):
        names = tables.read_table(spark, instances).select("capture_instance").distinct().collect()
        for row in names:
            tables.empty_table(spark, change_table_path(source.lake, row["capture_instance"]))
    for name in _SYSTEM_TABLES:
        tables.empty_table(spark, system_table_path(source.lake, name))
