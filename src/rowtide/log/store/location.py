"""Opening the log store at its place, and verifying that it belongs to the source.

Only its source may write a log store, even if another database adopted the source, or if two databases name one folder.
"""

from __future__ import annotations

import errno
from datetime import datetime
from pathlib import Path

from rowtide.core.lsn import Position
from rowtide.databases.file_access import make_place
from rowtide.log import errors
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.entries import StoredSource
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import ManifestState, segments_between
from rowtide.storage.local import LocalFolder, reason_of, sync_folder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.places import local_path
from rowtide.storage.store import Store, StoreErrors

_ERRORS = StoreErrors(errors.LogStoreReadFailed, errors.LogStoreWriteFailed)
_FULL = {errno.ENOSPC, errno.EDQUOT}


def open_store(place: str) -> Store:
    """Open the store at a path, a `file:` URL, which is taken literally (as Spark does: no %-escapes), or an object
    store's URL.

    Raises `StorageSchemeUnsupported`, `StorageUrlMalformed`, `LogStoreNotWritable`.
    """
    path = local_path(place)
    return LocalStore(path) if path is not None else ObjectFolder(place, _ERRORS)


def probe_store(place: str) -> None:
    """Probe a store by writing to it, as `open_store` does for a local one. Raises as `open_store`,
    `PutIfAbsentIgnored`, `LogStoreWriteFailed`.
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
                raise errors.LogStoreWriteFailed(str(folder), reason_of(error)) from error
            raise errors.LogStoreNotWritable(str(folder), reason_of(error)) from error


def open_own_manifest(source: SourceDefinition, store: Store | None = None) -> Manifest:
    """Read the manifest of a source's log store. Raises `ManifestMissing`, `LogStoreMoved`."""
    manifest = Manifest.open(store or open_made_store(source))
    require_own(source, manifest.state.source)
    return manifest


def open_made_store(source: SourceDefinition) -> Store:
    """Open the store of a source. Raises `ManifestMissing` if its folder does not exist: it is never created here."""
    folder = local_path(source.log_store)
    if folder is not None and not Path(folder).is_dir():
        raise errors.ManifestMissing(source.log_store)
    return open_store(source.log_store)


def find_own_manifest(source: SourceDefinition) -> Manifest | None:
    """Like `open_own_manifest`, but None if the log store has no manifest: it is lost, or at another place."""
    try:
        return open_own_manifest(source)
    except errors.ManifestMissing:
        return None


def require_own(source: SourceDefinition, recorded: StoredSource) -> None:
    """Raise `LogStoreMoved` if the manifest names another source. Pure."""
    if not is_own(source, recorded):
        raise errors.LogStoreMoved(source.log_store, recorded.slot, recorded.system_identifier)


def require_timeline(recorded: StoredSource, timeline: int) -> None:
    """Raise `ServerPromoted` if the server is on another timeline than the one that was read. Pure."""
    if timeline != recorded.timeline:
        raise errors.ServerPromoted(timeline, recorded.timeline, "it may be a copy of the server that was read")


def is_own(source: SourceDefinition, recorded: StoredSource) -> bool:
    """Return whether the manifest names this source. Pure."""
    return (recorded.system_identifier, recorded.slot) == (source.system_identifier, source.slot)


def find_oldest_waiting(store: Store, state: ManifestState, position: Position) -> datetime | None:
    """Return when the first transaction after a position committed; None if the log store has none."""
    for segment in segments_between(state, position, state.position):
        from rowtide.log.store.segments import read_segment

        records = read_segment(store, segment.path, ("commit_lsn", "commit_time"))
        behind = records.filter(records["commit_lsn"].to_numpy() >= position.value)
        times = [time for time in behind["commit_time"].unique().to_pylist() if isinstance(time, datetime)]
        if times:
            return min(times)
    return None
