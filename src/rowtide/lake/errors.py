"""The lake's errors: 3xxx, with those of Delta tables, and 10xx for Java."""

from __future__ import annotations

from rowtide.core.errors import Denied, Invalid, NotFound, RowtideError, numbered
from rowtide.core.row_values import Said


@numbered
class JavaMissing(RowtideError):
    """Spark needs a Java virtual machine."""

    number = 1002
    fact = "Java {needed} or newer is needed by Spark: {found}"
    hint = "Install a JDK or JRE (Debian: `apt-get install openjdk-17-jre-headless`), or set JAVA_HOME."
    needed: int
    found: str


@numbered
class SparkNotStarted(RowtideError):
    """Spark's own start failed."""

    number = 1004
    fact = "Spark did not start: {reason}"
    hint = (
        "Check the master's URL and the settings. At the first start jars are fetched from Maven Central; where that "
        "cannot be reached, ROWTIDE_JARS names a folder of jars."
    )
    reason: str


@numbered
class SparkSettingInvalid(Invalid):
    """A setting for Spark cannot be read."""

    number = 1012
    fact = "{text} cannot be read as settings of Spark: {reason}"
    hint = "Write spark.NAME=VALUE; in ROWTIDE_SPARK_CONF separated by spaces, and quoted as in a shell."
    text: str
    reason: str


@numbered
class SparkRunning(Denied):
    """This process has a Spark application with another master; Spark allows one for each process."""

    number = 1013
    fact = "this process has a Spark application on {running}, and {wanted} was asked for"
    hint = "Stop that session first, or leave out --master."
    running: str
    wanted: str


@numbered
class JarMissing(NotFound):
    """Spark lacks the jar of a library with which it reads or writes."""

    number = 1014
    fact = "Spark has no class {class_name}, of the package {package}"
    hint = (
        "Give Spark the package: `--spark-conf spark.jars.packages={package}`, --packages of spark-submit, or a folder "
        "of jars in ROWTIDE_JARS (docs/how-to/spark-clusters.md)."
    )
    class_name: str
    package: str


@numbered
class WorkerModuleMissing(NotFound):
    """Python of Spark's executors lacks a module."""

    number = 1015
    fact = "Python of Spark's executors has no module {module}"
    hint = "Install rowtide there with the driver's extras, and set spark.pyspark.python or PYSPARK_PYTHON to it."
    module: str


@numbered
class LakeNotWritable(RowtideError):
    """The lake's folder is not writable."""

    number = 3101
    fact = "the lake {path} is not writable: {reason}"
    hint = "Give a folder to which this user may write."
    path: str
    reason: str


@numbered
class LakeNested(Invalid):
    """A lake would be inside another one: what deletes the one's files would delete the other's."""

    number = 3112
    fact = "{place} cannot be a lake or a log store: it is {reason}"
    hint = "Put lakes beside each other: any number of folders of one bucket or disk, none inside another."
    place: str
    reason: str


@numbered
class SparkLost(RowtideError):
    """Spark's JVM, or the connection to it, was lost; Python cannot start another one in the same process."""

    number = 3105
    fact = "Spark ended in the middle of the work: {reason}"
    hint = "It was killed, or ran out of memory. Run the command again: it continues where it stopped."
    reason: Said


@numbered
class StorageNotShared(Denied):
    """Tasks on other machines would read and write what is on the driver's disk."""

    number = 3111
    fact = "{place} is on a local disk, and Spark's master {master} runs tasks on other machines"
    hint = (
        "If all of them have it under the same path (NFS), say --shared-storage, or set "
        "ROWTIDE_SHARED_STORAGE=1 or spark.rowtide.sharedStorage=true; otherwise use a bucket, or --master 'local[*]'."
    )
    place: str
    master: str
