"""Registers the data source `rowtide` in a Spark session: `rowtide.register_source(spark)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.cdc.spark_source.sources import RowtideSource, collect_variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_source(spark: SparkSession) -> None:
    """Register the source for a session; it reaches object stores by this process's variables of now."""

    class RegisteredSource(RowtideSource):
        # Pickled by value, since it is of no module: so its variables reach Spark's processes.
        environment = collect_variables()

    spark.dataSource.register(RegisteredSource)
