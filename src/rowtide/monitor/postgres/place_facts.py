"""Reading what a check knows of folders."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from rowtide.lake.paths import local_folder
from rowtide.monitor.postgres.facts import Place, PlaceFacts, RemotePlace


def read_place(subject: str, url: str, *, was_made: bool) -> Place:
    """Return what is known of a folder; one that `was_made` has to be there, any other is judged by its parent."""
    folder = local_folder(url)
    if folder is None:
        return RemotePlace(url)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    usage = shutil.disk_usage(there)
    return PlaceFacts(
        subject=subject,
        path=str(folder),
        is_missing=was_made and there != folder,
        problem=_find_problem(there),
        device=there.stat().st_dev,
        free_bytes=usage.free,
        total_bytes=usage.total,
    )


def _find_problem(folder: Path) -> str | None:
    """Write a file: permissions alone do not tell (read-only file systems, the superuser)."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder):
            return None
    except OSError as error:
        return error.strerror or os.strerror(error.errno or 0)
