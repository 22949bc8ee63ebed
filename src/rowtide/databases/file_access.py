"""Who else may read the files that rowtide writes: they inherit the permissions of their folder.

Folders that rowtide creates are private to its user. If a folder is readable by its group or others, from the start or
after a chmod, everything written into it later is too, whichever process writes it. The folder's mode is the record of
that: several processes, started by users with different masks, write into one place for years, and no setting has to be
given to each of them. An existing folder is used as it is; `check` warns of one that every user can read.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o077
"""The umask that grants group and others nothing."""
_OTHERS_WRITE = 0o002
_PRIVATE_FOLDER, _GROUP_FOLDER, PRIVATE_FILE = 0o700, 0o2750, 0o600
"""Modes of new folders. A folder that its group may read has the setgid bit, so that new files inherit the group."""
_making = threading.Lock()
"""Held while a folder is created, because it gets its mode a moment later."""


def mask_of(folder: Path) -> int:
    """Return the umask for files in a folder: what the folder allows group and others, but never writing."""
    try:
        with _making:
            mode = folder.stat().st_mode
    except OSError:
        return PRIVATE
    return (PRIVATE & ~mode) | _OTHERS_WRITE


def make_place(folder: Path, *, for_group: bool = False) -> None:
    """Create a folder and its missing parents; an existing one stays as it is."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        _make(missing, _GROUP_FOLDER if for_group else _PRIVATE_FOLDER)
    if not folder.is_dir():
        raise NotADirectoryError(os.strerror(20))


def make_folder_in(folder: Path, mask: int) -> None:
    """Create a folder within another; it inherits the group if the outer folder has the setgid bit."""
    _make(folder, 0o777 & ~mask)


def make_file(path: Path) -> None:
    """Create an empty file, private to this user; an existing one stays as it is."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))


def _make(folder: Path, mode: int) -> None:
    # Files in it inherit its mode, and must not see one that grants more.
    with _making, suppress(FileExistsError):
        folder.mkdir(_PRIVATE_FOLDER)
        # The process's own mask does not count.
        folder.chmod(mode | (folder.stat().st_mode & stat.S_ISGID))
