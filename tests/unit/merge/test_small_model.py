"""A hub, two nodes and one row: everything that can happen in a few steps, against causal histories.

The reference knows of each version which changes it has seen, as a set, and nothing of counters. What it says of two
versions is what their lineages have to say; in the end all nodes have the same row, two more rounds move nothing, and
each change is in the row, was overwritten by somebody who knew of it, or is in a conflict's record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from rowtide.merge.lineage import Change, Lineage
from rowtide.merge.resolution import combine, prevails, resolve
from rowtide.merge.versions import Combine, Conflict, ConflictKind, Join, Nothing, Presence, RowVersion, Take, compare

HUB, ONE, TWO = 3, 1, 2
NODES = (HUB, ONE, TWO)
PRIORITIES = {HUB: 100.0, ONE: 0.0, TWO: 0.0}
A, B, DELETE = "a", "b", "delete"
STEPS = [*product(NODES, (A, B, DELETE)), *product((ONE, TWO), ("upload", "download"))]
MOST_CHANGES = 2
DEPTH = 5

Wins = Callable[[RowVersion, RowVersion], bool]


@dataclass(frozen=True)
class Told:
    """A user's change: what it knew of, and the column that it set; None for a delete."""

    number: int
    seen: frozenset[int]
    column: str | None


@dataclass(frozen=True)
class Copy:
    """A node's copy of the row: as the product knows it, and as the reference does.

    `writers` are the changes whose values the row has, by column; `deleters` those that took it away. `seen` has
    changes of users and, as negative numbers, decisions; `news` says which of them changed a column last.
    """

    version: RowVersion
    seen: frozenset[int]
    writers: Mapping[str, int]
    news: Mapping[str, int]
    deleters: frozenset[int] = frozenset()


@dataclass(frozen=True)
class World:
    """All copies, all that users did, and what conflicts have recorded as lost."""

    copies: Mapping[int, Copy]
    changes: tuple[Told, ...] = ()
    made: Mapping[int, int] = field(default_factory=dict)
    decisions: int = 0
    recorded: frozenset[int] = frozenset()
    moved: int = 0


def begin(*, tracks_columns: bool) -> World:
    """Return the row as the hub inserted it, everywhere."""
    inserted = Change(HUB, 1)
    version = RowVersion(Presence.LIVE, Lineage((inserted,)), inserted, {} if tracks_columns else None, PRIORITIES[HUB])
    return World({node: Copy(version, frozenset({0}), {}, {}) for node in NODES})


def change(world: World, node: int, what: str) -> World | None:
    """Return the world after a user's change; None where there is no such row or too much was done."""
    copy = world.copies[node]
    if copy.version.presence is Presence.DELETED or world.made.get(node, 0) >= MOST_CHANGES:
        return None
    number = len(world.changes) + 1
    column = None if what == DELETE else what
    lineage = copy.version.lineage.changed_by(node)
    last = Change(node, lineage.version_of(node))
    columns = copy.version.columns
    version = RowVersion(
        Presence.DELETED if column is None else Presence.LIVE,
        lineage,
        last,
        columns if columns is None or column is None else {**columns, column: last},
        PRIORITIES[node],
    )
    seen = copy.seen | {number}
    if column is None:
        changed = Copy(version, seen, copy.writers, copy.news, frozenset({number}))
    else:
        changed = Copy(version, seen, {**copy.writers, column: number}, {**copy.news, column: number})
    return replace(
        world,
        copies={**world.copies, node: changed},
        changes=(*world.changes, Told(number, copy.seen, column)),
        made={**world.made, node: world.made.get(node, 0) + 1},
    )


def exchange(world: World, sender: int, receiver: int, wins: Wins) -> World:
    """Return the world after one row was sent; what a conflict comes to is decided at the hub alone."""
    sent, known = world.copies[sender], world.copies[receiver]
    said = compare(sent.version, known.version)
    assert said == judge(sent, known, tracks_columns=sent.version.columns is not None)
    match said:
        case Nothing():
            return world
        case Take():
            taken = replace(sent, version=replace(sent.version, priority=carried(sender, sent.version.priority)))
            return place(world, receiver, taken)
        case Join():
            joined = replace(known.version, lineage=known.version.lineage.joined(sent.version.lineage))
            deleters = known.deleters | sent.deleters
            return place(
                world, receiver, replace(known, version=joined, seen=known.seen | sent.seen, deleters=deleters)
            )
        case Combine(columns):
            writers = {name: number for name, number in sent.writers.items() if name in columns}
            news = {name: number for name, number in sent.news.items() if name in columns}
            return place(
                world,
                receiver,
                Copy(
                    combine(sent.version, known.version),
                    known.seen | sent.seen,
                    {**known.writers, **writers},
                    {**known.news, **news},
                ),
            )
        case Conflict():
            return decide(world, sent, known, wins) if receiver == HUB else world


