"""Incremental DataFrames for Spark: what changed in one database, or in a folder of device files, since last time."""

from rowtide.tracking.spark.frames import ChangeFrames, read_changes

__all__ = ["ChangeFrames", "read_changes"]
