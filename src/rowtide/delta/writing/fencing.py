"""Fences: commits that keep a former holder of a lake's lease from committing, whenever it wakes (docs/decisions/0112).

A process may be stopped between the moment when it verifies its lease and its next commit. So who takes a lake from a
holder that did not give it up commits its own token to each table, as a transaction's version. A commit of a lower
token either finds it in the version that it begins with, or loses the race for the next number to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from rowtide.delta.actions import commit_info
from rowtide.delta.errors import LakeFenced
from rowtide.delta.snapshot import Location, open_snapshot
from rowtide.delta.writing.commit_race import CommitLost, Entry, Last, put_commit
from rowtide.delta.writing.held_lakes import FENCE
from rowtide.storage.freshness import read_clock


def fence_all(locations: Iterable[Location], token: int, *, at_once: int) -> None:
    """Commit a token to those of some tables that are there. Raises `LakeFenced` if one has a higher token."""
    with ThreadPoolExecutor(at_once, "rowtide-fence") as pool:
        for done in [pool.submit(_fence, location, token) for location in locations]:
            done.result()


def _fence(location: Location, token: int) -> None:
    while True:
        begun = read_clock()
        snapshot = open_snapshot(location)
        if snapshot is None:
            return
        found = snapshot.state.transactions.get(FENCE)
        if found is not None and found.version >= token:
            _require_own(location, found.version, token)
            return
        info = commit_info("WRITE", {"mode": "Append"}, tags={"rowtide.token": str(token)})
        transaction: Mapping[str, object] = {"appId": FENCE, "version": token, "lastUpdated": info["timestamp"]}
        try:
            put_commit(
                location,
                Last(snapshot.version, begun),
                Entry.of(info, [("txn", transaction)]),
                pass_by=lambda _passed: None,
                is_counted=lambda: _is_counted(location, token),
            )
        except CommitLost:
            continue
        return


def _is_counted(location: Location, token: int) -> bool:
    snapshot = open_snapshot(location)
    found = None if snapshot is None else snapshot.state.transactions.get(FENCE)
    return found is not None and found.version >= token


def _require_own(location: Location, found: int, token: int) -> None:
    if found > token:
        raise LakeFenced(location.path)
