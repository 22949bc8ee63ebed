"""Lakes beside each other: many in one bucket or on one disk, none inside another.

A table's vacuum deletes files in its folder that no version has, and removing a log store deletes its folder: another
lake's files there would go too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from rowtide.delta.errors import LakeReadFailed
from rowtide.lake.errors import LakeNested
from rowtide.lake.paths import absolute_lake
from rowtide.lake.stores import open_folder

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
