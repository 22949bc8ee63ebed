"""The SparkSession: a user's own is taken where given, and used with pinned settings; else one is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.core.errors import ExtraMissing
from rowtide.lake.errors import JavaMissing, SparkNotStarted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DELTA_PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
NEEDED_JAVA = 17

PINNED_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.maxPartitionBytes": str(32 * 1024 * 1024),
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.databricks.delta.stats.collect": "true",
}
"""Session settings that results or plans depend on, whatever the user's session says."""


def build_session(*, cores: int | None = None, memory: str = "1g") -> SparkSession:
    """Build a local session with Delta. Raises `JavaMissing`, `ExtraMissing`, `SparkNotStarted`."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ExtraMissing("pyspark", "spark") from error
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{cores or '*'}]").appName("rowtide")
    for name, value in {**_local_settings(memory), **PINNED_SETTINGS}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkNotStarted(" ".join(str(error).split())) from error


def pinned(spark: SparkSession) -> SparkSession:
    """Return a session of the same application with rowtide's settings, leaving the user's alone."""
    session = spark.newSession()
    for name, value in PINNED_SETTINGS.items():
        session.conf.set(name, value)
    return session


def require_java() -> None:
    """Raise `JavaMissing` unless a Java of the needed version would be started."""
    java = _java_path()
    if java is None:
        raise JavaMissing(NEEDED_JAVA, "there is no `java` on the PATH and JAVA_HOME is not set")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise JavaMissing(NEEDED_JAVA, f"{java} does not run") from error
    version = re.search(r'version "(\d+)', answer)
    if version is None or int(version[1]) < NEEDED_JAVA:
        raise JavaMissing(NEEDED_JAVA, f"{java} is {' '.join(answer.split()[:3])}")


def _java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")


def _local_settings(memory: str) -> dict[str, str]:
    return {
        "spark.jars.packages": DELTA_PACKAGE,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
