"""Three levels of tables whose foreign keys act, changed at random anywhere, against causal histories.

The reference knows which changes each node had seen when a program made another one. In the end all nodes have the same
rows, foreign keys hold, more rounds move nothing, and each change is there, was overwritten by somebody who knew of it,
or is in a conflict's record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from builders.merge.failing_networks import MOST_BYTES, sync_over_failing_network
from builders.merge.merged_databases import SERVER, Member, Merge
from builders.merge_machines.merge_machine_base import attempt, require_foreign_keys
from rowtide.merge.session.history import Summary

ACTIONS = (
    "on delete cascade",
    "on delete set null",
    "on delete set default",
    "on delete cascade on update cascade",
    "on delete set null on update cascade",
    "on delete restrict on update cascade",
    "on delete cascade on update set null",
)
TABLES = ("parent", "child", "leaf")
_KEYS = (1, 2, 3)
_DEFINITIONS = (
    "create table parent (id integer primary key, value varchar(20))",
    (
        "create table child (id integer primary key, parent_id integer default 2 references parent (id) {action}, "
        "value varchar(20))"
    ),
    (
        "create table leaf (id integer primary key, child_id integer default 2 references child (id) {action}, "
        "above_id integer references leaf (id) {above}, value varchar(20))"
    ),
    "insert into parent values (1, 'first'), (2, 'first'), (3, 'first')",
    "insert into child values (1, 1, 'first'), (2, 2, 'first'), (3, 1, 'first')",
    "insert into leaf values (1, 1, null, 'first'), (2, 2, 1, 'first'), (3, 3, null, 'first')",
)
_LINKS = {"parent": {}, "child": {"parent_id": "parent"}, "leaf": {"child_id": "child", "above_id": "leaf"}}
_VALUES = {
    "parent": "select t.rowguid, t.value from parent t",
    "child": "select t.rowguid, t.value, p.rowguid from child t left join parent p on p.id = t.parent_id",
    "leaf": (
        "select t.rowguid, t.value, c.rowguid, a.rowguid from leaf t left join child c on c.id = t.child_id "
        "left join leaf a on a.id = t.above_id"
    ),
}
"""The queries of rows, each with the rows that it references."""
Key = tuple[str, str]
"""A table, and a rowguid."""
Row = tuple[str | None, ...]
"""A row's value, and the rowguids of the rows that it references."""


@dataclass(frozen=True)
class Change:
    """What a program made of a row's columns, None for a delete, and which changes its node had seen then."""

    key: Key
    values: Mapping[int, object] | None
    seen: frozenset[int]

    def is_there(self, row: Row | None) -> bool:
        """Whether a row is as it was made."""
        if self.values is None or row is None:
            return self.values is None and row is None
        return all(row[place] == value for place, value in self.values.items())


