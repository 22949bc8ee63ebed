"""A survey of a lake and its log store: their files at one moment, and the places that can hold copies of them.

Versions are read in an order that keeps the copy consistent: publications before the tables that they publish, the log
store after the lake. If a cleanup or an enabling comes in between, everything is read again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from types import MappingProxyType
from typing import Protocol, TypeVar
from urllib.parse import unquote

from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed, TableUnreadable
from rowtide.delta.replay import LAST_CHECKPOINT, LogFiles, LogIncomplete
from rowtide.delta.snapshot import Location, Snapshot, find_segment, open_snapshot, read_hint
from rowtide.lake.stores import open_folder
from rowtide.log.errors import LogStoreRelocated, ManifestCorrupt
from rowtide.log.store.manifest import Manifest
from rowtide.log.store.state import encode_state
from rowtide.relocation.errors import CopyDiverged, CopyReadFailed, CopyWriteFailed, NothingToCopy, PlacesOverlap
from rowtide.storage.local import LocalFolder
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.places import absolute_lake
from rowtide.storage.store import StoreErrors

# The files of a table or a log store that are copied, and their order. Pure. A table and a manifest have the same
# structure: numbered entries above a checkpoint, and data files that they name. Data files are copied first. If the
# copy is complete up to an entry, the next ones follow in order, so that it is complete after each. Otherwise the file
# that completes it comes last: until then the copy cannot be read.


class StoreFileKind(Enum):
    """The kind of a file, by its name."""

    DATA = "data"
    """Names are unique, so different content means a damaged copy."""
    ENTRY = "entry"
    """Files of the same name exist in every lake."""
    HINT = "hint"
    """The file is replaced repeatedly."""


@frozen
class Portion:
    """A table, or the log store, as of a version; paths are relative to its folder.

    `base` are the files of its checkpoint, none if it begins with its first entry; `entries` those above, by number, in
    order. `data` has the sizes of data files. `identity` distinguishes it from others of its name, and `content` from
    its other states.
    """

    name: str
    identity: str
    version: int
    base_version: int | None
    base: tuple[str, ...]
    entries: Mapping[int, str]
    data: Mapping[str, int]
    content: str
    hint: str | None = None

    @property
    def paths(self) -> Iterator[str]:
        """The files that it consists of."""
        yield from self.data
        yield from self.base
        yield from self.entries.values()


@frozen
class ExistingCopy:
    """What is at the target: the files' sizes; identity and version, None where no version is complete."""

    sizes: Mapping[str, int]
    identity: str | None = None
    version: int | None = None


@frozen
class CopyStep:
    """A file to copy, or to compare if it `is_there`; `size` None: unknown."""

    portion: str
    path: str
    kind: StoreFileKind
    size: int | None
    is_there: bool = False


@frozen
class Steps:
    """What is done for a portion: comparisons before anything is written, then the rest as it is ordered."""

    compared: tuple[CopyStep, ...]
    data: tuple[CopyStep, ...]
    hidden: tuple[CopyStep, ...]
    """Entries that no reader sees before the completing file, in any order."""
    ordered: tuple[CopyStep, ...]

    @property
    def copied(self) -> Iterator[CopyStep]:
        """The files that are missing at the target."""
        return (step for step in (*self.data, *self.hidden, *self.ordered) if not step.is_there)


class Comparisons(Protocol):
    """Which files of a portion were compared with their originals."""

    def has(self, portion: str, path: str, size: int) -> bool:
        """Return whether a file of a size was compared, now or earlier."""

    def was_added(self, portion: str, path: str) -> bool:
        """Return whether a file was compared in this run."""


