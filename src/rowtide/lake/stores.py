"""The files of a lake's tables, on a local disk or an object store, and the lakes beside it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress

from rowtide.databases.file_access import make_place
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.delta.snapshot import Location
from rowtide.lake.errors import LakeNested, LakeNotWritable
from rowtide.storage.local import LocalFolder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.places import absolute_lake, local_folder
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


_MANIFEST_FILE = re.compile(r"manifest/(?:checkpoint-)?\d{20}\.json")
_TABLE, _MANIFEST = "_delta_log/", "manifest/"
_LAKE = ("cdc/lsn_time_mapping/_delta_log/", "cdc/instances/_delta_log/")


def require_not_nested(lake: str, log_store: str | None = None) -> None:
    """Raise `LakeNested` if a lake or its log store would be inside another lake, or have one inside.

    A folder that cannot be read is not looked into. Raises `PlaceUnnamed`, `StorageUrlMalformed`.
    """
    lake = absolute_lake(lake)
    log_store = absolute_lake(log_store) if log_store is not None else f"{lake}/log"
    for place in dict.fromkeys((lake, log_store)):
        for outer in _find_outer(place):
            if outer != lake and _has(outer, _TABLE, _MANIFEST, *_LAKE):
                raise LakeNested(place, f"inside {outer}, where another lake, a log store or a table is")
    for inner in (f"{lake}/cdc", log_store):
        if _has(inner, *_LAKE):
            raise LakeNested(lake, f"around {inner}, where another lake is")


def _find_outer(place: str) -> Iterator[str]:
    """Yield the folders that a place is in, the innermost first; a bucket too."""
    scheme, separator, path = place.rpartition("://")
    parts = path.split("/")
    for count in range(len(parts) - 1, 0, -1):
        yield f"{scheme}{separator}{'/'.join(parts[:count])}" or "/"


def _has(folder: str, *markers: str) -> bool:
    """Return whether a folder has files of a table or of a log store in one of the folders that mark it."""
    files = open_folder(folder)
    with suppress(LakeReadFailed):
        for marker in markers:
            for path in files.list(marker):
                if marker != _MANIFEST or _MANIFEST_FILE.fullmatch(path):
                    return True
    return False
