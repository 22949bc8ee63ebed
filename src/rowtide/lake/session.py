"""The SparkSession: the user's own, with pinned settings, or a new one."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowtide.core.errors import ExtraMissing
from rowtide.databases.file_access import PRIVATE
from rowtide.lake.cores import count_cores
from rowtide.lake.errors import JavaMissing, SparkLost, SparkNotStarted

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

log = logging.getLogger("rowtide.lake")

DELTA_PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
NEEDED_JAVA = 17

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"

PINNED_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # As they are: readers of the files without Spark would see days of the Julian calendar before 1582.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
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
    # On a local disk: no second file beside each, with checksums that Parquet's pages have already.
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""Session settings on which results or plans depend, whatever the user's session sets."""

_PARTITIONS_PER_CORE = 4


def build_session(*, cores: int | None = None, memory: str | None = None) -> SparkSession:
    """Build a local session with Delta, or return this process's existing one.

    `memory` is the JVM's heap size, in Spark's syntax; None: SPARK_DRIVER_MEMORY, or 2g. The JVM's output is kept off
    the terminal unless rowtide logs at level INFO. Raises `JavaMissing`, `ExtraMissing`, `SparkNotStarted`.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ExtraMissing("pyspark", "spark") from error
    existing = SparkSession.getActiveSession()
    if existing is not None:
        return existing
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setMaster(f"local[{cores or '*'}]").setAppName("rowtide")
    conf.setAll(
        list({**_local_settings(memory or os.environ.get("SPARK_DRIVER_MEMORY") or "2g"), **PINNED_SETTINGS}.items())
    )
    with _interrupts_kept():
        SparkContext(conf=conf, gateway=_launch_jvm(conf))
    return SparkSession.builder.getOrCreate()


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keep the program's own handler of Ctrl-C: PySpark replaces any handler by its own."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    is_own = callable(handler) and handler is not signal.default_int_handler
    if is_own and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def pinned(spark: SparkSession) -> SparkSession:
    """Return a session of the same application with rowtide's settings; the user's session is unchanged."""
    session = _begin_session(spark)
    for name, value in PINNED_SETTINGS.items():
        session.conf.set(name, value)
    return session


def _begin_session(spark: SparkSession) -> SparkSession:
    """Return another session of the same application; over Spark Connect it has the given one's settings and names."""
    if hasattr(spark, "newSession"):
        return spark.newSession()
    # A server knows a session from its first request on.
    spark.conf.get(SHUFFLE_PARTITIONS)
    of_connect: Any = spark
    begun: SparkSession = of_connect.cloneSession()
    return begun


def for_reading(spark: SparkSession) -> SparkSession:
    """Return a `pinned` session for reading windows of any size.

    Its shuffles have enough partitions for all cores, small enough to be sorted in memory, and at least as many as the
    given session's; Spark coalesces small ones.
    """
    session = pinned(spark)
    given = spark.conf.get(SHUFFLE_PARTITIONS) or ""
    partitions = _PARTITIONS_PER_CORE * count_cores(lambda name: session.conf.get(name, None))
    session.conf.set(SHUFFLE_PARTITIONS, str(max(partitions, int(given) if given.isdigit() else 0)))
    return session


@contextmanager
def spark_watched() -> Iterator[None]:
    """Raise `SparkLost` for any error of a call whose JVM is gone."""
    try:
        from py4j.protocol import Py4JError
    except ImportError as error:
        raise ExtraMissing("pyspark", "spark") from error
    try:
        yield
    except (Py4JError, OSError) as error:
        if not _is_lost():
            raise
        raise SparkLost((str(error).strip() or type(error).__name__).splitlines()[0]) from error


@contextmanager
def spark_loss_named() -> Iterator[None]:
    """As `spark_watched`, for code that may never start Spark."""
    try:
        yield
    except Exception:
        if not _is_started():
            raise
        with spark_watched():
            raise


def _is_started() -> bool:
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return context is not None and context._active_spark_context is not None  # noqa: SLF001 - as below


def _is_lost() -> bool:
    """Return whether this process started Spark and it no longer answers."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    context = SparkContext._active_spark_context  # noqa: SLF001 - `getOrCreate` would start another
    if context is None:
        return False
    try:
        return not context.version
    except (AttributeError, Py4JError, OSError):
        return True


def require_java() -> None:
    """Raise `JavaMissing` unless a Java of the required version would be started."""
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


def _launch_jvm(conf: SparkConf) -> JavaGateway:
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    # Rows that Spark moves between stages lie in temporary files.
    private = {"umask": PRIVATE}
    if log.isEnabledFor(logging.INFO):
        return launch_gateway(conf, private)  # type: ignore[no-untyped-call]
    # Errors reach Python as exceptions; Python's side would print those with a query a second time.
    for name in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with tempfile.TemporaryFile() as output:
        try:
            return launch_gateway(conf, {"stdout": output, "stderr": output} | private)  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            output.seek(0)
            raise SparkNotStarted(_last_complaint(output.read().decode(errors="replace"))) from error


def _last_complaint(output: str) -> str:
    """Return the line of Spark's output that says why it failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    complaints = [line for line in lines if "unresolved dependency" in line or "Exception" in line or "Error" in line]
    return (complaints or lines or ["the JVM ended without a word"])[-1]


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
        # A JVM that has no memory left answers some calls and never others.
        "spark.driver.extraJavaOptions": "-XX:+ExitOnOutOfMemoryError",
        "spark.hadoop.fs.permissions.umask-mode": f"{PRIVATE:03o}",
        # As above, for what Spark itself writes.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Kept for the web interface that is not there: a thousand of each would be held in memory.
        "spark.ui.retainedJobs": "10",
        "spark.ui.retainedStages": "10",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.log.level": "ERROR",
    }
