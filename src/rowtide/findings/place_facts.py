"""What is known of a folder that rowtide writes, and reading it."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rowtide.core.errors import RowtideError
from rowtide.core.places import local_path
from rowtide.delta.errors import LakeReadFailed, LakeWriteFailed
from rowtide.storage.objects import ObjectFolder
from rowtide.storage.store import Missing, StoreErrors

LAKE, LOG_STORE = "lake", "log store"
"""The subjects of the places."""


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """A folder that rowtide writes, seen from this machine; sizes in bytes.

    `subject` names it: the lake, the log store. It `is_missing` when it was there once; one that is still to be made
    is judged by the folder in which it will be. `problem` says why it cannot be written, `device` which disk it is on,
    `mode` who may do what there, of one that is there.
    """

    subject: str
    path: str
    is_missing: bool
    problem: str | None
    device: int
    free_bytes: int
    total_bytes: int
    mode: int | None = None

    @property
    def is_forbidden(self) -> bool:
        """This user may not write there; others may."""
        return self.problem == os.strerror(errno.EACCES)


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A folder of an object store."""

    subject: str
    url: str
    problem: str | None
    """Why it cannot be listed."""


Place = PlaceFacts | ObjectPlace


def read_place(subject: str, url: str, *, was_made: bool) -> Place:
    """Return what is known of a folder; one that `was_made` has to be there, any other is judged by its parent."""
    path = local_path(url)
    if path is None:
        return ObjectPlace(subject, url, _find_problem_of_listing(url))
    folder = Path(path).expanduser().absolute()
    there, problem = _find_nearest(folder)
    usage = shutil.disk_usage(there)
    return PlaceFacts(
        subject=subject,
        path=str(folder),
        is_missing=was_made and there != folder and problem is None,
        problem=problem or _find_problem(there),
        device=there.stat().st_dev,
        free_bytes=usage.free,
        total_bytes=usage.total,
        mode=there.stat().st_mode if there == folder else None,
    )


def _find_problem_of_listing(url: str) -> str | None:
    try:
        ObjectFolder(url, StoreErrors(LakeReadFailed, LakeWriteFailed)).list("_/")
    except Missing:
        return "there is no such bucket"
    except RowtideError as error:
        return error.filled_fact
    return None


def _find_nearest(folder: Path) -> tuple[Path, str | None]:
    """Return a folder, or the nearest one above it that is there; and why it cannot be looked at."""
    problem = None
    for path in (folder, *folder.parents):
        try:
            path.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            problem = problem or error.strerror
        else:
            return path, problem
    raise AssertionError("a root is always there")


def _find_problem(folder: Path) -> str | None:
    """Write a file: permissions alone do not tell (read-only file systems, the superuser)."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or os.strerror(error.errno or 0)
