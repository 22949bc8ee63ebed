"""Who else may read what rowtide writes: a place's folder decides, and its files follow it.

What rowtide makes is for its own user alone. A folder that lets its group or others read was made so, or told so
later; what is written into it is as readable as it is, by whichever process, until somebody changes its mode.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o077
"""The mask of what nobody else may do anything with."""
_OTHERS_WRITE = 0o002
_PRIVATE_FOLDER, _GROUP_FOLDER, PRIVATE_FILE = 0o700, 0o2750, 0o600
"""A folder that its group may read gives its group to what is made in it."""


def mask_of(folder: Path) -> int:
    """Return the mask of modes in a place: what its folder lets group and others do, but that others never write."""
    try:
        mode = folder.stat().st_mode
    except OSError:
        return PRIVATE
    return (PRIVATE & ~mode) | _OTHERS_WRITE


def make_place(folder: Path, *, for_group: bool = False) -> None:
    """Make a folder, and those above it that are missing; one that is there stays as it is."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        _make(missing, _GROUP_FOLDER if for_group else _PRIVATE_FOLDER)
    if not folder.is_dir():
        raise NotADirectoryError(os.strerror(20))


def make_folder_in(folder: Path, mask: int) -> None:
    """Make a folder in a place; its group is that of the place, where the place says so."""
    _make(folder, 0o777 & ~mask)


def make_file(path: Path) -> None:
    """Make an empty file for this user alone; one that is there stays as it is."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))


def _make(folder: Path, mode: int) -> None:
    with suppress(FileExistsError):
        folder.mkdir()
        # The process's own mask does not count.
        folder.chmod(mode | (folder.stat().st_mode & stat.S_ISGID))
