"""Incremental Spark DataFrames: changes of one database, or of a folder of device files, since the last call."""

from rowtide.tracking.spark.frames import ChangeFrames, read_changes

__all__ = ["ChangeFrames", "read_changes"]
