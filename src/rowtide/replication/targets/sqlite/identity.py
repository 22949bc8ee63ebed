"""The identity of a SQLite file: its device and inode, the same for links to it, and different for a copy."""

from __future__ import annotations

from contextlib import closing

from rowtide.replication.targets.identity import UNKNOWN_ORIGINS, DatabaseIdentity
from rowtide.replication.targets.sqlite import progress
from rowtide.replication.targets.sqlite.files import SubscriberFile, find_inode, path_of


def identify(url: str) -> DatabaseIdentity:
    """Return the identity of a file, if it exists. Raises `FileNotOpened`, `SubscriberFileFailed`."""
    inode = find_inode(path_of(url))
    if inode is None:
        return DatabaseIdentity(None)
    with closing(SubscriberFile(url)) as file, file.undone_by_errors():
        receives = dict.fromkeys(progress.list_recorded(file.connection), UNKNOWN_ORIGINS)
        return DatabaseIdentity("{}:{}".format(*inode), receives)
