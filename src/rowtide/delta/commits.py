"""Commit to tables, each cycle exactly once, without a JVM (docs/decisions/0040).

A commit is the log's next file, put if absent. It carries the table's transaction identifier (`txn`), which every
commit in between is searched for: a cycle that the table has is never added again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeAlias

from rowtide.core.errors import Retryable
from rowtide.core.failpoints import failpoint
from rowtide.delta.actions import AddFile, Metadata, Protocol, commit_info, format_commit
from rowtide.delta.checkpoints import forget_versions, is_checkpoint_due, write_checkpoint
from rowtide.delta.errors import AppendNotFound, LakeReadFailed, LakeWriteFailed, RowsUnfit, TableUnwritable
from rowtide.delta.features import find_unappendable
from rowtide.delta.log_files import LOG, LogFiles, commit_path
from rowtide.delta.replay import read_commit
from rowtide.delta.schema import Struct
from rowtide.delta.snapshot import Location, Snapshot, open_snapshot, read_hint
from rowtide.storage.store import Missing

log = logging.getLogger("rowtide.delta")

_KNOWN_FOR_S = 60.0
"""How long the last commit of ours is built on without looking at the log: its cleanup leaves younger files."""

Actions: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]


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
        """Return the state of a version. Raises `TableUnwritable`, `TableUnreadable`."""
        snapshot.require_readable()
        path, metadata = snapshot.location.path, snapshot.metadata
        for feature in find_unappendable(snapshot.protocol, metadata, snapshot.state.domains):
            raise TableUnwritable(path, feature)
        cycles = {name: found.version for name, found in snapshot.state.transactions.items()}
        return cls(snapshot.version, snapshot.columns, snapshot.protocol, metadata, cycles)


@dataclass(frozen=True, slots=True)
class _Claim:
    """A cycle to be committed under an identity, and the unique id of the commit."""

    location: Location
    identity: str
    cycle: int
    content: bytes
    commit_id: str


class CommitLost(Exception):
    """Another commit changed the table's columns or properties, or the log was cut meanwhile: begin again."""


class Committer:
    """Commits cycles to tables; remembers its own last commit to each, so that the next need not list the log.

    Used by several threads, one per table.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, tuple[TableState, float]] = {}

    def read_state(self, location: Location) -> TableState:
        """Return the state of a table that the next commit begins with. Raises as `commit_once`."""
        known, since = self._known.get(location.path, (None, 0.0))
        if known is None or self._clock() - since > _KNOWN_FOR_S:
            known = _load(location)
            self._known[location.path] = known, self._clock()
        return known

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
        known, since = self._known.pop(location.path, (None, 0.0))
        is_fresh = known is None or self._clock() - since > _KNOWN_FOR_S
        state = _load(location) if known is None or is_fresh else known
        while True:
            if _has_cycle(location, state, identity, cycle):
                self._known[location.path] = state, self._clock()
                return False
            try:
                claim = _claim(location, identity, cycle, write(state), tags)
                committed = self._commit(claim, state)
            except (CommitLost, RowsUnfit) as error:
                if isinstance(error, RowsUnfit) and is_fresh:
                    raise
                state, is_fresh = _load(location), True
                continue
            self._known[location.path] = replace(committed, cycles={**committed.cycles, identity: cycle}), self._clock()
            _maintain(location, committed)
            return True

    def forget(self, path: str) -> None:
        """Discard what is remembered of a table."""
        self._known.pop(path, None)

    def _commit(self, claim: _Claim, state: TableState) -> TableState:
        """Commit under the next free number; return the state as of it. Raises `CommitLost`."""
        store = claim.location.store
        while True:
            number = state.version + 1
            failpoint("delta_commit.before")
            is_won = store.put_if_absent(commit_path(number), claim.content)
            failpoint("delta_commit.after")
            if not is_won:
                passed = _read(claim.location, number)
                is_won = passed.commit_id == claim.commit_id
                if not is_won:
                    state = _pass(claim, state, passed)
                    continue
            if _is_above_checkpoints(claim.location, number) or _is_counted(claim):
                return replace(state, version=number)
            log.warning("commit_below_checkpoint: %s %s", claim.location.path, number)
            raise CommitLost


@dataclass(frozen=True, slots=True)
class _Passed:
    """A commit of another writer that took our number."""

    commit_id: str | None
    cycles: Mapping[str, int]
    changes_table: bool


def _load(location: Location) -> TableState:
    snapshot = open_snapshot(location)
    if snapshot is None:
        raise LakeWriteFailed(location.path, "there is no table")
    return TableState.of(snapshot)


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
    actions: Actions = [
        ("commitInfo", info),
        ("txn", transaction),
        *(("add", file.values(changes_data=True)) for file in files),
    ]
    return _Claim(location, identity, cycle, format_commit(actions), info["txnId"])


def _read(location: Location, number: int) -> _Passed:
    """Read another's commit. Raises `CommitLost` if it is gone already."""
    try:
        content = location.store.get(commit_path(number))
    except Missing:
        raise CommitLost from None
    commit_id, cycles, changes_table = None, {}, False
    try:
        for kind, values in read_commit(content):
            match kind:
                case "commitInfo":
                    commit_id = values.get("txnId")
                case "txn":
                    cycles[values["appId"]] = values["version"]
                case "protocol" | "metaData" | "domainMetadata":
                    changes_table = True
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LakeReadFailed(location.path, f"{commit_path(number)} is damaged: {error}") from error
    return _Passed(commit_id, cycles, changes_table)


def _pass(claim: _Claim, state: TableState, passed: _Passed) -> TableState:
    """Return the state after another's commit. Raises `CommitLost` if ours does not fit it any more."""
    if passed.changes_table or passed.cycles.get(claim.identity, claim.cycle - 1) >= claim.cycle:
        raise CommitLost
    return replace(state, version=state.version + 1, cycles={**state.cycles, **passed.cycles})


def _is_above_checkpoints(location: Location, number: int) -> bool:
    """Return whether no checkpoint replaces a commit.

    Otherwise the number may have been free because the log's cleanup had removed its file: nobody would read ours.
    """
    hinted = read_hint(location.store)
    if hinted is not None:
        return hinted < number
    return not LogFiles.of(location.store.list(LOG, after=f"{LOG}{number:020d}")).checkpoints


def _is_counted(claim: _Claim) -> bool:
    """Return whether the table as readers see it has the cycle."""
    return _load(claim.location).cycles.get(claim.identity, -1) >= claim.cycle


def _maintain(location: Location, committed: TableState) -> None:
    """Write the checkpoint when due, and delete the log that it replaces; a failure only makes reads slower."""
    if not is_checkpoint_due(committed.version, committed.metadata.properties):
        return
    now = datetime.now(UTC)
    try:
        snapshot = open_snapshot(location, committed.version)
        if snapshot is not None:
            write_checkpoint(snapshot, now)
            forget_versions(location, snapshot.properties, now)
    except Retryable as error:
        log.warning("checkpoint_failed: %s", error)
