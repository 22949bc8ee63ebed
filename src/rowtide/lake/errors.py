"""The lake's errors: 3xxx, and 10xx for Java."""

from __future__ import annotations

from rowtide.core.errors import Retryable, RowtideError, numbered


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
    hint = "Give a folder that this user may write, with --lake."
    path: str
    reason: str


@numbered
class AppendNotFound(RowtideError):
    """An append was ignored as a repeat, but the table does not have the rows."""

    number = 3102
    fact = "table {path} does not show the rows of cycle {cycle} after they were appended"
    hint = "Another process writes this lake, or the table was restored: stop it, then run `rowtide cdc reinitialize`."
    path: str
    cycle: int


@numbered
class LakeWriteFailed(Retryable):
    """Spark or the storage failed while writing."""

    number = 3103
    fact = "writing {path} failed: {reason}"
    hint = "Check the storage (full? reachable?); it is tried again by itself."
    path: str
    reason: str


@numbered
class LakeReadFailed(Retryable):
    """The storage failed while reading, or a table's log is damaged."""

    number = 3104
    fact = "reading {path} failed: {reason}"
    hint = "Check the storage (reachable? files removed by others?); capture tries again by itself."
    path: str
    reason: str


@numbered
class SparkLost(RowtideError):
    """Spark's JVM, or the connection to it, was lost; Python cannot start another one in the same process."""

    number = 3105
    fact = "Spark ended in the middle of the work: {reason}"
    hint = "Killed by somebody, or for want of memory? Run the command again: it goes on where it stopped."
    reason: str


@numbered
class SparkFailed(RowtideError):
    """A Spark job failed."""

    number = 3110
    fact = "Spark could not do the work: {reason}"
    hint = "Free memory, or space in the temporary folder (TMPDIR); a smaller range (--from, --to) takes less of both."
    reason: str
