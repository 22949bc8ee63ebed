"""Commit to tables, each cycle exactly once, without a JVM (docs/decisions/0040).

A commit is the log's next file, put if absent. It carries the table's transaction identifier (`txn`), which every
commit in between is searched for: a cycle that the table has is never added again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from rowtide.delta.actions import AddFile, Metadata, Protocol, commit_info
from rowtide.delta.checkpoints import Maintain, maintain_log
from rowtide.delta.errors import AppendNotFound, RowsUnfit
from rowtide.delta.schema import Struct
from rowtide.delta.snapshot import Location, Snapshot
from rowtide.delta.writing.commit_race import CommitLost, Entry, Last, Passed, load_writable, put_commit
from rowtide.storage.freshness import Clock, is_fresh, read_clock


@dataclass(frozen=True, slots=True)
class TableState:
    """What a commit has to know of the version before it."""

    version: int
    columns: Struct
    protocol: Protocol
    metadata: Metadata
    cycles: Mapping[str, int]
    """The last cycle of each identity."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableState:
        """Return the state of a version. Raises `TableUnreadable`."""
        cycles = {name: found.version for name, found in snapshot.state.transactions.items()}
        return cls(snapshot.version, snapshot.columns, snapshot.protocol, snapshot.metadata, cycles)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A cycle to be committed under an identity, and the commit."""

    location: Location
    identity: str
    cycle: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a version that was the last one at a time of the clock."""

    state: TableState
    at: float


class Committer:
    """Commits cycles to tables; remembers its own last commit to each, so that the next need not list the log.

    Used by several threads, one per table.
    """

    def __init__(self, *, clock: Clock = read_clock, maintain: Maintain = maintain_log) -> None:
        """`maintain` is called after each commit, as `maintain_log`."""
        self._clock = clock
        self._maintain = maintain
        self._known: dict[str, _Known] = {}

    def read_state(self, location: Location) -> TableState:
        """Return the state of a table that the next commit begins with. Raises as `commit_once`."""
        known = self._recall(location)
        if known is None:
            known = self._load(location)
            self._known[location.path] = known
        return known.state

    def commit_once(
        self,
        location: Location,
        *,
        identity: str,
        cycle: int,
        write: Callable[[TableState], Sequence[AddFile]],
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Let `write` write a cycle's data files, and commit them; return False if the table already has that cycle.

        The commit names identity, cycle and `tags`. `write` is called again if the table's columns change meanwhile.
        Raises `AppendNotFound` if the table has a later cycle but not this one, `TableUnwritable`, and
        `LakeReadFailed`, `LakeWriteFailed` if the storage failed, after which the cycle may be there.
        """
        # Taken out: what a commit leaves that failed is for the next one to find out.
        recalled = self._recall(location)
        self.forget(location.path)
        known = recalled or self._load(location)
        while True:
            if _has_cycle(location, known.state, identity, cycle):
                self._known[location.path] = known
                return False
            try:
                claim = _claim(location, identity, cycle, write(known.state), tags)
                committed = _commit(claim, known, self._clock)
            except (CommitLost, RowsUnfit) as error:
                if isinstance(error, RowsUnfit) and known is not recalled:
                    raise
                known = self._load(location)
                continue
            self._known[location.path] = committed
            self._maintain(location, committed.state.version, committed.state.metadata.properties)
            return True

    def forget(self, path: str) -> None:
        """Discard what is remembered of a table."""
        self._known.pop(path, None)

    def _recall(self, location: Location) -> _Known | None:
        """Return what is remembered of a table, None if it is too old to be built on."""
        known = self._known.get(location.path)
        return known if known is not None and is_fresh(known.at, self._clock) else None

    def _load(self, location: Location) -> _Known:
        begun = self._clock()
        return _Known(TableState.of(load_writable(location)), begun)


def _has_cycle(location: Location, state: TableState, identity: str, cycle: int) -> bool:
    """Return whether a table has a cycle. Raises `AppendNotFound` if it has only later ones."""
    last = state.cycles.get(identity)
    if last is not None and last > cycle:
        raise AppendNotFound(location.path, cycle)
    return last == cycle


def _claim(location: Location, identity: str, cycle: int, files: Sequence[AddFile], tags: Mapping[str, str]) -> _Claim:
    own_tags = {"rowtide.identity": identity, "rowtide.cycle": str(cycle)}
    info = commit_info("WRITE", {"mode": "Append"}, tags={**own_tags, **tags})
    transaction = {"appId": identity, "version": cycle, "lastUpdated": info["timestamp"]}
    added = (("add", file.values(changes_data=True)) for file in files)
    return _Claim(location, identity, cycle, Entry.of(info, [("txn", transaction), *added]))


def _commit(claim: _Claim, known: _Known, clock: Clock) -> _Known:
    """Commit under the next free number; return the state as of it. Raises `CommitLost`."""
    state = known.state
    cycles = dict(state.cycles)

    def pass_by(passed: Passed) -> None:
        if passed.changes_table or passed.cycles.get(claim.identity, claim.cycle - 1) >= claim.cycle:
            raise CommitLost
        cycles.update(passed.cycles)

    last = Last(state.version, known.at)
    is_counted = partial(_is_counted, claim)
    put = put_commit(claim.location, last, claim.entry, pass_by=pass_by, is_counted=is_counted, clock=clock)
    cycles[claim.identity] = claim.cycle
    return _Known(replace(state, version=put.version, cycles=cycles), put.known_at)


def _is_counted(claim: _Claim) -> bool:
    """Return whether the table as readers see it has the cycle."""
    cycles = TableState.of(load_writable(claim.location)).cycles
    return cycles.get(claim.identity, -1) >= claim.cycle
