"""The race for a table's next version, in which a former holder of a lake's lease is refused.

The loser reads the winning commit, and takes the next number unless the two conflict. Appends (`commits`) and other
changes (`changes`) use the same race.

A process knows a number for each lake whose lease it holds, and commits nothing to tables with a higher one: see
`fences`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.delta import formats
from rowtide.delta.errors import LakeFenced, LakeReadFailed, TableMissing, TableUnwritable
from rowtide.delta.features import find_unappendable, find_unnameable
from rowtide.delta.replay import LOG, LogFiles, commit_path, format_commit, read_commit
from rowtide.delta.snapshot import Location, Snapshot, Tail, open_snapshot, open_tail, read_hint
from rowtide.events.catalogue import CommitBelowCheckpoint
from rowtide.events.event import emit
from rowtide.storage.freshness import Clock, is_fresh, read_clock
from rowtide.storage.store import Missing

FENCE = "rowtide.lease"
"""The application of Delta's `txn` actions that have a holder's number as their version."""

# Global to the process, as its leases are: every thread and committer is fenced alike.
_numbers: dict[str, int] = {}
_unfenced: dict[str, frozenset[str]] = {}
_changing = threading.Lock()


def hold(lake: str, number: int, unfenced: Iterable[str] = ()) -> None:
    """Note that this process has taken the lease of a lake.

    Until it takes the lease again, it commits nothing to the tables at the paths `unfenced`, where a former holder
    still could.
    """
    with _changing:
        _numbers[lake.rstrip("/")] = number
        _unfenced[lake.rstrip("/")] = frozenset(unfenced)


def require_fence(location: Location) -> None:
    """Raise `LakeReadFailed` if a table could not be fenced when this process took its lake, but can be read now."""
    if any(location.path in paths for paths in list(_unfenced.values())):
        raise LakeReadFailed(location.path, "it could not be read when the lake was taken, and is fenced first")


def require_unfenced(location: Location, cycles: Mapping[str, int]) -> None:
    """Raise `LakeFenced` if a table's transactions include the number of a later holder."""
    # The fence is in the table itself, so that a process which was stopped after verifying its lease reads it with the
    # version that it builds on.
    fence = cycles.get(FENCE)
    if fence is not None and _numbers:
        number = next((own for lake, own in _numbers.items() if location.path.startswith(f"{lake}/")), None)
        if number is not None and fence > number:
            raise LakeFenced(location.path)


Action: TypeAlias = tuple[str, Mapping[str, Any]]


class CommitLost(Exception):
    """Another commit conflicts with this one, or the log was truncated meanwhile: start again."""


@frozen
class CommitEntry:
    """A commit to be put, and its unique id."""

    content: bytes
    commit_id: str

    @classmethod
    def of(cls, info: Mapping[str, Any], actions: Iterable[Action]) -> CommitEntry:
        """Return the commit of actions, `info` being its `commitInfo`."""
        return cls(format_commit([("commitInfo", info), *actions]), info["txnId"])


@frozen
class Passed:
    """A commit of another writer that took this one's number, or that was not known."""

    content: bytes
    commit_id: str | None
    cycles: Mapping[str, int]
    changes_table: bool
    adds_files: bool
    removed: frozenset[str]


def load_writable(location: Location) -> Snapshot:
    """Return the current version of a table. Raises `TableMissing`, `TableUnwritable`."""
    return load_tail(location)[0]


def load_tail(location: Location) -> tuple[Snapshot, Tail]:
    """Return the current version of a table, and what it was read from. Raises as `load_writable`."""
    found = open_tail(location)
    if found is None:
        raise TableMissing(location.path, "there is no table")
    require_writable(found[0])
    return found


def load_nameable(location: Location) -> Snapshot:
    """Return the current version of a table for a commit that only changes its protocol. Raises as `load_writable`."""
    snapshot = open_snapshot(location)
    if snapshot is None:
        raise TableMissing(location.path, "there is no table")
    _require_ours(snapshot)
    for feature in find_unnameable(snapshot.protocol):
        raise TableUnwritable(location.path, feature)
    return snapshot


