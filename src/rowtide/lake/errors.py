"""The lake's errors: 3xxx, with those of Delta tables, and 10xx for Java."""

from __future__ import annotations

from rowtide.core.errors import RowtideError, numbered


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
    hint = "At the first start it fetches the Delta jars from Maven Central: check the network, or spark.jars.packages."
    reason: str


@numbered
class LakeNotWritable(RowtideError):
    """The lake's folder is not writable."""

    number = 3101
    fact = "the lake {path} is not writable: {reason}"
    hint = "With --lake, give a folder to which this user may write."
    path: str
    reason: str


@numbered
class SparkLost(RowtideError):
    """Spark's JVM, or the connection to it, was lost; Python cannot start another one in the same process."""

    number = 3105
    fact = "Spark ended in the middle of the work: {reason}"
    hint = "It was killed, or ran out of memory. Run the command again: it continues where it stopped."
    reason: str
