"""What errors of Spark and its JVM say, and what Spark lacks by them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rowtide.core.errors import RowtideError
from rowtide.lake.errors import JarMissing, WorkerModuleMissing
from rowtide.lake.spark.jars import DELTA, ICEBERG, USUAL_HADOOP, Library, azure_library, gcs_library, s3_library

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JJavaError


_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_CLASS = re.compile(
    r"(?:ClassNotFoundException|NoClassDefFoundError|Cannot find catalog plugin class for catalog \S+:)"
    r"\W+(?:Class )?([\w.$/]+)"
)
_SCHEME = re.compile(r"No FileSystem for scheme:? \"?(\w+)")
_NO_DELTA = re.compile(r"(?:DATA_SOURCE_NOT_FOUND|Failed to find the data source).*\bdelta\b", re.IGNORECASE)

_S3, _GCS, _AZURE = s3_library(USUAL_HADOOP), gcs_library(USUAL_HADOOP), azure_library(USUAL_HADOOP)
_BY_PREFIX = {
    "io.delta.": DELTA,
    "org.apache.spark.sql.delta.": DELTA,
    "org.apache.iceberg.": ICEBERG,
    "org.apache.hadoop.fs.s3a.": _S3,
    "software.amazon.awssdk.": _S3,
    "com.google.cloud.hadoop.": _GCS,
    "org.apache.hadoop.fs.azure": _AZURE,
}
_BY_SCHEME = {"s3": _S3, "s3a": _S3, "gs": _GCS, "abfs": _AZURE, "abfss": _AZURE}


def find_lack(text: str) -> RowtideError | None:
    """Return the error for a jar or a module that Spark lacks, if a failure says so."""
    module = _MODULE.search(text)
    if module is not None:
        return WorkerModuleMissing(module[1])
    found = _CLASS.search(text)
    if found is not None:
        name = found[1].replace("/", ".").rstrip(".")
        library = next((library for prefix, library in _BY_PREFIX.items() if name.startswith(prefix)), None)
        return _missing(library, name)
    scheme = _SCHEME.search(text)
    if scheme is not None:
        return _missing(_BY_SCHEME.get(scheme[1].lower()), None)
    return _missing(DELTA, None) if _NO_DELTA.search(text) else None


@contextmanager
def lack_named() -> Iterator[None]:
    """Raise the error for a jar or a module that Spark lacks in place of Spark's own."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        lack = find_lack(str(error))
        if lack is None:
            raise
        raise lack from error


def _missing(library: Library | None, class_name: str | None) -> JarMissing | None:
    return JarMissing(class_name or library.class_name, library.package) if library is not None else None


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
