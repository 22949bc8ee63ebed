"""The demo's working folder: temporary, or one to keep."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rowtide.databases.file_access import make_place
from rowtide.demo.errors import DirectoryNotEmpty, DirectoryNotWritable


@dataclass(frozen=True, slots=True)
class Directory:
    """The demo's folder and its contents."""

    root: Path
    is_kept: bool

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def messages(self) -> Path:
        """The folder of the processes' messages, one file each."""
        return self.root / "messages"

    @property
    def scratch(self) -> Path:
        """Files needed only during the run: a copy of the source's tables, and Spark's working directory."""
        return self.root / "scratch"

    @property
    def targets(self) -> Path:
        """The folder of the targets' tables."""
        return self.root / "targets"

    @property
    def final(self) -> Path:
        """The tables after the workload."""
        return self.scratch / "final"


@contextmanager
def open_directory(keep: Path | None) -> Iterator[Directory]:
    """Create the folder; remove it at the end, unless it is to be kept.

    Raises `DirectoryNotEmpty`, `DirectoryNotWritable`.
    """
    if keep is None:
        directory = Directory(Path(tempfile.mkdtemp(prefix="rowtide-demo-")).resolve(), is_kept=False)
    else:
        directory = Directory(_make_empty(keep.expanduser().absolute()), is_kept=True)
    try:
        for folder in (directory.messages, directory.final):
            make_place(folder)
        yield directory
    finally:
        shutil.rmtree(directory.scratch if directory.is_kept else directory.root, ignore_errors=True)


def _make_empty(path: Path) -> Path:
    try:
        make_place(path)
        found = any(path.iterdir())
    except FileExistsError as error:
        raise DirectoryNotEmpty(str(path)) from error
    except OSError as error:
        raise DirectoryNotWritable(str(path), error.strerror or str(error)) from error
    if found:
        raise DirectoryNotEmpty(str(path))
    if not os.access(path, os.W_OK):
        raise DirectoryNotWritable(str(path), "Permission denied")
    return path
