"""A state machine that follows each accepted write: it stays, a later one had seen it, or a conflict has it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from builders.merge.failing_networks import MOST_BYTES, sync_over_failing_network
from builders.merge.merged_databases import FileMember, Member, Merge, RepublishedMerge, ServerMember
from builders.merge_machines.merge_machine_base import KEYS, MEMBERS, MergeMachine
from builders.merge_machines.merge_machines import REGIONS
from rowtide.core.errors import RowtideError
from rowtide.merge.articles import Partition
from rowtide.merge.catalogue import read_nickname
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.errors.nodes import NodeRestored
from rowtide.merge.errors.rows import ChangedSince, ConflictOfSubscriber, ParentInInbox, RowsRefused, StillReferenced
from rowtide.merge.nodes.connecting import open_node
from rowtide.merge.session.history import Summary

DEFINITION = "create table item (id integer primary key, a varchar(20), b varchar(20), u varchar(20) unique)"
WRITTEN = ("a", "b")
UNIQUE_VALUES = st.sampled_from(["x", "y", None])
BYTES = st.sampled_from(range(0, MOST_BYTES, 101))
TELLS = st.sampled_from([True, True, True, False])
"""Silence takes seconds."""
NOT_RESOLVED = (ChangedSince, ConflictOfSubscriber, ParentInInbox, RowsRefused, StillReferenced)


@dataclass
class Writes:
    """Values that programs have written, each once, and those that a later write at the same node has seen."""

    given: Iterator[int] = field(default_factory=lambda: count(1))
    accepted: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    def next(self) -> str:
        return f"w{next(self.given)}."

    def accept(self, values: Sequence[str], over: Sequence[str | None]) -> None:
        self.accepted |= set(values)
        self.seen |= {value for value in over if value is not None}


class KeepingWrites(MergeMachine):
    """Rows of all nodes, with values that are each written once; conflicts are resolved, both ways."""

    resolver: ClassVar[str] = "priority"
    is_republished: ClassVar[bool] = False
    """Whether the first subscriber is a regional hub."""

    def make(self, members: Sequence[Member]) -> Merge:
        return (RepublishedMerge if self.is_republished else Merge)(members[0], members[1:])

    def begin(self) -> None:
        self.writes = Writes()
        self.merge.begin(DEFINITION, item=self.options | {"resolver": self.resolver})
        self.saved: dict[int, sqlite3.Connection] = {}

    def values_at(self, member: int, key: int, columns: str = "a, b") -> list[str | None]:
        found = self.merge.members[member].execute(f"select {columns} from item where id = {key}")
        return list(found[0]) if found else []

    @rule(member=MEMBERS, key=KEYS, unique=UNIQUE_VALUES)
    def insert(self, member: int, key: int, unique: str | None) -> None:
        values = [self.writes.next() for _ in WRITTEN]
        listed = f"{key}, '{values[0]}', '{values[1]}', {'null' if unique is None else repr(unique)}"
        if self.attempt(member, f"insert into item (id, a, b, u) values ({listed})"):
            self.writes.accept(values, ())

    @rule(member=MEMBERS, key=KEYS, column=st.sampled_from(WRITTEN))
    def update(self, member: int, key: int, column: str) -> None:
        over, value = self.values_at(member, key, column), self.writes.next()
        if over and self.attempt(member, f"update item set {column} = '{value}' where id = {key}"):
            self.writes.accept([value], over)

    @rule(member=MEMBERS, key=KEYS, unique=UNIQUE_VALUES)
    def update_with_unique(self, member: int, key: int, unique: str | None) -> None:
        """The hub or another device may refuse it."""
        over, value = self.values_at(member, key, "a"), self.writes.next()
        set_to = "null" if unique is None else repr(unique)
        if over and self.attempt(member, f"update item set a = '{value}', u = {set_to} where id = {key}"):
            self.writes.accept([value], over)

    @rule(member=MEMBERS, key=KEYS)
    def delete(self, member: int, key: int) -> None:
        over = self.values_at(member, key)
        if self.attempt(member, f"delete from item where id = {key}"):
            self.writes.accept([], over)

    @rule(place=st.integers(0, 20), winner=st.sampled_from(Winner), is_over=st.booleans())
    def resolve(self, place: int, winner: Winner, is_over: bool) -> None:  # noqa: FBT001 - of the rule
        conflicts = [
            (each, chosen) for each in self.merge.merges for chosen in each.merge.list_conflicts(each.publication)
        ]
        if conflicts:
            merge, chosen = conflicts[place % len(conflicts)]
            with suppress(*NOT_RESOLVED):
                merge.merge.resolve(chosen.conflict_id, winner, over_later_changes=is_over)

    @rule(
        number=st.integers(0, 2),
        key=KEYS,
        columns=st.permutations(WRITTEN),
        later=MEMBERS,
        is_same=st.booleans(),
        winner=st.sampled_from(Winner),
        is_over=st.booleans(),
    )
    def resolve_after_changes(
        self,
        number: int,
        key: int,
        columns: Sequence[str],
        later: int,
        is_same: bool,  # noqa: FBT001 - of the rule
        winner: Winner,
        is_over: bool,  # noqa: FBT001 - of the rule
    ) -> None:
        """Let a conflict arise, then a change of the same column or another one, and resolve it both ways."""
        self.merge.settle(1)
        for member in (0, number + 1):
            self.update(member, key, columns[0])
        self.merge.settle(2)
        self.update(later, key, columns[0 if is_same else 1])
        self.merge.settle(1)
        for chosen in (winner, Winner.SUBSCRIBER, Winner.PUBLISHER):
            self.resolve(-1, chosen, is_over)

    @precondition(lambda self: any(isinstance(each, ServerMember) for each in self.merge.members))
    @rule(number=st.integers(0, 2), after_bytes=BYTES, tells=TELLS)
    def synchronise_over_failing_network(self, number: int, after_bytes: int, tells: bool) -> None:  # noqa: FBT001
        sync_over_failing_network(self.merge, number, after_bytes, tells=tells)

    @rule(number=st.integers(0, 2))
    def save_file(self, number: int) -> None:
        member = self.merge.subscribers[number % len(self.merge.subscribers)]
        if isinstance(member, FileMember):
            self.saved[number] = self._opened.enter_context(closing(sqlite3.connect(":memory:")))
            member.program.backup(self.saved[number])

    @rule(number=st.integers(0, 2))
    def restore_file(self, number: int) -> None:
        self.put_back(number)

    def put_back(self, number: int) -> None:
        """Put a file back as it was, after all that it had is at the hub; it is refused, and filled again."""
        is_hub = self.is_republished and number == 0
        if number not in self.saved or is_hub or self.merge.sync(number).refused:
            return
        subscriber = self.merge.subscribers[number]
        assert isinstance(subscriber, FileMember)
        self.saved[number].backup(subscriber.program)
        with pytest.raises(NodeRestored):
            self.merge.sync(number)
        merge, _ = self.merge.merge_of(number)
        merge.merge.reinitialize(merge.publication, subscriber.url)

    def come_to_rest(self) -> None:
        self.require_quiet(5)
        self.require_kept()

    def require_kept(self) -> None:
        """Each write that none has seen is at the hub, or in a conflict there."""
        rows = self.merge.hub.rows("item", "id, a, b")
        conflicts = [
            (each.losing_row, each.winning_row)
            for merge in self.merge.merges
            for each in merge.merge.list_conflicts(merge.publication)
        ]
        kept = repr((rows, conflicts))
        assert {value for value in self.writes.accepted - self.writes.seen if value not in kept} == set()


OF_REGION = f"region = '{REGIONS[-1]}' and host_name() = '{REGIONS[0]}'"
HOSTILE = 2
"""The number of the subscriber whose file a stranger edits."""
TAKING = "insert or replace into item (id, rowguid, a, region) values ({key} + 10, '{rowguid}', 'taken', 'e')"
"""By the file's own program, so that it is logged."""
EDITS = (
    TAKING,
    "update MSmerge_stored_contents set rowguid = '{rowguid}' where rowguid in (select rowguid from item limit 1)",
    "update MSmerge_log set rowguid = '{rowguid}' where rowguid in (select rowguid from item limit 1)",
    "insert into MSmerge_log (tablenick, rowguid, kind) select tablenick, '{rowguid}', kind from MSmerge_log limit 1",
    "update MSmerge_stored_contents set lineage = {blob}",
    "update MSmerge_stored_contents set lineage = lineage || {blob}",
    "update MSmerge_stored_contents set lineage = {future}",
    "update MSmerge_stored_contents set colv = X'00630000000000000000{key:04x}'",
    "insert into item (id, rowguid, a, region) values ({key} + 20, upper('{rowguid}'), 'text', 'e')",
    "delete from MSmerge_stored_contents",
    "delete from MSmerge_log",
    "update MSmerge_replinfo set nickname = {nickname}",
    "update sysmerge_stored_subscriptions set recgen = recgen + {key}, sentgen = 0",
    "update item set region = 'n'",
)


