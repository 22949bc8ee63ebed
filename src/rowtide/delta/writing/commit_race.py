"""The race for a table's next version, and the fences that keep a former holder of a lake's lease from it.

The loser reads what won, and takes the next number unless the two do not go together. Appends (`commits`) and other
changes (`changes`) race alike.

The lakes whose lease this process has, each with its number: commits to tables with a higher one are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.delta import features
from rowtide.delta.errors import LakeFenced, LakeReadFailed, TableMissing, TableUnreadable, TableUnwritable
from rowtide.delta.features import find_unappendable, find_unnameable
from rowtide.delta.replay import LOG, LogFiles, commit_info, commit_path, format_commit, read_commit
from rowtide.delta.snapshot import Location, Snapshot, Tail, open_snapshot, open_tail, read_hint
from rowtide.events.catalogue import CommitBelowCheckpoint, TableNotFenced
from rowtide.events.event import emit
from rowtide.storage.store import Clock, Missing, is_fresh, read_clock

FENCE = "rowtide.lease"
"""The application of Delta's `txn` actions that have a holder's number as their version."""

# Of the process, since a lease is the process's: whichever thread or committer of it commits is fenced alike.
_numbers: dict[str, int] = {}
_unfenced: dict[str, frozenset[str]] = {}
_changing = threading.Lock()


def hold(lake: str, number: int, unfenced: Iterable[str] = ()) -> None:
    """Note that this process has taken the lease of a lake.

    It commits nothing to the tables with the paths `unfenced`, until it takes the lease again: a former holder may.
    """
    with _changing:
        _numbers[lake.rstrip("/")] = number
        _unfenced[lake.rstrip("/")] = frozenset(unfenced)


def require_fence(location: Location) -> None:
    """Raise `LakeReadFailed` if a table could not be fenced when this process took its lake, but can be read now."""
    if any(location.path in paths for paths in list(_unfenced.values())):
        raise LakeReadFailed(location.path, "it could not be read when the lake was taken, and is fenced first")


def require_unfenced(location: Location, cycles: Mapping[str, int]) -> None:
    """Raise `LakeFenced` if a table has a later holder's number among its versions of applications."""
    # The fence is in the table itself: a process that was stopped after it verified its lease reads it with the version
    # on which it builds.
    fence = cycles.get(FENCE)
    if fence is not None and _numbers:
        number = next((own for lake, own in _numbers.items() if location.path.startswith(f"{lake}/")), None)
        if number is not None and fence > number:
            raise LakeFenced(location.path)


Action: TypeAlias = tuple[str, Mapping[str, Any]]


class CommitLost(Exception):
    """Another commit does not go together with ours, or the log was cut meanwhile: begin again."""


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
    """A commit of another writer that took our number, or that we did not know of."""

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
    """Return the current version of a table for a commit that changes its protocol alone. Raises as `load_writable`."""
    snapshot = open_snapshot(location)
    if snapshot is None:
        raise TableMissing(location.path, "there is no table")
    _require_ours(snapshot)
    for feature in find_unnameable(snapshot.protocol):
        raise TableUnwritable(location.path, feature)
    return snapshot


def require_writable(snapshot: Snapshot) -> None:
    """Raise `TableUnreadable`, `TableUnwritable` if a version has features that our commits do not honour, `LakeFenced`
    if it is another process's to write, `LakeReadFailed` if it is not yet ours; and as `features.require_writable`.
    """
    snapshot.require_readable()
    _require_ours(snapshot)
    for feature in find_unappendable(snapshot.protocol, snapshot.metadata, snapshot.state.domains):
        raise TableUnwritable(snapshot.location.path, feature)


def _require_ours(snapshot: Snapshot) -> None:
    features.require_writable(snapshot.location.path, snapshot.properties)
    versions = {name: found.version for name, found in snapshot.state.transactions.items()}
    require_unfenced(snapshot.location, versions)
    require_fence(snapshot.location)


