"""The Java classes that the lake is written with, looked up once; and what makes py4j quick.

Through py4j each part of a dotted name is a question to the JVM, which first looks for a class of that name and fails;
and the end of an iteration is a Java exception, for which PySpark asks a dozen questions. Both cost milliseconds,
in each commit anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


class JavaClasses:
    """The classes of one JVM, by their own names; `write` is the kernel's operation of that name."""

    def __init__(self, jvm: Any) -> None:
        kernel = jvm.io.delta.kernel
        internal = kernel.internal
        self.array_list = jvm.java.util.ArrayList
        self.hash_map = jvm.java.util.HashMap
        self.path = jvm.org.apache.hadoop.fs.Path
        self.io_utils = jvm.org.apache.commons.io.IOUtils
        self.default_engine = kernel.defaults.engine.DefaultEngine
        self.table = kernel.Table
        self.table_manager = kernel.TableManager
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
        self.iterators = internal.util.Utils


@lru_cache(maxsize=1)
def _classes_of(jvm: Any) -> JavaClasses:
    return JavaClasses(jvm)


def java_classes(spark: SparkSession) -> JavaClasses:
    """Return the classes of a session's JVM."""
    session: Any = spark
    return _classes_of(session._jvm)  # noqa: SLF001 - PySpark has no public way to the JVM


def items(java_list: JavaObject) -> list[Any]:
    """Return what a Java list holds."""
    return [java_list.get(place) for place in range(java_list.size())]


def iterate(iterator: JavaObject) -> Iterator[Any]:
    """Yield what a Java iterator gives."""
    while iterator.hasNext():
        yield iterator.next()
