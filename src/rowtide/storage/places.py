"""Places of lakes and log stores: a local path, or the URL of a folder of an object store."""

from __future__ import annotations

import re
from pathlib import Path

from rowtide.core.errors import PlaceUnnamed
from rowtide.storage.object_urls import parse_object_url

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):", re.IGNORECASE)


def require_place(place: str) -> None:
    """Require that a text is not empty. Raises `PlaceUnnamed`."""
    if not isinstance(place, str):
        raise PlaceUnnamed(repr(place), f"it is no text but of the type {type(place).__name__}")
    if not place.strip():
        raise PlaceUnnamed(repr(place), "it is empty")
    if "\0" in place:
        raise PlaceUnnamed(repr(place), "it has a NUL character")


def local_path(place: str) -> str | None:
    """Return the path of a path or `file:` URL, taken literally as in Spark (no %-escapes); None for other URLs."""
    scheme = _SCHEME.match(place)
    if scheme is None:
        return place
    if scheme[1].lower() != "file":
        return None
    return "/" + place[scheme.end() :].removeprefix("//").removeprefix("localhost").lstrip("/")


def absolute_lake(lake: str) -> str:
    """Return a lake's location as it is stored; creates nothing. Raises `PlaceUnnamed`, `StorageUrlMalformed`,
    `StorageSchemeUnsupported`.
    """
    folder = local_folder(lake)
    return str(folder) if folder is not None else str(parse_object_url(lake))


def local_folder(lake: str) -> Path | None:
    """Return the lake's local folder; None for another kind of URL. Raises `PlaceUnnamed`."""
    require_place(lake)
    path = local_path(lake)
    return Path(path).expanduser().absolute() if path is not None else None
