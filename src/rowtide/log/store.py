"""Storage of the log store's files, behind the few operations that durability needs.

Paths are relative, with `/`. A file never changes once it has its name: readers see all of it or nothing, after a crash
at any point.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rowtide.core.places import local_path
from rowtide.databases.file_access import make_folder_in, make_place, mask_of
from rowtide.log.errors import (
    LogStoreNotWritable,
    LogStoreReadFailed,
    LogStoreSchemeUnsupported,
    LogStoreWriteFailed,
)

if TYPE_CHECKING:
    import pyarrow as pa

_TEMPORARY = ".tmp"
_TEMPORARY_MAX_AGE_S = 3600.0
_FULL = {errno.ENOSPC, errno.EDQUOT}


class Missing(KeyError):
    """No file of the store has this path."""


class Store(Protocol):
    """A flat space of immutable files."""

    def put_durable(self, path: str, data: bytes) -> None:
        """Make the file durable, replacing one of that name. Raises `LogStoreWriteFailed`."""

    def write_durable(self, path: str, write: Callable[[pa.NativeFile], object]) -> int:
        """Make a file durable that `write` writes incrementally, as `put_durable`; return its size. Raises
        `LogStoreWriteFailed`.
        """

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Make the file durable unless the name is taken; of concurrent callers one gets True.

        Raises `LogStoreWriteFailed`, after which the file may exist.
        """

    def get(self, path: str) -> bytes:
        """Return the file's bytes. Raises `Missing`, `LogStoreReadFailed`."""

    def open(self, path: str) -> pa.NativeFile:
        """Open the file for random access. Raises `Missing`, `LogStoreReadFailed`."""

    def list(self, prefix: str) -> Sequence[str]:
        """Return the paths that begin with the prefix, sorted."""

    def delete(self, path: str) -> None:
        """Delete the file if it exists. Raises `LogStoreWriteFailed`."""

    def url(self, path: str) -> str:
        """Return the URL by which Spark reads the file."""


def open_store(url: str) -> Store:
    """Open the store at a path or `file:` URL, which is taken literally (as Spark does: no %-escapes).

    Raises `LogStoreSchemeUnsupported`, `LogStoreNotWritable`.
    """
    path = local_path(url)
    if path is None:
        raise LogStoreSchemeUnsupported(url, url.partition(":")[0])
    return LocalStore(path)


class LocalStore:
    """A directory of a local file system with hard links and `fsync`; safe for many processes.

    New files are readable by those who may read the directory; a directory created here only by this user.
    """

    def __init__(self, root: str) -> None:
        """Create the directory if it is missing. Raises `LogStoreNotWritable`, and `LogStoreWriteFailed` on a full
        disk.
        """
        self._root = Path(root).absolute()
        self._temporaries = self._root / _TEMPORARY
        self._directories: set[Path] = set()
        try:
            if not self._root.is_dir():
                make_place(self._root)
                _sync_directory(self._root.parent)
            self._mask = mask_of(self._root)
            self._make_directory(self._temporaries)
            _delete_old_files(self._temporaries)
            with self._temporary(None):
                pass
        except OSError as error:
            if error.errno in _FULL:
                raise LogStoreWriteFailed(str(self._root), _reason(error)) from error
            raise LogStoreNotWritable(str(self._root), _reason(error)) from error

    def put_durable(self, path: str, data: bytes) -> None:
        self.write_durable(path, lambda file: file.write(data))

    def write_durable(self, path: str, write: Callable[[pa.NativeFile], object]) -> int:
        with self._write_errors(path), self._temporary(write) as temporary:
            size = temporary.stat().st_size
            target = self._prepare(path)
            temporary.rename(target)
            _sync_directory(target.parent)
        return size

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._write_errors(path), self._temporary(lambda file: file.write(data)) as temporary:
            target = self._prepare(path)
            try:
                # Not rename: a link fails where the name is taken, and that decides the race.
                target.hardlink_to(temporary)
            except FileExistsError:
                return False
            _sync_directory(target.parent)
        return True

    def get(self, path: str) -> bytes:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            raise Missing(path) from None
        except OSError as error:
            raise LogStoreReadFailed(str(self._root / path), _reason(error)) from error

    def open(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        try:
            return pa.OSFile(str(self._root / path), "rb")
        except FileNotFoundError:
            raise Missing(path) from None
        except OSError as error:
            raise LogStoreReadFailed(str(self._root / path), _reason(error)) from error

    def list(self, prefix: str) -> Sequence[str]:
        directory = prefix.rpartition("/")[0]
        try:
            return sorted(path for path in _walk(self._root, directory) if path.startswith(prefix))
        except OSError as error:
            raise LogStoreReadFailed(str(self._root / prefix), _reason(error)) from error

    def delete(self, path: str) -> None:
        with self._write_errors(path):
            (self._root / path).unlink(missing_ok=True)

    def url(self, path: str) -> str:
        return f"file://{self._root / path}"

    def _prepare(self, path: str) -> Path:
        """Return the file's full path, its directory durable."""
        target = self._root / path
        if target.parent not in self._directories:
            self._make_directory(target.parent)
            # Also if it existed: its writer may have been killed before this.
            _sync_directory(self._root)
            self._directories.add(target.parent)
        return target

    def _make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        self._make_directory(directory.parent)
        make_folder_in(directory, self._mask)
        _sync_directory(directory.parent)

    @contextmanager
    def _write_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LogStoreWriteFailed(str(self._root / path), _reason(error)) from error

    @contextmanager
    def _temporary(self, write: Callable[[pa.NativeFile], object] | None) -> Iterator[Path]:
        """Write and sync a file under a temporary name, removed afterwards; without content, only test whether that
        works.
        """
        temporary = self._temporaries / uuid.uuid4().hex
        try:
            with temporary.open("xb") as made:
                os.fchmod(made.fileno(), 0o666 & ~self._mask)
                if write is not None:
                    import pyarrow as pa

                    with pa.OSFile(str(temporary), "wb") as file:
                        write(file)
                    os.fsync(made.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def _walk(root: Path, directory: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(root / directory))
    except FileNotFoundError:
        return
    for entry in entries:
        path = f"{directory}/{entry.name}" if directory else entry.name
        if not entry.is_dir():
            yield path
        elif path != _TEMPORARY:
            yield from _walk(root, path)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _delete_old_files(directory: Path) -> None:
    """Delete what killed writers left; a running writer's file is younger."""
    oldest = time.time() - _TEMPORARY_MAX_AGE_S
    for path in directory.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()
