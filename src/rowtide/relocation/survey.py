"""A survey of a lake and its log store: their files at one moment, as portions of a copy.

Versions are read in an order that keeps the copy consistent: publications before the tables that they publish, the log
store after the lake. If a cleanup or an enabling comes in between, everything is read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import unquote

from rowtide.delta.errors import LakeReadFailed, TableUnreadable
from rowtide.delta.replay import LAST_CHECKPOINT, LogFiles, LogIncomplete
from rowtide.delta.snapshot import Location, Snapshot, find_segment, open_snapshot, read_hint
from rowtide.lake.stores import open_folder
from rowtide.log.errors import LogStoreRelocated, ManifestCorrupt
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import encode_state
from rowtide.relocation.errors import CopyDiverged, CopyReadFailed, CopyWriteFailed, NothingToCopy
from rowtide.relocation.portions import ExistingCopy, LakePlace, Portion
from rowtide.storage.local import LocalFolder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.store import StoreErrors

LOG_STORE = "log store"
"""The name of the log store's portion; those of tables are their folders in the lake."""
TABLES = "cdc/"
PUBLISHING = (f"{TABLES}lsn_time_mapping", f"{TABLES}snapshots")
"""Tables whose rows publish those of others."""
_DECIDING = (f"{TABLES}instances", f"{TABLES}cleanups")
"""Tables with rare commits, which precede the removal of rows and the beginning of instances."""
_LOOKS = 5
"""The number of surveys: one is repeated if something was committed to these tables meanwhile."""
_ERRORS = StoreErrors(CopyReadFailed, CopyWriteFailed)
# A request to an object store is mostly waiting.
_AT_ONCE = 16

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


def survey(place: LakePlace, known: Mapping[str, Portion] = MappingProxyType({})) -> tuple[Portion, ...]:
    """Return the portions of a lake and its log store, in the order in which their entries are copied.

    Tables that are `known` by name, from an earlier survey, are not read again while their version is the same. Raises
    `NothingToCopy`, `TableUnreadable`, `LakeReadFailed`, `ManifestCorrupt`, `CopyReadFailed`.
    """
    for _ in range(_LOOKS):
        before = _read_versions(place)
        tables = _survey_tables(place, known)
        log_store = survey_log_store(place.log_store)
        if _read_versions(place) == before:
            break
    else:
        raise LakeReadFailed(place.lake, "instances were enabled, disabled or cleaned up all the time")
    if not tables and log_store is None:
        raise NothingToCopy(place.lake, place.log_store)
    return (*tables, *((log_store,) if log_store is not None else ()))


def survey_log_store(place: str) -> Portion | None:
    """Return the log store at a place; None if there is none. Raises `ManifestCorrupt`, `CopyReadFailed`."""
    manifest = Manifest.find(open_files(place))
    if manifest is None:
        return None
    state, files = manifest.state, manifest.list_files()
    return Portion(
        name=LOG_STORE,
        identity=f"slot {state.source.slot} of system {state.source.system_identifier}",
        version=state.version,
        base_version=files.checkpoint_version,
        base=(files.checkpoint,) if files.checkpoint is not None else (),
        entries=files.entries,
        data={segment.path: segment.bytes for segment in state.segments},
        content=hashlib.sha256(encode_state(state)).hexdigest(),
    )


def find_existing(place: LakePlace, portion: Portion) -> ExistingCopy:
    """Return what a target has of a portion. Raises `CopyDiverged`, `CopyReadFailed`."""
    sizes = files_of(place, portion.name).list_sizes("")
    if not sizes:
        return ExistingCopy(sizes)
    if portion.name == LOG_STORE:
        there = _find_complete(place)
        return ExistingCopy(sizes, there.identity, there.version) if there is not None else ExistingCopy(sizes)
    try:
        version = LogFiles.of(sizes).make_up().version
    except LogIncomplete:
        return ExistingCopy(sizes)
    entry = portion.entries.get(version)
    if portion.base_version == version or entry is not None:
        common = portion.base if entry is None else (entry,)
        if all(path in sizes for path in common):
            # Their contents are compared: a commit is in no other table.
            return ExistingCopy(sizes, portion.identity, version)
    table = _survey_table(place, portion.name)
    return ExistingCopy(sizes, table.identity if table is not None else None, version)


