"""The Java classes with which files are reached through Spark, looked up once.

In py4j each part of a dotted name costs a call to the JVM, which first fails to load a class of that name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession


class JavaClasses:
    """The classes of one JVM, by name."""

    def __init__(self, jvm: Any) -> None:
        self.array_list = jvm.java.util.ArrayList
        self.path = jvm.org.apache.hadoop.fs.Path
        self.io_utils = jvm.org.apache.commons.io.IOUtils
        self.log_stores = jvm.io.delta.kernel.defaults.internal.logstore.LogStoreProvider


@lru_cache(maxsize=1)
def _classes_of(jvm: Any) -> JavaClasses:
    return JavaClasses(jvm)


def java_classes(spark: SparkSession) -> JavaClasses:
    """Return the classes of a session's JVM."""
    session: Any = spark
    return _classes_of(session._jvm)  # noqa: SLF001 - PySpark has no public way to the JVM


def describe(error: Py4JJavaError) -> str:
    """Return the first line of an error's message, and of its root cause if that says more.

    Without Java class names.
    """
    said = _first_line(error.java_exception)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    reason = _first_line(cause)
    return said if reason in said else f"{said} ({reason})"


def _first_line(exception: JavaObject) -> str:
    return str(exception.getMessage() or exception.toString()).strip().splitlines()[0]
