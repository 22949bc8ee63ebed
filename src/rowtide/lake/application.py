"""Starting a Spark application: its settings are gathered, its JVM started, and the package sent to its executors.

The package is sent as a zip, which executors put on Python's path: so they run the driver's version, whether or not
rowtide is installed there. That takes 0.1 s and 1 MB. Its dependencies have compiled parts and have to be installed.
No jars are added to a JVM that already runs (spark-submit, a session of the user's), whose class path is fixed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowtide.lake.errors import SparkNotStarted
from rowtide.lake.jars import (
    JARS,
    Library,
    ResolvedJars,
    describe,
    find_hadoop_version,
    find_libraries,
    jar_settings,
)
from rowtide.lake.jvm import (
    connect_submitted,
    find_spark_home,
    interrupts_kept,
    is_submitted,
    launch_jvm,
    list_installed,
    list_jars,
    read_asked,
    read_given,
    read_submitted,
)
from rowtide.lake.spark_settings import (
    MASTER,
    USUAL_MASTER,
    SparkRequest,
    is_local,
    settle,
)
from rowtide.storage.places import hadoop_settings

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway
    from pyspark import SparkConf, SparkContext

_PACKAGE = Path(__file__).parents[1]


def ship_package(context: SparkContext) -> None:
    """Give the package to an application's executors; the file is there as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="rowtide-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    context.addPyFile(str(zip_package(folder / "rowtide.zip")))


def zip_package(file: Path) -> Path:
    """Write the package's modules into a zip; return it."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(_PACKAGE.rglob("*.py")):
            archive.write(module, module.relative_to(_PACKAGE.parent))
    return file


_PYTHON = "spark.pyspark.python"
_PYTHON_VARIABLE = "PYSPARK_PYTHON"


def start_application(request: SparkRequest, lakes: Sequence[str], formats: Sequence[Library] = ()) -> None:
    """Start this process's application, which is to read some lakes, and tables of further formats.

    Raises `SparkNotStarted`, `SparkSettingInvalid`.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext

    home = find_spark_home(os.environ)
    asked = {**read_asked(os.environ), **request.settings()}
    gateway: JavaGateway | None = None
    resolved, recalled = None, None
    if is_submitted():
        # Its JVM runs: nothing can be added to its class path.
        gateway = connect_submitted()
        given, lists = read_submitted(gateway), dict[str, str]()
    else:
        given = read_given(os.environ, home)
        installed = list_installed(home)
        libraries = find_libraries(lakes, find_hadoop_version(installed), formats)
        lists = jar_settings(libraries, {**given, **asked}, installed, list_jars(os.environ))
        resolved = ResolvedJars.of(lists, {**given, **asked}, os.environ)
        recalled = resolved.recall(installed) if resolved is not None else None
        lists = recalled or lists
    settings = settle(asked, given, lists, storage_settings(lakes))
    _choose_python({**given, **asked})
    application: SparkConf = SparkConf().setAll(list(settings.items()))
    with interrupts_kept():
        try:
            context = SparkContext(conf=application, gateway=gateway or launch_jvm(settings))
        except Py4JJavaError as error:
            raise SparkNotStarted(describe(error)) from error
    if resolved is not None and recalled is None:
        resolved.remember(context.getConf().get(JARS) or "")
    _omit_checksums(context)
    if not is_local(str(context.master)):
        ship_package(context)


def _omit_checksums(context: SparkContext) -> None:
    """Let the driver neither write nor read checksums beside files on a disk.

    Parquet's pages have their own, and what rowtide writes without Spark, over Spark's files too, has none.
    """
    spark: Any = context
    java = spark._jvm  # noqa: SLF001 - no public way
    disk = java.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    disk.setWriteChecksum(False)
    disk.setVerifyChecksum(False)


def _choose_python(chosen: Mapping[str, str]) -> None:
    """Run tasks with the user's choice of Python; by default, where all run on this machine, with this one."""
    if _PYTHON in chosen:
        os.environ.setdefault(_PYTHON_VARIABLE, chosen[_PYTHON])
    elif is_local(chosen.get(MASTER, USUAL_MASTER)):
        os.environ.setdefault(_PYTHON_VARIABLE, sys.executable)


def storage_settings(lakes: Sequence[str]) -> dict[str, str]:
    """Return the Hadoop settings with which Spark reaches some lakes, by this process's environment."""
    return {name: value for lake in lakes for name, value in hadoop_settings(lake, os.environ).items()}
