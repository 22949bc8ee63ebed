"""The settings of an application: what the user asked of rowtide, what Spark was given, rowtide's defaults.

The first beats the second, and both beat the last. What Spark is given has to be known before its JVM starts, hence by
Spark's own rules: a default of rowtide's that is passed to spark-submit would beat the user's spark-defaults.conf.

The number of tasks that an application runs at a time, by its settings. Pure but for this machine's own number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field

from rowtide.core.values import frozen
from rowtide.databases.file_access import PRIVATE

MASTER = "spark.master"
USUAL_MASTER = "local[*]"
SHARED_STORAGE = "spark.rowtide.sharedStorage"
"""Our own setting: the user declares that every worker has the driver's local folders under the same paths."""
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
EXTENSIONS = "spark.sql.extensions"
HADOOP = "spark.hadoop."
"""Begins the settings that are Hadoop's."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

PINNED_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # As they are: readers of the files without Spark would see days of the Julian calendar before 1582.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
"""Session settings on which results depend, whatever the user sets."""

SESSION_DEFAULTS = {
    SHUFFLE_PARTITIONS: "2",
    "spark.sql.files.maxPartitionBytes": str(32 * 1024 * 1024),
    # Change tables are many small files: a task each would cost more than reading them.
    "spark.sql.files.openCostInBytes": str(256 * 1024),
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.stats.collect": "true",
    # What compaction merges, and up to what size; a file that is large enough is not written again and again.
    "spark.databricks.delta.optimize.minFileSize": str(8 * 1024 * 1024),
    "spark.databricks.delta.optimize.maxFileSize": str(128 * 1024 * 1024),
    # Vacuum lists the smallest table in so many tasks: ten thousand of them take minutes.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # On a local disk: no second file beside each, with checksums that Parquet's pages have already. fs.file.impl stays
    # as it is: executors buffer uploads to S3 in a LocalFileSystem, and fail with any other class.
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""Session settings on which plans and sizes depend; the user's values beat them."""

_APPLICATION_DEFAULTS = {
    MASTER: USUAL_MASTER,
    "spark.app.name": "rowtide",
    "spark.driver.memory": "2g",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.hadoop.fs.permissions.umask-mode": f"{PRIVATE:03o}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Kept for the web interface that is not there: a thousand of each would be held in memory.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.log.level": "ERROR",
}
_ON_THIS_MACHINE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Defaults if all tasks run on this machine: nobody else reaches the driver."""

_DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
# A JVM that has no memory left answers some calls and never others.
_EXITS_WITHOUT_MEMORY = "-XX:+ExitOnOutOfMemoryError"

_LOCAL_MASTER = re.compile(r"local(-cluster)?(\[.*\])?")
_TRUE = frozenset({"true", "1", "yes", "on"})


@frozen
class SparkRequest:
    """What a command's options or a program ask of Spark."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    has_shared_storage: bool = False
    """The user declares that every worker has the driver's local folders under the same paths."""

    def settings(self) -> dict[str, str]:
        """Return the request as settings."""
        master = {MASTER: self.master} if self.master is not None else {}
        shared = {SHARED_STORAGE: "true"} if self.has_shared_storage else {}
        return {**self.conf, **master, **shared}


def is_local(master: str) -> bool:
    """Return whether a master runs all tasks on the driver's machine."""
    return _LOCAL_MASTER.fullmatch(master.replace(" ", "")) is not None


def is_true(value: str) -> bool:
    """Return whether a setting's value is one of those that mean yes."""
    return value.strip().lower() in _TRUE


def settle(
    asked: Mapping[str, str],
    given: Mapping[str, str],
    lists: Mapping[str, str],
    storage: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the settings to start an application with.

    `asked` is what the user asked of rowtide, `given` what Spark itself was given, which it reads without us; a setting
    that is in neither gets rowtide's default, or that of `storage`: how Hadoop reaches the lakes. `lists` are joined to
    the user's own, separated by commas. What results depend on is as it must be.
    """
    chosen = {**given, **asked}
    hadoop = {f"{HADOOP}{name}": value for name, value in (storage or {}).items()}
    defaults = {**SESSION_DEFAULTS, **_APPLICATION_DEFAULTS, **hadoop}
    if is_local(chosen.get(MASTER, USUAL_MASTER)):
        defaults |= _ON_THIS_MACHINE
    settled = {name: value for name, value in defaults.items() if name not in given} | dict(asked)
    for name, added in {**lists, EXTENSIONS: _DELTA_EXTENSION}.items():
        settled[name] = join_lists(chosen.get(name, ""), added)
    settled[_JAVA_OPTIONS] = f"{_EXITS_WITHOUT_MEMORY} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    return settled | PINNED_SETTINGS


def join_lists(first: str, second: str) -> str:
    """Join two lists separated by commas; each item is there once."""
    items = (item.strip() for items in (first, second) for item in items.split(","))
    return ",".join(dict.fromkeys(item for item in items if item))


_LOCAL = re.compile(r"local(?:\[(?P<threads>\*|\d+)(?:,.*)?\])?")
_UNKNOWN = 50
"""A cluster that says nothing: a quarter of Spark's 200 shuffle partitions."""


def count_cores(setting: Callable[[str], str | None]) -> int:
    """Return how many tasks an application runs at a time; `setting` returns a setting of Spark's, or None."""
    given = _as_number(setting("spark.default.parallelism"))
    if given:
        return given
    local = _LOCAL.fullmatch((setting("spark.master") or "").replace(" ", ""))
    if local is not None:
        threads = local["threads"] or "1"
        return int(threads) if threads.isdigit() else os.cpu_count() or 1
    executors = setting("spark.executor.instances") or setting("spark.dynamicAllocation.maxExecutors")
    return _as_number(executors) * (_as_number(setting("spark.executor.cores")) or 1) or _UNKNOWN


def _as_number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
