"""Where a lake is: a folder or a URL that Spark can write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rowtide.core.places import local_path, require_place
from rowtide.databases.file_access import make_place
from rowtide.lake.errors import LakeNotWritable


def prepare_lake(lake: str, *, for_group: bool = False) -> str:
    """Return the lake's absolute place; make a local folder and see that it is writable.

    A folder that is made is for this user, and `for_group` for its group to read. Other URLs are left to Spark, which
    names what is wrong at the first write. Raises `PlaceUnnamed`, `LakeNotWritable`.
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
    """Return a lake's place as it is recorded; nothing is made. Raises `PlaceUnnamed`."""
    folder = local_folder(lake)
    return str(folder) if folder is not None else lake.rstrip("/")


def local_folder(lake: str) -> Path | None:
    """Return the lake's folder on this machine, None where it is behind another kind of URL. Raises `PlaceUnnamed`."""
    require_place(lake)
    path = local_path(lake)
    return Path(path).expanduser().absolute() if path is not None else None
