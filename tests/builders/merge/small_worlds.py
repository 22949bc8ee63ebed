"""One row at a hub and two nodes, and what users do with it: the world of the small models.

The nodes keep what triggers and the agent write. Of each version the reference knows which changes it has seen, as a
set, and nothing of generations.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from rowtide.merge.versions.changes import Row, TombstoneType
from rowtide.merge.versions.comparison import Lineage, NodeChange
from rowtide.merge.versions.stored_metadata import Contents, Tombstone

ONE, TWO, HUB = NODES = (1, 2, 3)
SUBSCRIBERS = (ONE, TWO)
ROWGUID = "r"
UPDATES = {"update a": 0, "update b": 1}
PLACES = frozenset(UPDATES.values())
DELETE, INSERT = "delete", "insert again"
"""The resolvers that make a value of two."""
MOST_CHANGES = 2
"""Of users, at a node."""

Step = tuple[int, str]


class Stamps(dict[int, int]):
    """The generations of the columns that a node has changed itself, by place."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


# A test makes hundreds of thousands of the following: named tuples are made and compared several times faster.


class Told(NamedTuple):
    """A user's change: what it knew of, and the column that it set; None where it was of the whole row."""

    number: int
    seen: frozenset[int]
    place: int | None
    is_delete: bool


class History(NamedTuple):
    """What the reference knows of a version.

    `seen` has changes of users and, as negative numbers, decisions. `touched` are the changes of columns, by place, in
    the life of the row, which began with the insert `born`; `deleters` are those that ended it. `made_of` are the
    changes that a version includes, where it has overridden others of `seen` without including them.
    """

    seen: frozenset[int]
    touched: frozenset[tuple[int, int]] = frozenset()
    born: int = 0
    deleters: frozenset[int] = frozenset()
    made_of: frozenset[int] | None = None


class Replica(NamedTuple):
    """The row at a node: what its tables have, and what the reference knows; `closed` is the last generation."""

    history: History
    row: Row | None
    purged: bytes
    closed: int
    contents: Contents | None = None
    tombstone: Tombstone | None = None

    @property
    def noted(self) -> list[Contents | Tombstone]:
        return [each for each in (self.contents, self.tombstone) if each is not None]


class Link(NamedTuple):
    """The generations up to which a subscriber and the hub have sent to each other.

    `begun` is how far that was when the synchronisation began that is under way. `settled` is the hub's generation that
    nothing can be at odds with any more that is still to come from there, `forgettable` the subscriber's own; `waiting`
    will be that one when the hub has purged its own generation of that synchronisation.
    """

    up: int = 0
    down: int = 1
    begun: tuple[int, int] | None = None
    settled: int = 0
    forgettable: int = 0
    waiting: tuple[int, int] | None = None


class World(NamedTuple):
    """The row everywhere, all that users did, and what conflicts have recorded as lost."""

    replicas: tuple[Replica, ...]
    links: tuple[Link, ...]
    told: frozenset[Told] = frozenset()
    decisions: int = 0
    recorded: frozenset[int] = frozenset()

    def at(self, node: int) -> Replica:
        return self.replicas[node - 1]

    def link(self, subscriber: int) -> Link:
        return self.links[subscriber - 1]

    def with_replica(self, node: int, replica: Replica) -> World:
        return self._replace(replicas=(*self.replicas[: node - 1], replica, *self.replicas[node:]))

    def with_link(self, subscriber: int, link: Link) -> World:
        return self._replace(links=(*self.links[: subscriber - 1], link, *self.links[subscriber:]))


def first_world() -> World:
    """Return the row as the hub had it before it was merged, and as the snapshot brought it to the others."""
    history, row = History(frozenset({0})), ("0", "0")
    subscriber = Replica(history, row, Lineage((NodeChange(HUB, 1),)).encode(), closed=0)
    return World((subscriber, subscriber, Replica(history, row, b"", closed=1)), (Link(), Link()))


def change(world: World, node: int, what: str) -> World | None:
    """Return the world after a user's change; None where there is no such row, or too much was done."""
    replica = world.at(node)
    made = sum(told.number // 10 == node for told in world.told)
    if (replica.row is None) != (what == INSERT) or made == MOST_CHANGES:
        return None
    number = node * 10 + made
    told = Told(number, replica.history.seen, UPDATES.get(what), what == DELETE)
    make = {DELETE: delete, INSERT: insert}.get(what)
    changed = update(replica, number, UPDATES[what]) if make is None else make(replica, number)
    return world.with_replica(node, changed)._replace(told=world.told | {told})


def update(replica: Replica, number: int, at: int) -> Replica:
    """Return a row after an update; what was received stays as what it was made on."""
    assert replica.row is not None
    before, stamp, history = replica.contents, replica.closed + 1, replica.history
    stamps = Stamps({**(before.own_columns if before is not None else {}), at: stamp})
    received = (None, None, None) if before is None else (before.lineage, before.last, before.columns)
    bases = None if before is None else before.bases
    return replica._replace(
        row=(*replica.row[:at], str(number), *replica.row[at + 1 :]),
        contents=Contents(stamp, None, None, *received, stamps, bases or json.dumps([[0, replica.row[0]]])),
        history=history._replace(
            seen=history.seen | {number},
            touched=history.touched | {(at, number)},
            made_of=None if history.made_of is None else history.made_of | {number},
        ),
    )


def insert(replica: Replica, number: int) -> Replica:
    """Return a row that was put back with its rowguid; its tombstone is left."""
    touched, stamp = frozenset((at, number) for at in PLACES), replica.closed + 1
    stamps = Stamps(dict.fromkeys(PLACES, stamp)) if replica.tombstone is not None else Stamps()
    return replica._replace(
        row=(str(number), str(number)),
        contents=Contents(stamp, None, None, None, None, None, stamps),
        history=History(replica.history.seen | {number}, touched, born=number),
    )


def delete(replica: Replica, number: int) -> Replica:
    """Return a row after a delete; its tombstone has the lineage of what was there, or was gone before."""
    lineages = [each.lineage for each in replica.noted if each.lineage is not None]
    return replica._replace(
        row=None,
        contents=None,
        tombstone=Tombstone(replica.closed + 1, None, None, next(iter(lineages), None), None, TombstoneType.USER),
        history=History(replica.history.seen | {number}, deleters=frozenset({number})),
    )
