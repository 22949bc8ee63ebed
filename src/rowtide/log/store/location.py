"""Where the log store is: a folder of a local disk, which is created, or of an object store."""

from __future__ import annotations

import errno
from pathlib import Path

from rowtide.core.places import local_path
from rowtide.databases.file_access import make_place
from rowtide.log.errors import LogStoreNotWritable, LogStoreReadFailed, LogStoreWriteFailed
from rowtide.storage.local import LocalFolder, reason_of, sync_folder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.store import Store, StoreErrors

_ERRORS = StoreErrors(LogStoreReadFailed, LogStoreWriteFailed)
_FULL = {errno.ENOSPC, errno.EDQUOT}


def open_store(place: str) -> Store:
    """Open the store at a path, a `file:` URL, which is taken literally (as Spark does: no %-escapes), or an object
    store's URL.

    Raises `StorageSchemeUnsupported`, `StorageUrlMalformed`, `LogStoreNotWritable`.
    """
    path = local_path(place)
    return LocalStore(path) if path is not None else ObjectFolder(place, _ERRORS)


def probe_store(place: str) -> None:
    """Write to a store, as `open_store` does to a local one. Raises as that, `PutIfAbsentIgnored`,
    `LogStoreWriteFailed`.
    """
    store = open_store(place)
    if isinstance(store, ObjectFolder):
        store.test_writing()


class LocalStore(LocalFolder):
    """A folder, created for this user alone if it is missing, and known to be writable."""

    def __init__(self, root: str) -> None:
        """Raises `LogStoreNotWritable`, and `LogStoreWriteFailed` on a full disk."""
        super().__init__(root, _ERRORS)
        folder = Path(root).absolute()
        try:
            if not folder.is_dir():
                make_place(folder)
                sync_folder(folder.parent)
            self.test_writing()
        except OSError as error:
            if error.errno in _FULL:
                raise LogStoreWriteFailed(str(folder), reason_of(error)) from error
            raise LogStoreNotWritable(str(folder), reason_of(error)) from error
