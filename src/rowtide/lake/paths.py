"""The location of a lake: a folder, or a URL of an object store."""

from __future__ import annotations

from pathlib import Path

from rowtide.core.places import local_path, require_place
from rowtide.storage.object_urls import parse_object_url


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
