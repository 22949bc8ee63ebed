"""The places of a lake and its log store, and which of them can be a copy of which."""

from __future__ import annotations

from rowtide.core.values import frozen
from rowtide.lake.paths import absolute_lake
from rowtide.relocation.errors import PlacesOverlap


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
