"""Commits to tables without a JVM (docs/decisions/0008): the first creates the table, later ones add each cycle once.

A commit is the log's next file, put if absent. It carries the table's transaction identifier (`txn`), for which every
commit in between is searched, so that a cycle is never added twice. The cached state of a table is used as long as no
cleanup can have removed later commits of others; after that the log is listed from there (docs/decisions/0010).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.delta import replay
from rowtide.delta.checkpoints import Maintain, is_checkpoint_due, log_kept_for, maintain_log
from rowtide.delta.errors import AppendNotFound, RowsUnfit
from rowtide.delta.features import COLUMN_MAPPING, TIMESTAMP_NTZ, with_features
from rowtide.delta.schema import FIELD_ID, PHYSICAL_NAME, Struct
from rowtide.delta.snapshot import Location, Snapshot, Tail, get_commits
from rowtide.delta.writing import commit_race
from rowtide.storage import freshness
from rowtide.storage.freshness import Clock, is_fresh, read_clock
from rowtide.storage.store import Missing

HELD_FOR_S = 3600.0
"""The longest that the holder of a lake's lease uses its cached state of a table: less than any holder keeps files."""
_OF_RETENTION = 4
"""The fraction of the table's log retention during which a holder uses its cached state."""


@frozen
class PriorVersion:
    """What a commit needs to know of the version before it."""

    version: int
    columns: Struct
    protocol: replay.Protocol
    metadata: replay.Metadata
    cycles: Mapping[str, int]
    """The last cycle of each identity."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> PriorVersion:
        """Return the state of a version. Raises `TableUnreadable`."""
        cycles = {name: found.version for name, found in snapshot.state.transactions.items()}
        return cls(snapshot.version, snapshot.columns, snapshot.protocol, snapshot.metadata, cycles)


@frozen
class _Claim:
    """A cycle to be committed under an identity, and the commit."""

    location: Location
    identity: str
    cycle: int
    entry: commit_race.CommitEntry


@frozen
class _Known:
    """The state of a version that was the last one at a time of the clock, and what it was read from."""

    state: PriorVersion
    at: float
    tail: Tail


class Committer:
    """Commits cycles to tables; remembers its own last commit to each, so that the next need not list the log.

    Used by several threads, one per table.
    """

    def __init__(
        self, *, clock: Clock = read_clock, maintain: Maintain = maintain_log, holds_lease: bool = False
    ) -> None:
        """`maintain` is called after each commit, like `maintain_log`. `holds_lease`: it commits only while this
        process holds the lake's lease, so other programs truncate the tables' logs only as their properties say.
        """
        self._clock = clock
        self._holds_lease = holds_lease
        self._maintain = maintain
        self._known: dict[str, _Known] = {}

    def read_state(self, location: Location) -> PriorVersion:
        """Return the state of a table that the next commit begins with. Raises as `commit_once`."""
        known = self._recall(location) or self._load(location)
        self._known[location.path] = known
        return known.state

    def commit_once(
        self,
        location: Location,
        *,
        identity: str,
        cycle: int,
        write: Callable[[PriorVersion], Sequence[replay.AddFile]],
        tags: Mapping[str, str] = MappingProxyType({}),
    ) -> bool:
        """Let `write` write a cycle's data files, and commit them; return False if the table already has that cycle.

        The commit names identity, cycle and `tags`. `write` is called again if the table's columns change meanwhile.
        Raises `AppendNotFound` if the table has a later cycle but not this one, `TableUnwritable`, and
        `LakeReadFailed`, `LakeWriteFailed` if the storage failed, after which the cycle may be there.
        """
        # Removed from the cache: after a failed commit the next one has to read the table.
        recalled = self._recall(location)
        self.forget(location.path)
        # The cached state may be outdated: then the next number is taken, and the commit that took it is read.
        known = recalled or self._load(location)
        while True:
            if _has_cycle(location, known.state, identity, cycle):
                self._known[location.path] = known
                return False
            try:
                claim = _claim(location, identity, cycle, write(known.state), tags)
                committed = self._commit(claim, known)
            except (commit_race.CommitLost, RowsUnfit) as error:
                # Rows that do not fit the cached columns may fit the present ones; but if the table was read just now,
                # a repeat is useless.
                if isinstance(error, RowsUnfit) and known is not recalled:
                    raise
                known = self._load(location)
                continue
            self._known[location.path] = _behind_checkpoint(committed)
            version, properties = committed.state.version, committed.state.metadata.properties
            self._maintain(location, version, properties, committed.tail)
            return True

    def forget(self, path: str) -> None:
        """Discard the cached state of a table."""
        self._known.pop(path, None)

    def _recall(self, location: Location) -> _Known | None:
        """Return the cached state of a table, updated by commits of others; None if it has to be loaded."""
        known = self._known.get(location.path)
        if known is None or is_fresh(known.at, self._clock, self._fresh_for_s(known.state)):
            return known
        return self._catch_up(known)

    def _catch_up(self, known: _Known) -> _Known | None:
        """Return the cached state with the commits that follow it; None if they change the table, or if its log was
        replaced.
        """
        # The time before the log is listed, because the state is as of the beginning of the listing, not its end.
        begun, location, version = self._clock(), known.tail.location, known.state.version
        # The last known commit is listed too: if it is missing, the table was replaced or removed.
        files = replay.LogFiles.of(location.store.list(replay.LOG, after=f"{replay.LOG}{version:020d}."))
        numbers = sorted(number for number in files.commits if number >= version)
        if numbers != list(range(version, version + max(len(numbers), 1))):
            return None
        try:
            contents = get_commits(location, [files.commits[number] for number in numbers[1:]])
        except Missing:
            return None
        cycles = dict(known.state.cycles)
        for number, content in zip(numbers[1:], contents, strict=True):
            passed = commit_race.sum_up(location, number, content)
            # Before the commit is used in any way: a holder that lost its lease while it was stopped ends here.
            commit_race.require_unfenced(location, passed.cycles)
            if passed.changes_table:
                return None
            cycles.update(passed.cycles)
        state = replace(known.state, version=numbers[-1], cycles=cycles)
        return _Known(state, begun, known.tail.then(contents))

    def _fresh_for_s(self, state: PriorVersion) -> float | None:
        """Return for how long the cached version may be used; None: the limit for writers without the lease."""
        if not self._holds_lease:
            return None
        kept_s = log_kept_for(state.metadata.properties).total_seconds()
        return max(freshness.FRESH_FOR_S, min(HELD_FOR_S, kept_s / _OF_RETENTION))

    def _load(self, location: Location) -> _Known:
        begun = self._clock()
        snapshot, tail = commit_race.load_tail(location)
        return _Known(PriorVersion.of(snapshot), begun, tail)

    def _commit(self, claim: _Claim, known: _Known) -> _Known:
        """Commit under the next free number; return the state as of it. Raises `CommitLost`."""
        state = known.state
        cycles = dict(state.cycles)
        contents: list[bytes] = []

        def pass_by(passed: commit_race.Passed) -> None:
            # The other commit has this cycle or a later one: only the table's state tells whether the table has the
            # cycle.
            if passed.changes_table or passed.cycles.get(claim.identity, claim.cycle - 1) >= claim.cycle:
                raise commit_race.CommitLost
            cycles.update(passed.cycles)
            contents.append(passed.content)

        last = commit_race.Last(state.version, known.at, self._fresh_for_s(state))
        is_counted = partial(_is_counted, claim)
        put = commit_race.put_commit(
            claim.location, last, claim.entry, pass_by=pass_by, is_counted=is_counted, clock=self._clock
        )
        cycles[claim.identity] = claim.cycle
        tail = known.tail.then([*contents, claim.entry.content])
        return _Known(replace(state, version=put.version, cycles=cycles), put.known_at, tail)


def _behind_checkpoint(known: _Known) -> _Known:
    """Forget the commits that a checkpoint of the version replaces, if it is to have one."""
    state, location = known.state, known.tail.location
    if not is_checkpoint_due(location, state.version, state.metadata.properties):
        return known
    tail = Tail(location, state.version, state.version, (replay.checkpoint_path(state.version),), ())
    return replace(known, tail=tail)


def _has_cycle(location: Location, state: PriorVersion, identity: str, cycle: int) -> bool:
    """Return whether a table has a cycle. Raises `AppendNotFound` if it has only later ones."""
    last = state.cycles.get(identity)
    if last is not None and last > cycle:
        raise AppendNotFound(location.path, cycle)
    return last == cycle


def _claim(
    location: Location, identity: str, cycle: int, files: Sequence[replay.AddFile], tags: Mapping[str, str]
) -> _Claim:
    # The transaction identifier makes a repeated append recognisable in any state of the log. The tags are for people
    # and tools that read the history, which the log's cleanup removes.
    own_tags = {"rowtide.identity": identity, "rowtide.cycle": str(cycle)}
    info = replay.commit_info("WRITE", {"mode": "Append"}, tags={**own_tags, **tags})
    transaction = {"appId": identity, "version": cycle, "lastUpdated": info["timestamp"]}
    added = (("add", file.values(changes_data=True)) for file in files)
    return _Claim(location, identity, cycle, commit_race.CommitEntry.of(info, [("txn", transaction), *added]))


def _is_counted(claim: _Claim) -> bool:
    """Return whether the table as readers see it has the cycle."""
    cycles = PriorVersion.of(commit_race.load_writable(claim.location)).cycles
    return cycles.get(claim.identity, -1) >= claim.cycle


MAPPING, LAST_ID = "delta.columnMapping.mode", "delta.columnMapping.maxColumnId"
# The lowest versions that honour `delta.appendOnly` and invariants: any reader of Delta opens a table without features.
_LEAST = replay.Protocol(1, 2)


def create_table(
    location: Location, schema_text: str, properties: Mapping[str, str], partition_by: Sequence[str] = ()
) -> bool:
    """Create an empty table of the columns of a schema (Delta's or Spark's JSON); return False if there is a table.

    With property `delta.columnMapping.mode`, columns get names and ids for data files. Raises the store's
    `write_failed`, after which the table may exist.
    """
    schema = json.loads(schema_text)
    configuration = dict(properties)
    if is_mapped(configuration):
        configuration[LAST_ID] = str(give_names(schema))
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema, separators=(",", ":")),
        "partitionColumns": list(partition_by),
        "configuration": configuration,
        "createdTime": int(time.time() * 1000),
    }
    actions = [
        ("commitInfo", replay.commit_info("CREATE TABLE", {})),
        ("protocol", with_features(_LEAST, features_for(schema, configuration)).values()),
        ("metaData", metadata),
    ]
    failpoint("delta_creation.before")
    # Version 0 is put if absent: of two processes that create the table, the second learns that it exists.
    is_new = location.store.put_if_absent(replay.commit_path(0), replay.format_commit(actions))
    failpoint("delta_creation.after")
    return is_new


def features_for(schema: Any, properties: Mapping[str, str]) -> set[str]:
    """Return the features that a schema's columns need."""
    # Only features that some column needs: each one excludes some readers of Delta.
    mapped = {COLUMN_MAPPING} if is_mapped(properties) else set()
    types = {name.replace("_", "") for name in _type_names(schema)}
    return mapped | ({TIMESTAMP_NTZ} if TIMESTAMP_NTZ.lower() in types else set())


def is_mapped(properties: Mapping[str, str]) -> bool:
    """Return whether data files have other names for columns than the table."""
    return properties.get(MAPPING, "none") != "none"


def _type_names(found: Any) -> Iterator[str]:
    """Yield the names of all types within one."""
    if isinstance(found, str):
        yield found
        return
    for name in ("elementType", "keyType", "valueType"):
        if name in found:
            yield from _type_names(found[name])
    for field in found.get("fields", ()):
        yield from _type_names(field["type"])


def give_names(schema: Any, last: int = 0) -> int:
    """Give all fields of a schema physical names and field ids above `last`, in place; return the last id."""
    for field in _fields(schema):
        last += 1
        field["metadata"] = {**(field.get("metadata") or {}), FIELD_ID: last, PHYSICAL_NAME: f"col-{uuid.uuid4()}"}
    return last


def _fields(found: Any) -> Iterator[Any]:
    if isinstance(found, str):
        return
    for field in found.get("fields", ()):
        yield field
        yield from _fields(field["type"])
    for name in ("elementType", "keyType", "valueType"):
        if name in found:
            yield from _fields(found[name])
