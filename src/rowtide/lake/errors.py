"""The lake's errors: 3xxx, with those of Delta tables, and 10xx for Java."""

from __future__ import annotations

from rowtide.core.errors import Denied, Invalid, NotFound, Remedy, RowtideError
from rowtide.core.redaction import Said


class JavaMissing(RowtideError, number=1002):
    """Spark needs a Java virtual machine."""

    fact = "Java {needed} or newer is needed by Spark: {found}"
    hint = "Install a JDK or JRE (Debian: `apt-get install openjdk-17-jre-headless`), or set JAVA_HOME."
    needed: int
    found: str


class SparkNotStarted(RowtideError, number=1004):
    """Spark's own start failed."""

    fact = "Spark did not start: {reason}"
    hint = """Check the master's URL and the settings. At the first start jars are fetched from Maven Central; where
        that cannot be reached, ROWTIDE_JARS names a folder of jars."""
    reason: str


class SparkSettingInvalid(Invalid, number=1012):
    """A setting for Spark cannot be read."""

    fact = "{text} cannot be read as settings of Spark: {reason}"
    hint = "Write spark.NAME=VALUE; in ROWTIDE_SPARK_CONF separated by spaces, and quoted as in a shell."
    text: str
    reason: str


class SparkRunning(Denied, number=1013):
    """This process has a Spark application with another master; Spark allows one for each process."""

    fact = "this process has a Spark application on {running}, and {wanted} was asked for"
    hint = "Stop that session first, or omit --master."
    running: str
    wanted: str


class JarMissing(NotFound, number=1014):
    """Spark lacks the jar of a library with which it reads or writes."""

    fact = "Spark has no class {class_name}, of the package {package}"
    hint = """Give Spark the package: `--spark-conf spark.jars.packages={package}`, --packages of spark-submit, or a
        folder of jars in ROWTIDE_JARS (docs/how-to/spark-clusters.md)."""
    class_name: str
    package: str


class WorkerModuleMissing(NotFound, number=1015):
    """Python of Spark's executors lacks a module."""

    fact = "Python of Spark's executors has no module {module}"
    hint = "Install rowtide there with the driver's extras, and set spark.pyspark.python or PYSPARK_PYTHON to it."
    module: str


class LakeNotWritable(RowtideError, number=3101):
    """The lake's folder is not writable."""

    fact = "the lake {path} is not writable: {reason}"
    hint = "Give a folder to which this user may write."
    path: str
    reason: str


class LakeNested(Invalid, number=3112):
    """A lake would be inside another one: what deletes the one's files would delete the other's."""

    fact = "{place} cannot be a lake or a log store: it is {reason}"
    hint = "Put lakes beside each other: any number of folders of one bucket or disk, none inside another."
    place: str
    reason: str


class SparkLost(RowtideError, number=3105):
    """Spark's JVM, or the connection to it, was lost; Python cannot start another one in the same process."""

    fact = "Spark ended in the middle of the work: {reason}"
    hint = "It was killed, or ran out of memory. Run the command again: it continues where it stopped."
    remedy = Remedy.RESTART
    reason: Said


class StorageNotShared(Denied, number=3111):
    """Tasks on other machines would read and write what is on the driver's disk."""

    fact = "{place} is on a local disk, and Spark's master {master} runs tasks on other machines"
    hint = """If all of them have it under the same path (NFS), say --shared-storage, or set ROWTIDE_SHARED_STORAGE=1 or
        spark.rowtide.sharedStorage=true; otherwise use a bucket, or --master 'local[*]'."""
    place: str
    master: str
