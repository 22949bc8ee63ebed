"""Who may do what with the files below a folder."""

from __future__ import annotations

from pathlib import Path


def modes_in(folder: Path) -> dict[str, set[int]]:
    """Return the modes of the folders, that one too, and of the files."""
    below = [folder, *folder.rglob("*")]
    return {
        "folders": {path.stat().st_mode & 0o777 for path in below if path.is_dir()},
        "files": {path.stat().st_mode & 0o777 for path in below if path.is_file()},
    }
