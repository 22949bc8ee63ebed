"""Transactions as capture publishes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transactions(spark: SparkSession, *lsns: int) -> DataFrame:
    """Return transactions that committed a second apart."""
    time = "timestamp_micros(start_lsn * 1000000L)"
    rows = spark.createDataFrame([(lsn,) for lsn in lsns], "start_lsn bigint")
    return rows.selectExpr("start_lsn", f"{time} as tran_commit_time", "7L as tran_id", f"{time} as tran_end_time")
