"""A store in a folder of a Hadoop file system, as Spark reaches it: object storage, HDFS.

What is put if absent is put by Delta's own log store for the file system, which keeps apart the writers of one JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rowtide.core.arrow import owned_by_arrow
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.lake.files import Files
from rowtide.lake.java import describe, java_classes
from rowtide.lake.session import spark_watched
from rowtide.storage.local import reason_of
from rowtide.storage.store import Missing

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import SparkSession


class HadoopFolder:
    """A folder by its URL, reached by a session's JVM."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        session: Any = spark
        self._root = root.rstrip("/")
        self._classes = java_classes(spark)
        self._hadoop = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - no public way
        self._files = Files(self._classes, self._hadoop)

    def put_durable(self, path: str, data: bytes) -> None:
        with self._writing(path):
            self._files.write(self.url(path), data)

    def write_durable(self, path: str, write: Callable[[pa.NativeFile], object]) -> int:
        sink = pa.BufferOutputStream()
        write(sink)
        data = sink.getvalue()
        self.put_durable(path, data.to_pybytes())
        return data.size

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._writing(path):
            return self._files.write_lines(self.url(path), data.decode().splitlines())

    def get(self, path: str) -> bytes:
        with self._reading(path):
            return self._files.read(self.url(path))

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(owned_by_arrow(self.get(path)))

    def list(self, prefix: str, *, after: str = "") -> Sequence[str]:
        folder = prefix.rpartition("/")[0]
        with self._reading(prefix):
            paths = [f"{folder}/{name}" if folder else name for name in self._files.walk(self.url(folder))]
        return sorted(path for path in paths if path.startswith(prefix) and path > after)

    def delete(self, path: str) -> None:
        with self._writing(path):
            self._files.delete(self.url(path))

    def list_older(self, before: datetime) -> Sequence[str]:
        with self._reading(""):
            files = self._files.walk(self._root, older_than_ms=int(before.timestamp() * 1000))
            return sorted(files)

    def sweep(self, before: datetime) -> None:
        """Files have no temporary names here; folders are left to the storage, most kinds of which have none."""

    def url(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            with spark_watched():
                yield
        except FileNotFoundError:
            raise Missing(path) from None
        except OSError as error:
            raise LakeReadFailed(self.url(path), reason_of(error)) from error
        except Py4JJavaError as error:
            if _is_missing(error):
                raise Missing(path) from None
            raise LakeReadFailed(self.url(path), describe(error)) from error

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        from py4j.protocol import Py4JJavaError

        try:
            with spark_watched():
                yield
        except Py4JJavaError as error:
            raise LakeWriteFailed(self.url(path), describe(error)) from error


def _is_missing(error: Py4JJavaError) -> bool:
    return bool(error.java_exception.getClass().getName() == "java.io.FileNotFoundException")
