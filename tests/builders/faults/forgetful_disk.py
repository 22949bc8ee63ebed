"""A disk that loses at a power cut whatever was not synced: contents of files, and names in folders."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class PowerLost(BaseException):
    """The power was cut: nothing that the process does counts any more."""


class ForgetfulDisk:
    """What of a folder survives: contents by inode and names by folder, as of their last `fsync` in this process."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[int, bytes] = {}
        self._names: dict[str, dict[str, tuple[int, bool]]] = {}
        self._syncs_left: int | None = None
        for folder, _, names in os.walk(root):
            self._keep(folder)
            for name in names:
                self._keep(os.path.join(folder, name))

    @contextmanager
    def losing_power(self, monkeypatch: pytest.MonkeyPatch, syncs: int) -> Iterator[None]:
        """Cut the power instead of the next sync after so many; afterwards the folder has what survived."""
        self._syncs_left = syncs
        sync = os.fsync

        def count(descriptor: int) -> None:
            assert self._syncs_left is not None
            if self._syncs_left <= 0:
                raise PowerLost
            self._syncs_left -= 1
            sync(descriptor)
            self._keep(os.readlink(f"/proc/self/fd/{descriptor}"))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", count)
            with suppress(PowerLost):
                yield
        self._forget()

    @property
    def was_cut(self) -> bool:
        """The power was cut before everything was done."""
        return self._syncs_left == 0

    def _keep(self, place: str) -> None:
        found = os.stat(place)
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(place) as entries:
                self._names[place] = {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}
        else:
            self._contents[found.st_ino] = Path(place).read_bytes()

    def _forget(self) -> None:
        survived = self._root.with_name(f"{self._root.name}.survived")
        self._restore(str(self._root), survived)
        shutil.rmtree(self._root)
        survived.rename(self._root)

    def _restore(self, folder: str, to: Path) -> None:
        to.mkdir(mode=0o700)
        for name, (inode, is_folder) in self._names.get(folder, {}).items():
            if is_folder:
                self._restore(os.path.join(folder, name), to / name)
            else:
                (to / name).write_bytes(self._contents.get(inode, b""))
