"""The Java classes with which the lake is written, looked up once; and ways to use py4j efficiently.

In py4j each part of a dotted name costs a call to the JVM, which first fails to load a class of that name; and the end
of an iteration is a Java exception, for which PySpark makes a dozen calls. Both would cost milliseconds in each commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession


class JavaClasses:
    """The classes of one JVM, by name; `write` is Delta Kernel's operation WRITE."""

    def __init__(self, jvm: Any) -> None:
        kernel = jvm.io.delta.kernel
        internal = kernel.internal
        self.array_list = jvm.java.util.ArrayList
        self.hash_map = jvm.java.util.HashMap
        self.path = jvm.org.apache.hadoop.fs.Path
        self.io_utils = jvm.org.apache.commons.io.IOUtils
        self.default_engine = kernel.defaults.engine.DefaultEngine
        self.table = kernel.Table
        self.transaction = kernel.Transaction
        self.write = kernel.Operation.WRITE
        self.closeable_iterable = kernel.utils.CloseableIterable
        self.data_file_status = kernel.utils.DataFileStatus
        self.data_file_statistics = kernel.statistics.DataFileStatistics
        self.struct_type = kernel.types.StructType
        self.whole_numbers = {"long": kernel.types.LongType.LONG, "integer": kernel.types.IntegerType.INTEGER}
        self.column = kernel.expressions.Column
        self.literal = kernel.expressions.Literal
        self.predicate = kernel.expressions.Predicate
        self.type_json = internal.types.DataTypeJsonSerDe
        self.scan_file = internal.InternalScanFileUtils
        self.log_stores = kernel.defaults.internal.logstore.LogStoreProvider
        self.iterators = internal.util.Utils


@lru_cache(maxsize=1)
def _classes_of(jvm: Any) -> JavaClasses:
    return JavaClasses(jvm)


def java_classes(spark: SparkSession) -> JavaClasses:
    """Return the classes of a session's JVM."""
    session: Any = spark
    return _classes_of(session._jvm)  # noqa: SLF001 - PySpark has no public way to the JVM


def items(java_list: JavaObject) -> list[Any]:
    """Return the items of a Java list."""
    return [java_list.get(place) for place in range(java_list.size())]


def iterate(iterator: JavaObject) -> Iterator[Any]:
    """Yield the items of a Java iterator."""
    while iterator.hasNext():
        yield iterator.next()


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
