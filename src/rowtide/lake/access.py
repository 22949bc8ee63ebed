"""Permissions of a lake's files on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.databases.file_access import mask_of
from rowtide.lake.paths import local_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASK = "fs.permissions.umask-mode"


def follow_place(spark: SparkSession, lake: str) -> None:
    """Let a session write files with the permissions of the lake's folder; other storage has its own rules.

    In a session that rowtide did not build, Spark's own setting applies to data files.
    """
    folder = local_folder(lake)
    if folder is not None:
        spark.conf.set(_MASK, f"{mask_of(folder):03o}")