def require_writable(snapshot: Snapshot) -> None:
    """Raise `TableUnreadable`, `TableUnwritable` if a version has features that commits here do not honour,
    `LakeFenced` if another process holds the lake's lease, `LakeReadFailed` if the table is not fenced yet; and as
    `formats.require_writable`.
    """
    snapshot.require_readable()
    _require_ours(snapshot)
    for feature in find_unappendable(snapshot.protocol, snapshot.metadata, snapshot.state.domains):
        raise TableUnwritable(snapshot.location.path, feature)


def _require_ours(snapshot: Snapshot) -> None:
    formats.require_writable(snapshot.location.path, snapshot.properties)
    versions = {name: found.version for name, found in snapshot.state.transactions.items()}
    require_unfenced(snapshot.location, versions)
    require_fence(snapshot.location)


@frozen
class Last:
    """A version that was a table's last one at a time of the clock, and for how long commits may build on it: see
    `is_fresh`.
    """

    version: int
    known_at: float
    fresh_for_s: float | None = None


def put_commit(
    location: Location,
    last: Last,
    entry: CommitEntry,
    *,
    pass_by: Callable[[Passed], None],
    is_counted: Callable[[], bool],
    clock: Clock = read_clock,
) -> Last:
    """Put a commit under the next free number after a version; return its own version.

    `pass_by` is given each commit that has taken a number, and raises `CommitLost` if ours cannot follow it. If
    checkpoints may have replaced the number's file already, `is_counted` says whether readers see the commit. Raises
    `CommitLost`, `LakeReadFailed`, `LakeWriteFailed`, `LakeFenced`.
    """
    number = last.version
    while True:
        number += 1
        # Read before the attempt, because freshness concerns the time at which the number was free.
        begun = clock()
        failpoint("delta_commit.before")
        is_won = location.store.put_if_absent(commit_path(number), entry.content)
        failpoint("delta_commit.after")
        if not is_won:
            passed = read_passed(location, number)
            # The same id: this very commit, which the store wrote before its reply was lost and the request repeated.
            if passed.commit_id != entry.commit_id:
                # Before `pass_by`: a former holder must stop even if its commit could follow the other one.
                require_unfenced(location, passed.cycles)
                pass_by(passed)
                continue
        # Delta's cleanup deletes commits below a checkpoint. After a long pause the number may have been free only for
        # that reason; readers begin at the checkpoint, and would never see this commit.
        is_last = is_fresh(last.known_at, clock, last.fresh_for_s)
        if is_last or _is_above_checkpoints(location, number) or is_counted():
            return Last(number, begun, last.fresh_for_s)
        emit(CommitBelowCheckpoint(location.path, number))
        raise CommitLost


def read_passed(location: Location, number: int) -> Passed:
    """Read another's commit. Raises `CommitLost` if it is gone already, `LakeReadFailed`."""
    try:
        content = location.store.get(commit_path(number))
    except Missing:
        raise CommitLost from None
    return sum_up(location, number, content)


def sum_up(location: Location, number: int, content: bytes) -> Passed:
    """Return what another writer's commit does. Raises `LakeReadFailed` if it is damaged."""
    try:
        return _sum_up(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeReadFailed(location.path, f"{commit_path(number)} is damaged: {error}") from error


def _sum_up(content: bytes) -> Passed:
    commit_id, cycles, changes_table, adds_files = None, {}, False, False
    removed: set[str] = set()
    for kind, values in read_commit(content):
        match kind:
            case "commitInfo":
                commit_id = values.get("txnId")
            case "txn":
                cycles[values["appId"]] = values["version"]
            # Files that were written for the earlier columns and features may no longer fit the table.
            case "protocol" | "metaData" | "domainMetadata":
                changes_table = True
            case "add":
                adds_files = True
            case "remove":
                removed.add(values["path"])
    return Passed(content, commit_id, cycles, changes_table, adds_files, frozenset(removed))


def _is_above_checkpoints(location: Location, number: int) -> bool:
    """Return whether no checkpoint replaces a commit.

    Otherwise the number may have been free because the log's cleanup had removed its file: no reader would see the
    commit.
    """
    hinted = read_hint(location.store)
    if hinted is not None:
        return hinted < number
    return not LogFiles.of(location.store.list(LOG, after=f"{LOG}{number:020d}")).checkpoints
