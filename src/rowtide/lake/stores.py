"""The files of the lake's tables: on a local disk, or an object store."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable

from rowtide.databases.file_access import make_place
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.delta.snapshot import Location
from rowtide.lake.errors import LakeNotWritable
from rowtide.lake.paths import local_folder
from rowtide.storage.local import LocalFolder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.store import Store, StoreErrors

_ERRORS = StoreErrors(LakeReadFailed, LakeWriteFailed)
_FILES_AT_ONCE, _OBJECTS_AT_ONCE = 8, 32


def open_folder(path: str, errors: StoreErrors = _ERRORS) -> LocalFolder | ObjectFolder:
    """Return the files of a table or another place as they are: nothing is created or tried.

    Raises `StorageSchemeUnsupported`, `StorageUrlMalformed`.
    """
    folder = local_folder(path)
    return LocalFolder(str(folder), errors) if folder is not None else ObjectFolder(path, errors)


def locate(path: str) -> Location:
    """Return a table's location; see `open_folder`."""
    return Location(path, open_folder(path))


def calls_at_once(stores: Iterable[Store]) -> int:
    """Return by how many threads stores are called at once: more if calls wait for a network."""
    return _OBJECTS_AT_ONCE if any(isinstance(store, ObjectFolder) for store in stores) else _FILES_AT_ONCE


def prepare_lake(lake: str, *, for_group: bool = False) -> str:
    """Return the lake's absolute location; create a local folder, and check that it is writable.

    A created folder is private to this user, or with `for_group`, readable by its group. An object store is asked to
    decide between two writers. Raises `PlaceUnnamed`, `LakeNotWritable`, `StorageSchemeUnsupported`,
    `StorageUrlMalformed`, `PutIfAbsentIgnored`, `LakeWriteFailed`.
    """
    folder = local_folder(lake)
    if folder is None:
        objects = ObjectFolder(lake, _ERRORS)
        objects.test_writing()
        return objects.url("")
    try:
        make_place(folder, for_group=for_group)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise LakeNotWritable(str(folder), error.strerror or os.strerror(error.errno or 0)) from error
    return str(folder)