def files_of(place: LakePlace, portion: str) -> LocalFolder | ObjectFolder:
    """Return the files of a portion."""
    return open_files(place.log_store if portion == LOG_STORE else f"{place.lake}/{portion}")


def open_files(place: str) -> LocalFolder | ObjectFolder:
    """Return the files at a place as they are: nothing is created or tried."""
    return open_folder(place, _ERRORS)


def _find_complete(place: LakePlace) -> Portion | None:
    """Return the log store of a target; None if no version is complete. Raises `CopyDiverged`."""
    try:
        return survey_log_store(place.log_store)
    except LogStoreRelocated as error:
        raise CopyDiverged(place.lake, error.log_store, "a lake was moved from here") from error
    except ManifestCorrupt:
        return None


def _survey_tables(place: LakePlace, known: Mapping[str, Portion]) -> list[Portion]:
    def look(name: str) -> Portion | None:
        return _survey_table(place, name, known.get(name))

    folders = [f"{TABLES}{name}" for name in open_files(place.lake).list_folders(TABLES)]
    # Read first and copied last, because they publish the rows of the others.
    published = [look(name) for name in PUBLISHING if name in folders]
    others = in_parallel(look, [name for name in folders if name not in PUBLISHING])
    return [portion for portion in (*others, *reversed(published)) if portion is not None]


def _survey_table(place: LakePlace, name: str, known: Portion | None = None) -> Portion | None:
    """Return a table of a lake; None if there is none of that name."""
    path = f"{place.lake}/{name}"
    location = Location(path, open_files(path))
    segment = find_segment(location)
    if segment is None:
        return None
    if known is not None and (known.version, known.base) == (segment.version, segment.checkpoint):
        return known
    snapshot = open_snapshot(location, segment.version)
    if snapshot is None:
        return None
    has_hint = segment.checkpoint and read_hint(location.store) == segment.checkpoint_version
    return Portion(
        name=name,
        identity=f"table {snapshot.metadata.found['id']}",
        version=segment.version,
        base_version=segment.checkpoint_version,
        base=segment.checkpoint,
        entries=dict(segment.commits),
        data=_find_data(snapshot),
        content=_describe(snapshot),
        hint=LAST_CHECKPOINT if has_hint else None,
    )


def _find_data(snapshot: Snapshot) -> dict[str, int]:
    snapshot.require_readable()
    data = {unquote(file.path): file.size for file in snapshot.files.values()}
    if any("://" in path or path.startswith(("/", "file:")) for path in data):
        raise TableUnreadable(snapshot.location.path, "data files outside its folder")
    return data


def _describe(snapshot: Snapshot) -> str:
    """Return what identifies a state of a table; it does not depend on whether a checkpoint or commits have it."""
    metadata = snapshot.metadata
    cycles = {name: found.version for name, found in snapshot.state.transactions.items()}
    said = [metadata.schema_text, sorted(metadata.properties.items()), sorted(cycles.items()), sorted(snapshot.files)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _read_versions(place: LakePlace) -> Sequence[int | None]:
    locations = [Location(path, open_files(path)) for path in (f"{place.lake}/{name}" for name in _DECIDING)]
    segments = [find_segment(location) for location in locations]
    return [segment.version if segment is not None else None for segment in segments]


def in_parallel(function: Callable[[_Item], _Found], items: Iterable[_Item]) -> list[_Found]:
    """Return a function's values, several at a time: a request to an object store is mostly waiting."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(function, items))
