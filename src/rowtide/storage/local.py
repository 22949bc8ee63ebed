"""A store in a folder of a local file system."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rowtide.databases.file_access import PRIVATE_FILE, make_folder_in, mask_of
from rowtide.storage.store import Missing, StoreErrors

if TYPE_CHECKING:
    import pyarrow as pa

_TEMPORARY = ".tmp"
# Older than any file that a running writer has not named yet.
_TEMPORARY_MAX_AGE_S = 3600.0


class LocalFolder:
    """A folder of a local file system with hard links and `fsync`; safe for many processes.

    Nothing is created before the first write. New files are readable by those who may read the folder.
    """

    def __init__(self, root: str, errors: StoreErrors) -> None:
        self._root = Path(root).absolute()
        self._temporaries = self._root / _TEMPORARY
        self._folders: set[Path] = set()
        self._errors = errors

    def put_durable(self, path: str, data: bytes) -> None:
        self.write_durable(path, lambda file: file.write(data))

    def write_durable(self, path: str, write: Callable[[pa.NativeFile], object]) -> int:
        with self._write_errors(path), self._temporary(write) as temporary:
            size = temporary.stat().st_size
            target = self._prepare(path)
            # The content is synced before it gets its name: after a crash the name leads to the whole file, or does not
            # exist.
            temporary.rename(target)
            # A name is durable once its folder is.
            sync_folder(target.parent)
        return size

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._write_errors(path), self._temporary(lambda file: file.write(data)) as temporary:
            target = self._prepare(path)
            try:
                # A link instead of a rename, because it fails if the name is taken, which decides the race.
                target.hardlink_to(temporary)
            except OSError as error:
                # A file server may create the link but lose the reply, and find the name taken when the request is
                # repeated.
                if not _is_same_file(target, temporary):
                    if isinstance(error, FileExistsError):
                        return False
                    raise
            sync_folder(target.parent)
        return True

    def get(self, path: str) -> bytes:
        with self._read_errors(path):
            return (self._root / path).read_bytes()

    def open(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        # The content is read into Arrow's memory. Its threads release that after the reader has its result, without the
        # GIL, which no thread can get while the interpreter is being finalized.
        with self._read_errors(path):
            return pa.OSFile(str(self._root / path), "rb")

    def list(self, prefix: str, *, after: str = "", before: datetime | None = None) -> Sequence[str]:
        with self._read_errors(prefix):
            walked = _walk(self._root, prefix.rpartition("/")[0])
            found = (path for path in walked if path.startswith(prefix) and path > after)
            if before is not None:
                than = before.timestamp()
                found = (path for path in found if _is_older(self._root / path, than))
            return sorted(found)

    def delete(self, path: str) -> None:
        with self._write_errors(path):
            (self._root / path).unlink(missing_ok=True)

    def sweep(self, before: datetime) -> None:
        with self._write_errors(""):
            if self._temporaries.is_dir():
                _delete_old_files(self._temporaries)
            # Times are read first, because deleting a folder changes the time of its parent.
            old = [folder for folder in _walk_folders(self._root) if _is_older(folder, before.timestamp())]
            for folder in old:
                # A folder that is not empty stays, for example if it is being written to.
                with suppress(OSError):
                    folder.rmdir()

    def list_folders(self, prefix: str) -> Sequence[str]:
        with self._read_errors(prefix), suppress(FileNotFoundError):
            entries = os.scandir(self._root / prefix)
            return sorted(entry.name for entry in entries if entry.is_dir() and entry.name != _TEMPORARY)
        return []

    def list_sizes(self, prefix: str) -> Mapping[str, int]:
        sizes = {}
        for path in self.list(prefix):
            with suppress(FileNotFoundError), self._read_errors(path):
                sizes[path] = (self._root / path).stat().st_size
        return sizes

    def put_stream(self, path: str, read: Callable[[], Iterator[bytes]]) -> None:
        def write(file: pa.NativeFile) -> None:
            for piece in read():
                file.write(piece)

        self.write_durable(path, write)

    def url(self, path: str) -> str:
        return f"file://{self._root / path}"

    def test_writing(self) -> None:
        """Delete temporary files of killed writers, and write one. Raises `OSError`."""
        self._make_folder(self._temporaries)
        _delete_old_files(self._temporaries)
        with self._temporary(None):
            pass

    def _prepare(self, path: str) -> Path:
        """Return the file's full path, its folder durable."""
        target = self._root / path
        if target.parent not in self._folders:
            self._make_folder(target.parent)
            # Existing folders too, because their creator may have been killed before it synced them.
            for folder in target.relative_to(self._root).parents:
                sync_folder(self._root / folder)
            self._folders.add(target.parent)
        return target

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        make_folder_in(folder, mask_of(folder.parent))
        sync_folder(folder.parent)

    @contextmanager
    def _read_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise Missing(path) from None
        except OSError as error:
            raise self._errors.read_failed(str(self._root / path), reason_of(error)) from error

    @contextmanager
    def _write_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._errors.write_failed(str(self._root / path), reason_of(error)) from error

    @contextmanager
    def _temporary(self, write: Callable[[pa.NativeFile], object] | None) -> Iterator[Path]:
        """Write and sync a file under a temporary name, removed afterwards; without content, only test whether that
        works.
        """
        if self._temporaries not in self._folders:
            self._make_folder(self._temporaries)
            self._folders.add(self._temporaries)
        temporary = self._temporaries / uuid.uuid4().hex
        try:
            # Created private, so that nobody else can open it before it has the mode that follows from its folder.
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
            with open(descriptor, "wb") as made:
                os.fchmod(made.fileno(), 0o666 & ~mask_of(self._root))
                if write is not None:
                    import pyarrow as pa

                    with pa.OSFile(str(temporary), "wb") as file:
                        write(file)
                    os.fsync(made.fileno())
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)


def reason_of(error: OSError) -> str:
    """Return the system's words for an error."""
    return os.strerror(error.errno) if error.errno else str(error)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_same_file(one: Path, other: Path) -> bool:
    with suppress(FileNotFoundError):
        return one.samefile(other)
    return False


def _walk(root: Path, folder: str) -> Iterator[str]:
    try:
        entries = list(os.scandir(root / folder))
    except FileNotFoundError:
        return
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        if not entry.is_dir():
            yield path
        elif path != _TEMPORARY:
            yield from _walk(root, path)


def _walk_folders(folder: Path) -> Iterator[Path]:
    """Yield the folders within one, those within each first; none whose name is hidden."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(("_", ".")):
            yield from _walk_folders(Path(entry.path))
            yield Path(entry.path)


def _is_older(path: Path, than: float) -> bool:
    """Return whether a file was last written before a time; one that is gone was not."""
    with suppress(FileNotFoundError):
        return path.stat().st_mtime < than
    return False


def _delete_old_files(folder: Path) -> None:
    """Delete the files that killed writers left; the file of a running writer is younger."""
    oldest = time.time() - _TEMPORARY_MAX_AGE_S
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < oldest:
                path.unlink()