@frozen
class Last:
    """A version that was a table's last one at a time of the clock; for how long it is built on: see `is_fresh`."""

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
        # Before the attempt: whether this was the table's last version is asked of the time at which the number was
        # free.
        begun = clock()
        failpoint("delta_commit.before")
        is_won = location.store.put_if_absent(commit_path(number), entry.content)
        failpoint("delta_commit.after")
        if not is_won:
            passed = read_passed(location, number)
            # The same id: our own commit, which the store had written before its answer was lost and the request
            # repeated.
            if passed.commit_id != entry.commit_id:
                # Before `pass_by`: a former holder stops, also where its commit could follow the other one.
                require_unfenced(location, passed.cycles)
                pass_by(passed)
                continue
        # Delta's cleanup deletes commits below a checkpoint. After a long pause the number may have been free for that
        # reason alone; readers begin at the checkpoint, and would never see ours.
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
    """Return what a commit of another does. Raises `LakeReadFailed` if it is damaged."""
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
            # Files that were written for the columns and features before these may not be files of the table any more.
            case "protocol" | "metaData" | "domainMetadata":
                changes_table = True
            case "add":
                adds_files = True
            case "remove":
                removed.add(values["path"])
    return Passed(content, commit_id, cycles, changes_table, adds_files, frozenset(removed))


def _is_above_checkpoints(location: Location, number: int) -> bool:
    """Return whether no checkpoint replaces a commit.

    Otherwise the number may have been free because the log's cleanup had removed its file: no reader would see ours.
    """
    hinted = read_hint(location.store)
    if hinted is not None:
        return hinted < number
    return not LogFiles.of(location.store.list(LOG, after=f"{LOG}{number:020d}")).checkpoints


# Fences: commits that keep a former holder of a lake's lease from committing, whenever it wakes
# (docs/decisions/0006). A process may be stopped between the moment when it verifies its lease and its next commit.
# So who takes a lake from a holder that did not give it up commits its own number to each table, as a transaction's
# version. A commit of a holder with a lower number either finds it in the version that it begins with, or loses the
# race for the next one to it.


def fence_all(
    locations: Iterable[Location],
    number: int,
    *,
    at_once: int,
    pass_over: Callable[[str], object] | None = None,
) -> int:
    """Commit a holder's number, or a higher one, to those of some tables that are there; return it.

    It is above all that the tables have: a process that took one with a clock that was ahead is a former holder.
    `pass_over` is given the path of each table that cannot be read, and thus not be fenced: see `hold`. Without it,
    raises `LakeReadFailed`, `TableUnreadable`.
    """
    listed = list(locations)
    with ThreadPoolExecutor(at_once, "rowtide-fence") as pool:
        fences = list(pool.map(partial(_unless_unread, _read, pass_over), listed))
        readable = [location for location, found in zip(listed, fences, strict=True) if found is not None]
        # Read from all tables before any is fenced: all get one number, above every holder that any of them knows.
        number = max([number, *(found + 1 for found in fences if found is not None)])
        list(pool.map(partial(_unless_unread, partial(_fence, number), pass_over), readable))
    return number


def _unless_unread(
    act: Callable[[Location], int], pass_over: Callable[[str], object] | None, location: Location
) -> int | None:
    """Return what `act` does with a table; None if it cannot be read and is passed over."""
    try:
        return act(location)
    except (LakeReadFailed, TableUnreadable) as error:
        if pass_over is None:
            raise
        emit(TableNotFenced(error))
        pass_over(location.path)
        return None


def _read(location: Location) -> int:
    return _fence_of(open_snapshot(location))


def _fence_of(snapshot: Snapshot | None) -> int:
    found = None if snapshot is None else snapshot.state.transactions.get(FENCE)
    return -1 if found is None else found.version


def _fence(number: int, location: Location) -> int:
    while True:
        begun = read_clock()
        snapshot = open_snapshot(location)
        # Fenced already, by an attempt of ours whose answer was lost, or by a later holder: nothing is to be added.
        if snapshot is None or _fence_of(snapshot) >= number:
            return number
        info = commit_info("WRITE", {"mode": "Append"})
        transaction = {"appId": FENCE, "version": number, "lastUpdated": info["timestamp"]}
        try:
            put_commit(
                location,
                Last(snapshot.version, begun),
                CommitEntry.of(info, [("txn", transaction)]),
                # It follows any commit: a fence contradicts none, and the former holder's last commit must not keep it
                # out.
                pass_by=lambda _passed: None,
                is_counted=lambda: _read(location) >= number,
            )
        # Another commit came first, maybe another holder's fence: the table is read again.
        except CommitLost:
            continue
        return number
