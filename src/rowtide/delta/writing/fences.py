"""Fences: commits that keep a former holder of a lake's lease from committing, whenever it wakes (docs/decisions/0006).

A process may be stopped between the moment when it verifies its lease and its next commit. So a process that takes a
lake from a holder that did not release it commits its own number to each table, as a transaction's version. A holder
with a lower number either finds it in the version that it builds on, or loses the race for the next version to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from rowtide.delta.errors import LakeReadFailed, TableUnreadable
from rowtide.delta.replay import commit_info
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot
from rowtide.delta.writing.commit_race import FENCE, CommitEntry, CommitLost, Last, put_commit
from rowtide.events.catalogue import TableNotFenced
from rowtide.events.event import emit
from rowtide.storage.freshness import read_clock


def fence_all(
    locations: Iterable[Location],
    number: int,
    *,
    at_once: int,
    pass_over: Callable[[str], object] | None = None,
) -> int:
    """Commit a holder's number, or a higher one, to those of the given tables that exist; return the number.

    It is above every number in the tables: a process that took one when its clock was ahead is a former holder too.
    `pass_over` is called with the path of each table that cannot be read, and so not be fenced: see `hold`. Without it,
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
    """Return the result of `act` for a table; None if the table cannot be read and is passed over."""
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
        # Fenced already, by an attempt whose reply was lost, or by a later holder: there is nothing to add.
        if snapshot is None or _fence_of(snapshot) >= number:
            return number
        info = commit_info("WRITE", {"mode": "Append"})
        transaction = {"appId": FENCE, "version": number, "lastUpdated": info["timestamp"]}
        try:
            put_commit(
                location,
                Last(snapshot.version, begun),
                CommitEntry.of(info, [("txn", transaction)]),
                # A fence conflicts with no commit, and the former holder's last commit must not prevent it.
                pass_by=lambda _passed: None,
                is_counted=lambda: _read(location) >= number,
            )
        # Another commit came first, maybe another holder's fence: the table is read again.
        except CommitLost:
            continue
        return number