def carried(sender: int, priority: float) -> float:
    """A client's change, once it is merged, has the hub's priority."""
    return PRIORITIES[HUB] if sender != HUB else priority


def decide(world: World, sent: Copy, known: Copy, wins: Wins) -> World:
    winner, loser = (sent, known) if wins(sent.version, known.version) else (known, sent)
    decision = -(world.decisions + 1)
    version = replace(resolve(winner.version, loser.version, HUB), priority=PRIORITIES[HUB])
    news = dict.fromkeys({**winner.news, **loser.news}, decision)
    decided = Copy(version, winner.seen | loser.seen | {decision}, winner.writers, news, winner.deleters)
    return replace(
        place(world, HUB, decided),
        decisions=world.decisions + 1,
        recorded=world.recorded | (loser.seen - winner.seen),
    )


def place(world: World, node: int, copy: Copy) -> World:
    return replace(world, copies={**world.copies, node: copy}, moved=world.moved + 1)


def judge(sent: Copy, known: Copy, *, tracks_columns: bool) -> object:
    """The reference: what two versions are to each other, by what each has seen."""
    if sent.seen <= known.seen:
        return Nothing()
    if sent.seen >= known.seen:
        return Take()
    gone = {copy.version.presence for copy in (sent, known) if copy.version.presence is Presence.DELETED}
    if gone:
        both = sent.version.presence is known.version.presence
        return Join() if both else compare_gone(sent)
    if not tracks_columns:
        return CONFLICTS["update-update"]
    ahead = {name for name, number in sent.news.items() if number not in known.seen}
    behind = {name for name, number in known.news.items() if number not in sent.seen}
    if ahead & behind:
        return replace(CONFLICTS["update-update"], columns=frozenset(ahead & behind))
    return Combine(frozenset(ahead))


def compare_gone(sent: Copy) -> Conflict:
    return CONFLICTS["delete-update" if sent.version.presence is Presence.DELETED else "update-delete"]


def run(world: World, step: tuple[int, str], wins: Wins) -> World | None:
    node, what = step
    match what:
        case "upload":
            return exchange(world, node, HUB, wins)
        case "download":
            return exchange(world, HUB, node, wins)
        case _:
            return change(world, node, what)


def settle(world: World, wins: Wins) -> World:
    """Synchronise all until what the one brought has come to the other."""
    for _ in range(2):
        for node in (ONE, TWO):
            world = exchange(exchange(world, node, HUB, wins), HUB, node, wins)
    return world


def all_worlds(world: World, wins: Wins, depth: int) -> Iterator[World]:
    yield world
    if depth == 0:
        return
    for step in STEPS:
        after = run(world, step, wins)
        if after is not None and after is not world:
            yield from all_worlds(after, wins, depth - 1)


def is_kept(world: World, told: Told) -> bool:
    """Tell whether a change is in the row, or was overwritten knowingly."""
    final = world.copies[HUB]
    seen = {change.number: change.seen for change in world.changes}
    if final.deleters:
        return told.column is None or any(told.number in seen[deleter] for deleter in final.deleters)
    if told.column is None:
        return False
    writer = final.writers.get(told.column)
    return writer is not None and (writer == told.number or told.number in seen[writer])


CONFLICTS = {kind.value: Conflict(kind) for kind in ConflictKind}

RESOLVERS: Mapping[str, Wins] = {
    "priority": prevails,
    "publisher wins": lambda _sent, _known: False,
    "subscriber wins": lambda _sent, _known: True,
}


@pytest.mark.parametrize("tracks_columns", [False, True])
@pytest.mark.parametrize("resolver", RESOLVERS)
def test_all_nodes_come_to_the_same_row_and_nothing_is_lost_without_a_record(
    resolver: str,
    tracks_columns: bool,  # noqa: FBT001 - given by parametrize
) -> None:
    wins, count = RESOLVERS[resolver], 0
    for world in all_worlds(begin(tracks_columns=tracks_columns), wins, DEPTH):
        settled = settle(world, wins)
        rows = {
            (copy.version.presence, copy.version.lineage, tuple(sorted(copy.writers.items())), copy.deleters)
            for copy in settled.copies.values()
        }
        assert len(rows) == 1, world
        assert settle(settle(settled, wins), wins).moved == settled.moved, world
        lost = [told for told in settled.changes if not is_kept(settled, told)]
        assert {told.number for told in lost} <= settled.recorded, (settled, lost)
        count += 1
    assert count > 1000
