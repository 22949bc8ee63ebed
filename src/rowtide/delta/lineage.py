"""What a version of a table follows from: rows that others changed, and versions that they restored.

A transaction identifier stays when an earlier version is restored: it then says more than the table has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rowtide.core.values import frozen
from rowtide.delta.errors import LakeReadFailed
from rowtide.delta.replay import commit_path, read_commit
from rowtide.delta.snapshot import Snapshot
from rowtide.storage.store import Missing

_RESTORE = "RESTORE"


@frozen
class Foreign:
    """A commit of another application that changed rows."""

    version: int
    operation: str

    def __str__(self) -> str:
        return f"{self.operation} in version {self.version}"


@frozen
class VersionLineage:
    """What a version has of an application, as seen from one that the application knows.

    `restored`: the earlier version whose rows it has, None if it follows from the known one. `foreign`: the last commit
    of another that changed rows and was not undone by a restore.
    """

    restored: int | None = None
    foreign: Foreign | None = None


@frozen
class _Commit:
    operation: str
    parameters: Mapping[str, Any]
    applications: frozenset[str]
    changes_rows: bool

    @property
    def restored(self) -> int | None:
        """The version that it restored; None if it restored none, or one that is known by its time only."""
        version = self.parameters.get("version") if self.operation == _RESTORE else None
        return int(version) if version is not None and str(version).isdecimal() else None


def find_lineage(snapshot: Snapshot, application: str, known: int) -> VersionLineage:
    """Return what a version follows from since a known one, which is not later.

    What the log no longer has is taken for the application's own. Raises `LakeReadFailed`.
    """
    seen = {known: VersionLineage()}
    last = seen[known]
    for number in range(known + 1, snapshot.version + 1):
        last = _after(last, _read(snapshot, number), application, number, seen)
        seen[number] = last
    return last


def _after(
    before: VersionLineage, commit: _Commit | None, application: str, number: int, seen: Mapping[int, VersionLineage]
) -> VersionLineage:
    if commit is None:
        return before
    if commit.restored is not None:
        return seen.get(commit.restored) or VersionLineage(restored=commit.restored)
    if application in commit.applications:
        return replace(before, restored=None)
    if commit.changes_rows:
        return replace(before, foreign=Foreign(number, commit.operation))
    return before


def _read(snapshot: Snapshot, number: int) -> _Commit | None:
    location = snapshot.location
    try:
        content = location.store.get(commit_path(number))
    except Missing:
        return None
    try:
        return _sum_up(read_commit(content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeReadFailed(location.path, f"{commit_path(number)} is damaged: {error}") from error


def _sum_up(actions: Iterable[tuple[str, Mapping[str, Any]]]) -> _Commit:
    operation, changes_rows = "a commit", False
    parameters: Mapping[str, Any] = {}
    applications: set[str] = set()
    for kind, values in actions:
        match kind:
            case "commitInfo":
                operation = str(values.get("operation") or operation)
                parameters = values.get("operationParameters") or {}
            case "txn":
                applications.add(values["appId"])
            case "add" | "remove":
                changes_rows = changes_rows or values.get("dataChange") is not False
    return _Commit(operation, parameters, frozenset(applications), changes_rows)
