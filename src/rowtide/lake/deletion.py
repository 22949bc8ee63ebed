"""Delete rows below a bound, and then the files that no version needs."""

from __future__ import annotations

from rowtide.delta.snapshot import Location
from rowtide.delta.vacuum import vacuum as vacuum_files
from rowtide.delta.writing import deletion
from rowtide.delta.writing.deletion import Below
from rowtide.lake.stores import locate, open_folder


def delete_rows(path: str, rows: Below) -> int:
    """Delete rows, and return their number.

    A file is removed if all its rows are deleted; otherwise it is rewritten. Raises `LakeWriteFailed`.
    """
    return deletion.delete_below(locate(path), rows)


def vacuum(path: str) -> None:
    """Delete the files that no version within the table's retention refers to, such as those of interrupted appends.

    Raises `LakeWriteFailed`, `LakeReadFailed`.
    """
    folder = open_folder(path)
    vacuum_files(Location(path, folder), folder)
