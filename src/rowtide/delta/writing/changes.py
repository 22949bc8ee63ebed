"""Changes of a table other than appends: made from its current version, and made again if another got in between.

Appends that come in between stay, whatever is changed; a change that has to see all files is made again after them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any

from rowtide.core.values import frozen
from rowtide.delta.actions import AddFile, Metadata, Protocol, RemoveFile, commit_info
from rowtide.delta.checkpoints import maintain_log
from rowtide.delta.errors import TableUnwritable
from rowtide.delta.features import COLUMN_MAPPING, with_features
from rowtide.delta.snapshot import Location, Snapshot
from rowtide.delta.writing.commit_race import Action, CommitEntry, CommitLost, Last, Passed, load_writable, put_commit
from rowtide.storage.store import read_clock

_APPEND_ONLY = "delta.appendOnly"


@frozen(slots=False)
class CommitChange:
    """What a commit changes. Of `protocol` and `metadata` None: as they are."""

    operation: str
    """Delta's name of it, for the table's history."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    removed: Collection[AddFile] = ()
    added: Collection[AddFile] = ()
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: Mapping[str, int] = field(default_factory=dict)
    """Versions of applications that the commit records."""
    changes_rows: bool = True
    """Whether the rows are others afterwards, not only their files."""
    sees_all_files: bool = False
    """Whether a file that is added meanwhile has to be seen before."""

    def actions(self) -> list[Action]:
        """Return the commit's actions, without `commitInfo`."""
        changed: list[Action] = []
        if self.protocol is not None:
            changed.append(("protocol", self.protocol.values()))
        if self.metadata is not None:
            changed.append(("metaData", self.metadata.found))
        transactions = [("txn", {"appId": name, "version": version}) for name, version in self.transactions.items()]
        gone = [("remove", RemoveFile.of(file).values(changes_data=self.changes_rows)) for file in self.removed]
        added = [("add", file.values(changes_data=self.changes_rows)) for file in self.added]
        return [*changed, *transactions, *gone, *added]


def commit_change(location: Location, plan: Callable[[Snapshot], CommitChange | None]) -> bool:
    """Commit the change that `plan` makes of the current version; return False if it makes none.

    `plan` writes the files that it adds. It is called again, with the version then, if another commit changes columns
    or properties, removes files of the change or has one of its transactions in between. Raises what it raises,
    `TableUnwritable`, and `LakeReadFailed`, `LakeWriteFailed` if the storage failed, after which the change may have
    been made.
    """
    while True:
        begun = read_clock()
        snapshot = load_writable(location)
        change = plan(snapshot)
        if change is None:
            return False
        change = _name_mapping(snapshot, change)
        _require_removable(snapshot, change)
        try:
            number = _put(location, Last(snapshot.version, begun), change)
        except CommitLost:
            continue
        maintain_log(location, number, (change.metadata or snapshot.metadata).properties)
        return True


def _put(location: Location, last: Last, change: CommitChange) -> int:
    removed = frozenset(file.path for file in change.removed)

    def pass_by(passed: Passed) -> None:
        is_unseen = change.sees_all_files and passed.adds_files
        has_stamp = not change.transactions.keys().isdisjoint(passed.cycles)
        if passed.changes_table or is_unseen or has_stamp or not removed.isdisjoint(passed.removed):
            raise CommitLost

    entry = CommitEntry.of(commit_info(change.operation, change.parameters, is_append=False), change.actions())
    is_counted = partial(_is_counted, location, change)
    return put_commit(location, last, entry, pass_by=pass_by, is_counted=is_counted).version


def _is_counted(location: Location, change: CommitChange) -> bool:
    """Return whether the table as readers see it has the change."""
    now = load_writable(location)
    known: Mapping[str, Any] = {**now.state.files, **now.state.removed}
    return (
        all(file.path not in now.files for file in change.removed)
        and all(file.path in known for file in change.added)
        and (change.metadata is None or _says(change.metadata) == _says(now.metadata))
    )


def _says(metadata: Metadata) -> tuple[str, Mapping[str, str]]:
    """Return what changes: a checkpoint fills in the other values."""
    return metadata.schema_text, metadata.properties


def _name_mapping(snapshot: Snapshot, change: CommitChange) -> CommitChange:
    """Return a change after which a table with column mapping names it as a feature, as one that others mapped may
    not: see `with_features`.
    """
    if change.protocol is not None or not snapshot.metadata.is_mapped:
        return change
    protocol = with_features(snapshot.protocol, {COLUMN_MAPPING})
    return replace(change, protocol=protocol) if protocol != snapshot.protocol else change


def _require_removable(snapshot: Snapshot, change: CommitChange) -> None:
    is_kept = snapshot.properties.get(_APPEND_ONLY, "false").lower() == "true"
    if is_kept and change.changes_rows and any(change.removed):
        raise TableUnwritable(snapshot.location.path, f"a property that only lets rows be added ({_APPEND_ONLY})")