def plan_portion(portion: Portion, there: ExistingCopy, place: str, source: str, compared: Comparisons) -> Steps:
    """Plan the copy of a portion to a place. Raises `CopyDiverged`."""
    if there.version is not None:
        if there.identity != portion.identity:
            raise CopyDiverged(place, source, f"it has the identity {there.identity}, not {portion.identity}")
        if there.version > portion.version:
            raise CopyDiverged(place, source, f"it is at version {there.version}, the original at {portion.version}")

    def step(path: str, kind: StoreFileKind, size: int | None = None) -> CopyStep:
        is_there = path in there.sizes and size in (None, there.sizes[path])
        return CopyStep(portion.name, path, kind, size, is_there)

    def is_due(planned: CopyStep) -> bool:
        return not (planned.is_there and compared.has(portion.name, planned.path, there.sizes[planned.path]))

    def was_added(planned: CopyStep) -> bool:
        return compared.was_added(portion.name, planned.path)

    data = tuple(filter(is_due, (step(path, StoreFileKind.DATA, size) for path, size in portion.data.items())))
    base = [step(path, StoreFileKind.ENTRY) for path in portion.base]
    entries = {number: step(path, StoreFileKind.ENTRY) for number, path in portion.entries.items()}
    # Every lake has entries of these names: the content of the last common one shows whether the target is an earlier
    # state.
    last = [one for one in _last_common(there.version, base, portion, entries) if not was_added(one)]
    due = tuple(one for one in (*base, *entries.values()) if one.is_there and (one in last or is_due(one)))
    missing = {number: planned for number, planned in entries.items() if not planned.is_there}
    new_base = [planned for planned in base if not planned.is_there]
    hint = [step(portion.hint, StoreFileKind.HINT)] if portion.hint is not None else []
    hint = [planned for planned in hint if new_base or not planned.is_there]
    if there.version is not None and there.version >= _first(portion) - 1:
        return Steps(due, data, (), (*missing.values(), *new_base, *hint))
    if base:
        return Steps(due, data, tuple(missing.values()), (*new_base, *hint))
    begin = min(entries)
    hidden = tuple(planned for number, planned in missing.items() if number != begin)
    return Steps(due, data, hidden, tuple(planned for number, planned in missing.items() if number == begin))


def _first(portion: Portion) -> int:
    """Return the number of the first entry above the base."""
    return min(portion.entries, default=portion.version + 1)


def _last_common(
    version: int | None, base: list[CopyStep], portion: Portion, entries: Mapping[int, CopyStep]
) -> tuple[CopyStep, ...]:
    """Return the files of the target's version: its entry, or the checkpoint."""
    if version is None:
        return ()
    if version in entries:
        return (entries[version],)
    return tuple(base) if version == portion.base_version else ()


@frozen
class LakePlace:
    """A lake and its log store, each a path or a URL as it is recorded."""

    lake: str
    log_store: str

    @classmethod
    def of(cls, lake: str, log_store: str | None = None) -> LakePlace:
        """Return the places as they are recorded; a log store that is not named is a folder of the lake.

        Raises `PlaceUnnamed`, `StorageUrlMalformed`, `StorageSchemeUnsupported`.
        """
        place = absolute_lake(lake)
        return cls(place, absolute_lake(log_store) if log_store is not None else f"{place}/log")

    @property
    def is_log_store_inside(self) -> bool:
        """Whether the log store is a folder of the lake."""
        return is_within(self.log_store, self.lake)


def is_within(place: str, outer: str) -> bool:
    """Return whether a place is another one, or inside it."""
    return f"{_plain(place)}/".startswith(f"{_plain(outer).rstrip('/')}/")


def is_same(one: str, other: str) -> bool:
    """Return whether two places are one."""
    return _plain(one) == _plain(other)


def require_apart(source: LakePlace, target: LakePlace) -> None:
    """Require that a lake can be copied from one place to another. A log store may stay where it is.

    Raises `PlacesOverlap`.
    """
    _require_outside(source.lake, target.lake)
    if not is_same(source.log_store, target.log_store):
        for old, new in ((source.log_store, target.lake), (source.lake, target.log_store)):
            _require_outside(old, new)
        _require_outside(source.log_store, target.log_store)
    elif source.is_log_store_inside or target.is_log_store_inside:
        raise PlacesOverlap(target.lake, source.lake, f"the log store {source.log_store} would be in both")


def _require_outside(source: str, target: str) -> None:
    if is_same(source, target):
        raise PlacesOverlap(target, source, "they are the same place")
    for inner, outer in ((target, source), (source, target)):
        if is_within(inner, outer):
            raise PlacesOverlap(target, source, f"{inner} is inside {outer}")


def _plain(place: str) -> str:
    return place.removeprefix("file://").rstrip("/") or "/"


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
