"""A hub, two devices, a parent and its child: all that can happen in a few steps, against causal histories.

The nodes are SQLite files and the product's own. The reference knows which changes each node had seen when a program
made another one. In the end all nodes have the same rows, foreign keys hold, two more rounds move nothing, and each
change is there, was overwritten by somebody who knew of it, or is in a conflict's record.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import permutations, product
from pathlib import Path
from typing import Any

from builders.merge.merged_databases import PUBLICATION, FileMember, Merge, open_file_member
from builders.merge_machines.merge_machine_base import require_foreign_keys
from rowtide.merge.articles import FilterType

DEFINITIONS = (
    "create table parent (id integer primary key, value text)",
    "create table child (id integer primary key, parent_id integer not null references parent (id), value text)",
    "insert into parent values (1, '0'), (2, '0')",
    "insert into child values (1, 1, '0')",
)
LINK = "child.parent_id = parent.id"
OPERATIONS = {
    "update parent": ("update parent set value = '{mark}' where id = 1",),
    "update child": ("update child set value = '{mark}' where id = 1",),
    "move child": ("update child set parent_id = 2, value = '{mark}' where id = 1",),
    "delete child": ("delete from child where id = 1",),
    "delete both": ("delete from child where parent_id = 1", "delete from parent where id = 1"),
    "insert child": ("insert into child (id, parent_id, value) values ({number}, 1, '{mark}')",),
    "insert child of one key": ("insert into child (id, parent_id, value) values (9, 1, '{mark}')",),
    "insert both of one key": (
        "insert into parent (id, value) values (7, '{mark}')",
        "insert into child (id, parent_id, value) values ({number}, 7, '{mark}')",
    ),
}
"""What a program can do, each in a transaction of its own; `mark` is a value of its own, `number` a key."""
TABLES = ("parent", "child")
COLUMNS = "id, value, cast(rowguid as varchar(36))"

Step = tuple[int, str]
"""An operation of a member, the hub is 0; or a synchronisation of a device."""
SYNCHRONISE = "synchronise"


@dataclass(frozen=True)
class Change:
    """What a program made of a row, None for a delete, and what its node had seen then."""

    table: str
    rowguid: str
    value: str | None
    seen: frozenset[int]


@dataclass
class Family:
    """The three files, and what programs did in them."""

    merge: Merge
    changes: list[Change] = field(default_factory=list)
    seen: list[set[int]] = field(default_factory=lambda: [set(), set(), set()])

    def run(self, steps: Sequence[Step]) -> None:
        """Do what the steps say; what a file's own constraints refuse does not happen."""
        for place, (member, what) in enumerate(steps):
            if what == SYNCHRONISE:
                self.synchronise(member)
            else:
                self._change(member, what, place)

    def synchronise(self, device: int) -> None:
        """Synchronise a device, 1 or 2; each end has then seen what the other had."""
        self.merge.sync(device - 1)
        both = self.seen[0] | self.seen[device]
        self.seen[0], self.seen[device] = set(both), set(both)

    def _change(self, member: int, what: str, place: int) -> None:
        before = self._rows(member)
        file = self.merge.members[member]
        try:
            file.execute("begin")
            for statement in OPERATIONS[what]:
                file.execute(statement.format(mark=f"{member}.{place}", number=100 * (member + 1) + place))
            file.execute("commit")
        except sqlite3.IntegrityError:
            file.execute("rollback")
            return
        after = self._rows(member)
        seen = frozenset(self.seen[member])
        for table, rowguid in sorted(before.keys() | after.keys()):
            if before.get((table, rowguid)) != after.get((table, rowguid)):
                self.seen[member].add(len(self.changes))
                self.changes.append(Change(table, rowguid, after.get((table, rowguid)), seen))

    def require_rest(self) -> None:
        """All have come to the same rows, and no change is lost without a record."""
        for device in (1, 2, 1):
            self.synchronise(device)
        for table in TABLES:
            self.merge.require_equal(table, columns=COLUMNS)
        self.merge.require_equal("child", columns="id, parent_id")
        require_foreign_keys(self.merge)
        assert all(self.merge.sync(number).is_quiet for number in (1, 0, 1, 0))
        self._require_nothing_lost()

    def _require_nothing_lost(self) -> None:
        final, recorded = self._rows(0), {row[4] for row in self.merge.conflicts()}
        for number, change in enumerate(self.changes):
            key = (change.table, change.rowguid)
            later = [other for other in self.changes if (other.table, other.rowguid) == key and number in other.seen]
            is_there = final.get(key) == change.value
            assert is_there or later or change.rowguid in recorded, (change, final)

    def _rows(self, member: int) -> dict[tuple[str, str], str]:
        """Return the rows of a member; a child's value includes which parent it has."""
        values = {
            "parent": "select rowguid, value from parent",
            "child": "select c.rowguid, c.value || ' of ' || p.rowguid "
            "from child c join parent p on p.id = c.parent_id",
        }
        return {
            (table, str(rowguid)): value
            for table, query in values.items()
            for rowguid, value in self.merge.members[member].execute(query)
        }


@contextmanager
def families(
    folder: Path, record: dict[str, Any] | None, *, child: dict[str, Any] | None = None, **options: Any
) -> Iterator[FamilyMaker]:
    """Yield what opens the same three files in their first state, again and again.

    `record` has the options of the record of parent and child, if they are one; `child` those of the child alone.
    """
    with ExitStack() as opened:
        members = [
            opened.enter_context(open_file_member(folder / f"{number}.db", journal="wal")) for number in range(3)
        ]
        merge = Merge(members[0], members[1:])
        members[0].execute(*DEFINITIONS)
        merge.merge.add_publication(PUBLICATION)
        options = {"compensate_for_errors": True, **options}
        merge.merge.add_article(PUBLICATION, "parent", **options, **(record or {}))
        merge.merge.add_article(PUBLICATION, "child", **options | (child or {}))
        if record is not None:
            merge.merge.add_filter(PUBLICATION, "child", "parent", LINK, filter_type=FilterType.RECORD)
        for subscriber in merge.subscribers:
            merge.merge.add_subscription(PUBLICATION, subscriber.url)
    for number in range(3):
        shutil.copy(folder / f"{number}.db", folder / f"{number}.first")
    yield FamilyMaker(folder)


@dataclass(frozen=True)
class FamilyMaker:
    """Opens the files of a folder as they were at first."""

    folder: Path

    @contextmanager
    def open(self) -> Iterator[Family]:
        """Yield the files."""
        for number in range(3):
            for path in self.folder.glob(f"{number}.db*"):
                path.unlink()
            shutil.copy(self.folder / f"{number}.first", self.folder / f"{number}.db")
        with ExitStack() as opened:
            members: list[FileMember] = [
                opened.enter_context(open_file_member(self.folder / f"{number}.db")) for number in range(3)
            ]
            yield Family(Merge(members[0], members[1:]))


def histories(most: int) -> Iterator[list[Step]]:
    """Yield all histories in which each member does up to so many things, between synchronisations in any order.

    The devices synchronise in either order after each turn of operations.
    """
    turns = [("", *OPERATIONS)] * 3
    for chosen in product(product(*turns), repeat=most):
        for order in permutations((1, 2)):
            steps: list[Step] = []
            for turn in chosen:
                steps += [(member, what) for member, what in enumerate(turn) if what]
                steps += [(device, SYNCHRONISE) for device in order]
            yield steps
