"""Small file systems in memory, which tests fill."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[Path]:
    """Mount an empty file system of a size at a folder, until the block ends."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m,mode=1777", "rowtide-test", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"this machine mounts no file system in memory: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        # What still has a file open there is not waited for.
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path, leaving_mb: int = 0) -> Path:
    """Fill a disk, to its last byte or but for some megabytes; return the file that does."""
    filler = disk / "filler"
    with filler.open("wb") as out:
        free = os.statvfs(disk)
        os.posix_fallocate(out.fileno(), 0, free.f_bavail * free.f_frsize - leaving_mb * 2**20)
    return filler
