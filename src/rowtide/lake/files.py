"""Files of the lake's storage, of any kind, accessed through Hadoop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

    from rowtide.lake.java import JavaClasses

_BYTES_AS_LETTERS = "ISO-8859-1"
_LOCAL = "file:"
"""Schemes of local files: the JVM runs on this machine, so these are read directly."""


class Files:
    """Reads, writes and lists small files.

    Failures are raised as `Py4JJavaError`, and as `OSError` for local files.
    """

    def __init__(self, classes: JavaClasses, hadoop: JavaObject) -> None:
        self._classes = classes
        self._hadoop = hadoop

    def write(self, place: str, data: bytes) -> None:
        """Write a file, replacing one of that name."""
        path, files = self._find(place)
        stream = files.create(path, True)  # noqa: FBT003 - Java has no named arguments
        try:
            stream.write(bytearray(data))
        finally:
            stream.close()

    def write_lines(self, place: str, lines: Sequence[str]) -> bool:
        """Write a new file as Delta writes its log; return False if there is one."""
        from py4j.protocol import Py4JJavaError

        path, files = self._find(place)
        files.mkdirs(path.getParent())
        written = self._classes.array_list()
        for line in lines:
            written.add(line)
        scheme = path.toUri().getScheme() or "file"
        store = self._classes.log_stores.getLogStore(self._hadoop, scheme)
        try:
            store.write(path, written.iterator(), False, self._hadoop)  # noqa: FBT003 - Java has no named arguments
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "FileAlreadyExistsException":
                return False
            raise
        return True

    def walk(self, folder: str, *, older_than_ms: int | None = None) -> Iterator[str]:
        """Yield the paths of all files in a folder, relative to it, or of those last written before a time; nothing if
        it is missing.
        """
        path, files = self._find(folder)
        if not files.exists(path):
            return
        for found in files.listStatus(path):
            name = found.getPath().getName()
            if found.isDirectory():
                below = self.walk(f"{folder}/{name}", older_than_ms=older_than_ms)
                yield from (f"{name}/{path}" for path in below)
            elif older_than_ms is None or found.getModificationTime() < older_than_ms:
                yield name

    def read(self, place: str) -> bytes:
        """Return a file's content."""
        if place.startswith(_LOCAL):
            with open(place.removeprefix(_LOCAL), "rb") as file:
                return file.read()
        path, files = self._find(place)
        stream = files.open(path)
        try:
            # As a text with a letter for each byte: py4j would take an array of bytes apart in Python, byte by byte.
            return str(self._classes.io_utils.toString(stream, _BYTES_AS_LETTERS)).encode(_BYTES_AS_LETTERS)
        finally:
            stream.close()

    def delete(self, place: str) -> None:
        """Delete a file if it exists."""
        path, files = self._find(place)
        files.delete(path, False)  # noqa: FBT003 - Java has no named arguments

    def _find(self, place: str) -> tuple[JavaObject, Any]:
        path = self._classes.path(place)
        return path, path.getFileSystem(self._hadoop)