class TolerantMerge(Merge):
    """What the edited file makes of its own synchronisations is its own affair, as long as it has a number."""

    def sync(self, number: int = 0) -> Summary:
        try:
            return super().sync(number)
        except RowtideError:
            if number != HOSTILE:
                raise
            return Summary("")

    def cut_sync(self, number: int, commits: int, *, is_before: bool) -> bool:
        try:
            return super().cut_sync(number, commits, is_before=is_before)
        except RowtideError:
            if number != HOSTILE:
                raise
            return True


class TolerantRepublishedMerge(TolerantMerge, RepublishedMerge):
    """The edited file belongs to the regional hub."""


class KeepingOthersWrites(KeepingWrites):
    """A region for each subscriber; the file of one is edited, which must not cost the others a write.

    A regional hub has the region of the file below it, too. Writes in that region may be lost: the file holds its rows,
    and may claim to have received any of them.
    """

    def make(self, members: Sequence[Member]) -> Merge:
        return (TolerantRepublishedMerge if self.is_republished else TolerantMerge)(members[0], members[1:])

    def begin(self) -> None:
        self.writes, self.saved = Writes(), {}
        where = "region = host_name()" + f" or {OF_REGION}" * self.is_republished
        options: dict[str, Any] = self.options | {"resolver": self.resolver, "where": where}
        subscribers = [{"partition": Partition(region)} for region in REGIONS]
        definition = DEFINITION.replace("u varchar(20) unique", "u varchar(20), region varchar(5)")
        self.merge.begin(definition, subscriber_options=subscribers, item=options)

    @rule(member=MEMBERS, key=KEYS, region=st.sampled_from(REGIONS[:2]))
    def insert(self, member: int, key: int, region: str) -> None:
        values, of_member = [self.writes.next() for _ in WRITTEN], (region, *REGIONS)[member]
        listed = f"{key}, '{values[0]}', '{values[1]}', '{of_member}'"
        taken = self.attempt(member, f"insert into item (id, a, b, region) values ({listed})")
        if taken and member != HOSTILE + 1:
            self.writes.accept(values, ())

    @rule(member=MEMBERS, key=KEYS, column=st.sampled_from(WRITTEN))
    def update(self, member: int, key: int, column: str) -> None:
        over, value = self.values_at(member, key, column), self.writes.next()
        is_owed = member != HOSTILE + 1 and self.values_at(member, key, "region") != [REGIONS[HOSTILE]]
        if over and self.attempt(member, f"update item set {column} = '{value}' where id = {key}") and is_owed:
            self.writes.accept([value], over)

    @rule(member=MEMBERS, key=KEYS, column=st.sampled_from(WRITTEN))
    def update_with_unique(self, member: int, key: int, column: str) -> None:
        """There are no unique values here."""
        self.update(member, key, column)

    @rule(place=st.sampled_from(EDITS), key=KEYS, victim=KEYS, blob=st.binary(max_size=20))
    def edit(self, place: str, key: int, victim: int, blob: bytes) -> None:
        device = self.merge.subscribers[HOSTILE]
        rowguids = [rowguid for (rowguid,) in self.merge.hub.execute(f"select rowguid from item where id = {victim}")]
        nickname = read_nickname_of(self.merge.subscribers[0])
        unknown = nickname + len(blob) % 2
        named = {
            "rowguid": str([*rowguids, "none"][0]),
            "key": key,
            "blob": f"X'{blob.hex()}'",
            "nickname": nickname,
            "future": f"X'{unknown:012x}00ffffff'",
        }
        with suppress(sqlite3.Error):
            (device.execute if place is TAKING else device.execute_as_agent)(place.format(**named))
        if device.execute("select count(*) from MSmerge_agent") != [(0,)]:
            device.execute("rollback")

    @precondition(lambda self: any(isinstance(each, ServerMember) for each in self.merge.members))
    @rule(number=st.integers(0, HOSTILE), after_bytes=BYTES, tells=TELLS)
    def synchronise_over_failing_network(self, number: int, after_bytes: int, tells: bool) -> None:  # noqa: FBT001
        with suppress(*[RowtideError] * (number == HOSTILE)):
            sync_over_failing_network(self.merge, number, after_bytes, tells=tells)

    @rule(number=st.integers(0, HOSTILE - 1))
    def restore_file(self, number: int) -> None:
        self.put_back(number)

    @rule(member=st.sampled_from([0, HOSTILE]), key=KEYS, region=st.sampled_from(REGIONS[:2]))
    def take_a_row(self, member: int, key: int, region: str) -> None:
        """Let the file take a row of others that the hub has."""
        self.insert(member, key, region)
        for number in range(HOSTILE):
            self.merge.sync(number)
        self.edit(TAKING, key, key, b"")

    def come_to_rest(self) -> None:
        self.take_a_row(HOSTILE, 4, REGIONS[1])
        for _ in range(5):
            for number in range(len(self.merge.subscribers)):
                self.merge.sync(number)
        for place in range(HOSTILE):
            regions = {REGIONS[place], *REGIONS[-1:] * (self.is_republished and place == 0)}
            mine = [row[:3] for row in self.merge.hub.rows("item", "id, a, b, region") if row[3] in regions]
            assert self.merge.subscribers[place].rows("item", "id, a, b") == mine
        self.require_kept()


def read_nickname_of(member: Member) -> int:
    with open_node(member.url) as node:
        return read_nickname(node.connection)
