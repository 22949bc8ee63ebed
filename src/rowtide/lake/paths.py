"""The location of a lake: a folder, or a URL that Spark can write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rowtide.core.places import local_path, require_place
from rowtide.databases.file_access import make_place
from rowtide.lake.errors import LakeNotWritable


def prepare_lake(lake: str, *, for_group: bool = False) -> str:
    """Return the lake's absolute location; create a local folder and check that it is writable.

    A created folder is private to this user, or with `for_group`, readable by its group. Other URLs are left to Spark,
    which reports problems at the first write. Raises `PlaceUnnamed`, `LakeNotWritable`.
    """
    folder = local_folder(lake)
    if folder is None:
        return absolute_lake(lake)
    try:
        make_place(folder, for_group=for_group)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise LakeNotWritable(str(folder), error.strerror or os.strerror(error.errno or 0)) from error
    return str(folder)


def absolute_lake(lake: str) -> str:
    """Return a lake's location as it is stored; creates nothing. Raises `PlaceUnnamed`."""
    folder = local_folder(lake)
    return str(folder) if folder is not None else lake.rstrip("/")


def local_folder(lake: str) -> Path | None:
    """Return the lake's local folder; None for another kind of URL. Raises `PlaceUnnamed`."""
    require_place(lake)
    path = local_path(lake)
    return Path(path).expanduser().absolute() if path is not None else None
