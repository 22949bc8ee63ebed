"""The files of the lake's tables: on a local disk, or wherever Spark's file systems reach."""

from __future__ import annotations

from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.delta.snapshot import Location
from rowtide.lake.hadoop import HadoopFolder
from rowtide.lake.paths import local_folder
from rowtide.lake.session import running_session
from rowtide.storage.local import LocalFolder
from rowtide.storage.store import StoreErrors

_ERRORS = StoreErrors(LakeReadFailed, LakeWriteFailed)


def open_folder(path: str) -> LocalFolder | HadoopFolder:
    """Return a table's files. A path that is not local is read and written through Spark's JVM, which is started."""
    folder = local_folder(path)
    if folder is not None:
        return LocalFolder(str(folder), _ERRORS)
    return HadoopFolder(running_session(), path)


def locate(path: str) -> Location:
    """Return a table's location; see `open_folder`."""
    return Location(path, open_folder(path))