@dataclass
class Cascading:
    """Members, the first of which is the hub; `merges` have, by member, what it synchronises by, and the upper member.

    With a regional hub this is the second member, to which the third one belongs.
    """

    members: Sequence[Member]
    random: Random
    merges: dict[int, tuple[Merge, int, int]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    seen: list[set[int]] = field(default_factory=list)
    is_silent: bool = False
    """Whether networks fail in silence, too, which takes seconds each time."""

    def begin(self, action: str, *, is_republished: bool, **options: Any) -> None:
        """Publish the tables, through a regional hub if that is wanted, and subscribe all."""
        hub, *others = self.members
        above = action.replace("default", "null")
        articles: dict[str, Any] = {table: {"compensate_for_errors": True} | options for table in TABLES}
        definitions = [each.format(action=action, above=above) for each in _DEFINITIONS]
        if is_republished:
            region, below, *rest = others
            upper, lower = Merge(hub, [region, *rest]), Merge(region, [below], "region")
            upper.begin(*definitions, subscriber_options=[SERVER, *({} for _ in rest)], **articles)
            lower.begin(**articles)
            self.merges = {1: (upper, 0, 0), 2: (lower, 0, 1)}
            self.merges |= {place: (upper, place - 2, 0) for place in range(3, len(self.members))}
        else:
            merge = Merge(hub, others)
            merge.begin(*definitions, **articles)
            self.merges = {place: (merge, place - 1, 0) for place in range(1, len(self.members))}
        self.seen = [set() for _ in self.members]

    def work(self, steps: int) -> None:
        """Let programs change rows, and members synchronise, whole or cut."""
        for step in range(steps):
            if self.random.random() < 0.22:
                self.synchronise(self.random.choice(list(self.merges)))
            elif self.random.random() < 0.08:
                self._cut(self.random.choice(list(self.merges)))
            else:
                self._change(self.random.randrange(len(self.members)), step)

    def synchronise(self, member: int) -> Summary:
        """Synchronise a member with the one above it; each has then seen what the other had."""
        merge, number, upper = self.merges[member]
        summary = merge.sync(number)
        both = self.seen[member] | self.seen[upper]
        self.seen[member], self.seen[upper] = set(both), set(both)
        return summary

    def _cut(self, member: int) -> None:
        """Synchronise, cut off somewhere, and again: between the two, what each has seen is not known."""
        merge, number, _ = self.merges[member]
        if self.random.random() < 0.5:
            merge.cut_sync(number, self.random.randint(1, 9), is_before=self.random.random() < 0.5)
        else:
            tells = not self.is_silent or self.random.random() < 0.7
            sync_over_failing_network(merge, number, self.random.randrange(MOST_BYTES), tells=tells)
        self.synchronise(member)

    def _change(self, member: int, step: int) -> None:
        before = rows_of(self.members[member])
        attempt(self.members[member], self._statement(f"{member}.{step}", 100 * (member + 1) + step))
        after = rows_of(self.members[member])
        seen = frozenset(self.seen[member])
        for key in sorted(before.keys() | after.keys()):
            if before.get(key) != after.get(key):
                self.seen[member].add(len(self.changes))
                self.changes.append(Change(key, _changed(before.get(key), after.get(key)), seen))

    def _statement(self, mark: str, number: int) -> str:
        table, key, other = self.random.choice(TABLES), self.random.choice(_KEYS), self.random.choice(_KEYS)
        what = self.random.choice(("insert", "update", "move", "delete", "rekey"))
        links = _LINKS[table]
        if what == "insert":
            columns, values = ", ".join(["id", *links, "value"]), ", ".join([str(number), *(str(key) for _ in links)])
            return f"insert into {table} ({columns}) values ({values}, '{mark}')"
        if what == "move" and links:
            return f"update {table} set {self.random.choice(list(links))} = {other}, value = '{mark}' where id = {key}"
        if what == "delete":
            return f"delete from {table} where id = {key}"
        if what == "rekey":
            return f"update {table} set id = {self.random.choice((other, number))} where id = {key}"
        return f"update {table} set value = '{mark}' where id = {key}"

    def require_rest(self) -> None:
        """All have come to the same rows, and no change is lost without a record."""
        for _ in range(4):
            for member in self.merges:
                self.synchronise(member)
        hub, *others = (rows_of(member) for member in self.members)
        assert all(each == hub for each in others)
        for merge in {id(merge): merge for merge, _, _ in self.merges.values()}.values():
            require_foreign_keys(merge)
        summaries = [self.synchronise(member) for _ in range(2) for member in self.merges]
        assert all(each.is_quiet and not each.refused for each in summaries)
        self._require_nothing_lost(hub)

    def _require_nothing_lost(self, final: Mapping[Key, Row]) -> None:
        recorded = {
            each.rowguid
            for merge in {id(merge): merge for merge, _, _ in self.merges.values()}.values()
            for each in merge.merge.list_conflicts()
        }
        for number, change in enumerate(self.changes):
            is_there, is_recorded = change.is_there(final.get(change.key)), change.key[1] in recorded
            assert is_there or is_recorded or self._is_overwritten(number, final.get(change.key)), (number, change)

    def _is_overwritten(self, number: int, final: Row | None) -> bool:
        """Whether what is not there any more of a change was changed by somebody who knew of it."""
        change = self.changes[number]
        later = [each for each in self.changes if each.key == change.key and number in each.seen]
        if change.values is None or any(each.values is None for each in later):
            return bool(later)
        left = {place for place, value in change.values.items() if final is None or final[place] != value}
        return final is not None and left <= {place for each in later for place in each.values or ()}


def rows_of(member: Member) -> dict[Key, Row]:
    """Return the rows of a member, each as its value and the rows that it references."""
    return {
        (table, str(rowguid)): tuple(None if value is None else str(value) for value in values)
        for table, query in _VALUES.items()
        for rowguid, *values in member.execute(query)
    }


def _changed(before: Row | None, after: Row | None) -> dict[int, object] | None:
    if after is None:
        return None
    return {place: value for place, value in enumerate(after) if before is None or before[place] != value}
