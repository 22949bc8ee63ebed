"""Portions of a copy: the files of a table or a log store, their order, and the places that can hold them. Pure.

A table and a manifest have the same structure: numbered entries above a checkpoint, and data files that they name. Data
files are copied first. If the copy is complete up to an entry, the next ones follow in order, so that it is complete
after each. Otherwise the file that completes it comes last: until then the copy cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.relocation.errors import CopyDiverged, PlacesOverlap
from rowtide.storage.places import absolute_lake


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
