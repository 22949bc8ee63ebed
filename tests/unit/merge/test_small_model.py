"""A hub, two nodes and one row: everything that can happen in a few steps, against causal histories.

The nodes keep what triggers and the agent write; what they tell of it, how it is compared and what is decided is the
product's own. The reference knows of each version which changes it has seen, as a set, and nothing of generations. What
it says of two versions is what their lineages have to say; in the end all nodes have the same row, two more rounds move
nothing, and each change is in the row, was overwritten by somebody who knew of it, or is in a conflict's record. Where
a resolver makes a value of two, a change counts as in the row if the row's version has seen it. Upload-only articles
are left out: their nodes are not meant to have the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product
from typing import NamedTuple

import pytest

from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.conflicts.resolution import Contest, Winner, combine, decide, resolve, winner_of
from rowtide.merge.conflicts.resolvers import find_resolver
from rowtide.merge.session.directions import instead
from rowtide.merge.session.exchange import taken
from rowtide.merge.versions.bases import append
from rowtide.merge.versions.changes import Known, Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import Combine, Comparison, Conflict, ConflictKind, Join, Nothing, Take, compare
from rowtide.merge.versions.composition import Composer, Contents, Tombstone
from rowtide.merge.versions.lineage import Change, Lineage, include

ONE, TWO, HUB = NODES = (1, 2, 3)
SUBSCRIBERS = (ONE, TWO)
PRIORITY = 75.0
"""Of both subscriptions: the hub's own changes win, and among theirs those of the lower nickname."""
ROWGUID = "r"
UPDATES = {"update a": 0, "update b": 1}
PLACES = frozenset(UPDATES.values())
DELETE, INSERT = "delete", "insert again"
SYNCHRONISE, UPLOAD, DOWNLOAD = "synchronise", "upload", "download"
REINITIALIZE = "reinitialize"
LOST_UPLOAD, LOST_DOWNLOAD = "upload, its position lost", "download, its position lost"
HALVES = (UPLOAD, DOWNLOAD, LOST_UPLOAD, LOST_DOWNLOAD)
MAKING = ("additive", "averaging", "merge-text")
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
    the life of the row, which began with the insert `born`; `deleters` are those that ended it.
    """

    seen: frozenset[int]
    touched: frozenset[tuple[int, int]] = frozenset()
    born: int = 0
    deleters: frozenset[int] = frozenset()


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
    subscriber = Replica(history, row, Lineage((Change(HUB, 1),)).encode(), closed=0)
    return World((subscriber, subscriber, Replica(history, row, b"", closed=1)), (Link(), Link()))


@dataclass(frozen=True)
class Model:
    """What can happen: `purges` says whether metadata go as soon as they may, `whole` that no exchange is in parts.

    `reinitializes` says whether subscribers may be reinitialised; not one that has changes which the hub lacks.
    """

    article: Article
    inserts: bool = True
    purges: bool = False
    whole: bool = False
    reinitializes: bool = False

    @property
    def steps(self) -> list[Step]:
        changes = (*UPDATES, DELETE, *((INSERT,) if self.inserts else ()))
        exchanges = (SYNCHRONISE, *(() if self.whole else HALVES), *((REINITIALIZE,) if self.reinitializes else ()))
        return [*product(NODES, changes), *product(SUBSCRIBERS, exchanges)]

    def run(self, world: World, step: Step) -> World | None:
        """Return the world after a step, None where it cannot be done."""
        node, what = step
        if what == SYNCHRONISE:
            return self.synchronise(world, node)
        if what == REINITIALIZE:
            return reinitialize(self.article, world, node)
        if what == UPLOAD:
            return self.upload(world, node)
        if what == LOST_UPLOAD:
            return self.deliver(begin_session(world, node), node, HUB)
        if what in (DOWNLOAD, LOST_DOWNLOAD):
            if world.link(node).begun is None:
                return None
            return self.download(world, node) if what == DOWNLOAD else self.deliver(world, HUB, node)
        return change(world, node, what)

    def synchronise(self, world: World, subscriber: int) -> World:
        return self.download(self.upload(world, subscriber), subscriber)

    def upload(self, world: World, subscriber: int) -> World:
        world = self.deliver(begin_session(world, subscriber), subscriber, HUB)
        return world.with_link(subscriber, world.link(subscriber)._replace(up=world.at(subscriber).closed))

    def download(self, world: World, subscriber: int) -> World:
        world = self.deliver(world, HUB, subscriber)
        link = world.link(subscriber)
        assert link.begun is not None
        forgettable, waiting = link.forgettable, link.waiting
        if waiting is not None and waiting[1] <= purged_at_hub(world):
            forgettable, waiting = waiting[0], None
        down = world.at(HUB).closed
        left = Link(link.up, down, None, link.begun[1], forgettable, waiting or (link.up, down))
        world = world.with_link(subscriber, left)
        return purge(purge(world, HUB), subscriber) if self.purges else world

    def deliver(self, world: World, sender: int, receiver: int) -> World:
        """Return the world after a node has sent what it had not sent yet to another."""
        world = world.with_replica(sender, close(world.at(sender)))
        sent = self.find_sent(world, sender, receiver)
        if sent is None:
            return world
        world = world.with_replica(sender, keep_base(self.article, world.at(sender)))
        replica = world.at(receiver)
        known = self._composer(receiver, replica).known(
            is_live=replica.row is not None, contents=replica.contents, tombstone=replica.tombstone
        )
        said = self._compare(sent, known, world.at(sender), replica)
        if receiver == HUB:
            return self.receive_at_hub(world, sent, known, sender, said)
        if isinstance(said, Take):
            return place(world, receiver, taken(sent, known, HUB, None), world.at(HUB).history)
        return world

    def find_sent(self, world: World, sender: int, receiver: int) -> RowChange | None:
        """Return what was noted since the last exchange and came not from the receiver."""
        replica = world.at(sender)
        since = world.link(receiver).down if sender == HUB else world.link(sender).up
        noted = replica.tombstone if replica.row is None else replica.contents
        if noted is None or noted.version <= since or noted.origin == receiver:
            return None
        composer = self._composer(sender, replica)
        if isinstance(noted, Tombstone):
            return composer.gone(ROWGUID, noted)
        assert replica.row is not None
        return composer.live(ROWGUID, replica.row, noted, replica.tombstone)

    def receive_at_hub(
        self, world: World, sent: RowChange, known: Known | None, sender: int, said: Comparison
    ) -> World:
        theirs, hub = world.at(sender).history, world.at(HUB)
        if isinstance(said, Nothing):
            return world
        if self.article.is_download_only:
            return self.reject(world, sent, known, theirs)
        if isinstance(said, Take):
            return place(world, HUB, taken(sent, known, sender, PRIORITY), theirs)
        assert known is not None
        world = world._replace(decisions=world.decisions + 1)
        won = hub.history
        if isinstance(said, Conflict) and sent.row != hub.row:
            contest = Contest(self.article, sent, known, hub.row, PRIORITY)
            verdict = find_resolver(self.article)(contest)
            won, lost = (theirs, won) if winner_of(verdict) is Winner.SUBSCRIBER else (won, theirs)
            world = world._replace(recorded=world.recorded | (lost.seen - won.seen))
            write = resolve(contest, verdict)
        elif isinstance(said, Combine):
            assert hub.row is not None
            won = won._replace(born=theirs.born if said.columns == PLACES else won.born)
            write = combine(sent, known, hub.row, said.columns)
        else:
            won = won._replace(deleters=won.deleters | theirs.deleters)
            write = decide(sent, known, sent.row)
        return place(world, HUB, write, decided(won, theirs, hub.history, -world.decisions))

    def reject(self, world: World, sent: RowChange, known: Known | None, theirs: History) -> World:
        """Return the world after the hub has put its own version in the place of a subscriber's."""
        hub = world.at(HUB)
        if known is None and sent.row is None:
            return world
        lost = theirs.seen - hub.history.seen
        world = world._replace(decisions=world.decisions + 1, recorded=world.recorded | lost)
        history = decided(hub.history, theirs, hub.history, -world.decisions)
        return place(world, HUB, instead(sent, known, hub.row), history)

    def _composer(self, node: int, replica: Replica) -> Composer:
        return Composer(self.article, node, replica.purged)

    def _compare(self, sent: RowChange, known: Known | None, sender: Replica, receiver: Replica) -> Comparison:
        """Return what the product says, which is what the reference says."""
        if known is None:
            # Its tombstone was purged: a node that has the row has put it back, and knew of all that was before.
            assert sent.row is None or sender.history.seen >= receiver.history.seen, (sender, receiver)
            return Nothing() if sent.row is None else Take()
        said = compare(sent.version, known.version)
        judged = judge(sender, receiver, tracks_columns=self.article.column_tracking)
        assert said == judged, (said, judged, sender, receiver)
        return said


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
        history=history._replace(seen=history.seen | {number}, touched=history.touched | {(at, number)}),
    )


def keep_base(article: Article, replica: Replica) -> Replica:
    """Return a node that is about to send its own change of a row, with the additive value that is sent."""
    noted = replica.contents
    if article.additive_column is None or noted is None or noted.bases is None or replica.row is None:
        return replica
    return replica._replace(contents=replace(noted, bases=append(noted.bases, noted.version, replica.row[0])))


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


def reinitialize(article: Article, world: World, subscriber: int) -> World | None:
    """Return the world after a subscriber was filled again from the hub; None where that loses something."""
    hub, replica = close(world.at(HUB)), world.at(subscriber)
    # Tombstones are not sent: a reinitialised subscriber cannot know that a row existed, and does not put it back.
    if hub.row is None or not replica.history.seen <= hub.history.seen:
        return None
    included = include(hub.purged, Change(HUB, hub.closed))
    world = world.with_replica(HUB, hub).with_link(subscriber, Link(down=hub.closed))
    world = world.with_replica(subscriber, Replica(hub.history, hub.row, included, replica.closed))
    if hub.contents is None:
        return world
    change = Composer(article, HUB, hub.purged).live(ROWGUID, hub.row, hub.contents, hub.tombstone)
    return place(world, subscriber, taken(change, None, HUB, None)._replace(is_live=True), hub.history)


def begin_session(world: World, subscriber: int) -> World:
    link = world.link(subscriber)
    return world.with_link(subscriber, link._replace(begun=(link.up, link.down)))


def close(replica: Replica) -> Replica:
    """Return a node whose open generation is closed, if anything is in it."""
    is_stamped = any(each.version > replica.closed for each in replica.noted)
    return replica._replace(closed=replica.closed + 1) if is_stamped else replica


def place(world: World, node: int, write: Write, history: History) -> World:
    """Return the world after the agent has written a row, and what is to be known of it."""
    replica = world.at(node)
    stamp = replica.closed + 1
    contents, tombstone = None, None
    if write.row is None:
        tombstone = Tombstone(stamp, write.origin, write.priority, write.lineage, write.last, write.tombstone)
    else:
        stamps = Stamps(dict.fromkeys(write.own_columns, stamp))
        contents = Contents(stamp, write.origin, write.priority, write.lineage, write.last, write.columns, stamps)
    assert write.is_live == (replica.row is not None)
    return world.with_replica(node, Replica(history, write.row, replica.purged, replica.closed, contents, tombstone))


def purged_at_hub(world: World) -> int:
    return min(link.settled for link in world.links)


def purge(world: World, node: int) -> World:
    """Return the world after a node has forgotten what is settled with all that it exchanges with."""
    replica = world.at(node)
    bound = purged_at_hub(world) if node == HUB else world.link(node).forgettable
    going = [each for each in replica.noted if each.version <= bound]
    if not going:
        return world
    included = [Lineage.decode(each) for each in (replica.purged, *(each.lineage or b"" for each in going))]
    changes = chain([Change(node, bound)], *(lineage.changes for lineage in included))
    left = replica._replace(
        purged=Lineage.of(changes).encode(),
        contents=None if replica.contents in going else replica.contents,
        tombstone=None if replica.tombstone in going else replica.tombstone,
    )
    return world.with_replica(node, left)


def decided(won: History, theirs: History, ours: History, decision: int) -> History:
    """Return a decision's history: it has seen all, and touched what either had touched without the other knowing."""
    concurrent = unknown_to(ours, theirs) | unknown_to(theirs, ours)
    touched = theirs.touched | ours.touched | {(at, decision) for at in concurrent}
    seen = theirs.seen | ours.seen | {decision}
    return won._replace(seen=seen, touched=frozenset() if won.deleters else touched)


def unknown_to(history: History, other: History) -> frozenset[int]:
    return frozenset(at for at, number in other.touched if number not in history.seen)


def judge(sent: Replica, known: Replica, *, tracks_columns: bool) -> Comparison:
    """The reference: what two versions are to each other, by what each has seen."""
    theirs, ours = sent.history, known.history
    if theirs.seen <= ours.seen:
        return Nothing()
    if theirs.seen >= ours.seen:
        return Take()
    if sent.row is None and known.row is None:
        return Join()
    if sent.row is None or known.row is None:
        return Conflict(ConflictKind.DELETE_UPDATE if sent.row is None else ConflictKind.UPDATE_DELETE)
    if not tracks_columns:
        return Conflict(ConflictKind.UPDATE_UPDATE)
    ahead, behind = unknown_to(ours, theirs), unknown_to(theirs, ours)
    return Conflict(ConflictKind.UPDATE_UPDATE, ahead & behind) if ahead & behind else Combine(ahead)


def all_worlds(model: Model, depth: int) -> Iterator[World]:
    """Yield all worlds that some steps lead to, each once."""
    level, steps = [first_world()], model.steps
    found = set(level)
    yield from level
    for _ in range(depth):
        following = []
        for world, step in product(level, steps):
            after = model.run(world, step)
            if after is not None and after not in found:
                found.add(after)
                following.append(after)
                yield after
        level = following


def is_kept(article: Article, world: World, told: Told) -> bool:
    """Tell whether a change is in the row, or was overwritten knowingly."""
    final = world.at(HUB)
    if final.row is not None and told.place == 0 and article.resolver.startswith(MAKING):
        return told.number in final.history.seen
    seen = {0: frozenset[int](), **{each.number: each.seen for each in world.told}}
    if final.row is None:
        deleters = {each for replica in world.replicas for each in replica.history.deleters}
        return told.is_delete or any(told.number in seen[deleter] for deleter in deleters)
    writer = final.history.born if told.place is None else int(final.row[told.place] or 0)
    return told.number == writer or told.number in seen[writer] | seen[final.history.born]


def is_quiet(before: World, after: World) -> bool:
    """Tell whether nothing was written: what is known of the row is the same, or was purged."""
    return all(
        was.row == now.row and now.contents in (None, was.contents) and now.tombstone in (None, was.tombstone)
        for was, now in zip(before.replicas, after.replicas, strict=True)
    )


def require_rest(article: Article, world: World, synchronise: Callable[[World, int], World]) -> None:
    """All have the same row, two more rounds move nothing, and what was lost is recorded."""
    assert len({replica.row for replica in world.replicas}) == 1, world
    after = world
    for subscriber in SUBSCRIBERS * 2:
        before, after = after, synchronise(after, subscriber)
        assert is_quiet(before, after), (before, after)
    lost = {told.number for told in world.told if not is_kept(article, world, told)}
    assert lost <= world.recorded, (lost, world)


def require_rest_everywhere(model: Model, depth: int) -> None:
    """Whatever happened, after a round and what the last one brought all have come to rest."""
    synchronise = cache(model.synchronise)
    settled = set()
    for world in all_worlds(model, depth):
        for subscriber in (*SUBSCRIBERS, ONE):
            world = synchronise(world, subscriber)  # noqa: PLW2901 - one world after another
        if world not in settled:
            settled.add(world)
            require_rest(model.article, world, synchronise)
    assert any(world.recorded for world in settled)


def require_rest_after(model: Model, steps: Sequence[Step]) -> None:
    """After these steps, and a round and what the last one brought, all have come to rest."""
    world = first_world()
    for step in [*steps, *product((*SUBSCRIBERS, ONE), [SYNCHRONISE])]:
        after = model.run(world, step)
        assert after is not None, step
        world = after
    require_rest(model.article, world, model.synchronise)


def article(resolver: str, *, tracks_columns: bool) -> Article:
    type_text = "text" if resolver.startswith("merge-text") else "bigint"
    columns = tuple(ArticleColumn(name, type_text, is_nullable=True, key_ordinal=None) for name in "ab")
    return Article("t", "", "t", 1, columns, column_tracking=tracks_columns, resolver=resolver)


LESS_OFTEN = (
    "publisher-wins",
    "download-only",
    "later-wins:a",
    "earlier-wins:a",
    "maximum:a",
    "minimum:a",
    "priority-column:a",
    "additive:a",
    "averaging:a",
    "merge-text:a:;",
)
RESOLVERS = pytest.mark.parametrize(
    "resolver",
    ["subscriber-wins", "priority", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in LESS_OFTEN)],
)
SOAK = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("depth", [4, pytest.param(6, marks=SOAK)])
@pytest.mark.parametrize("tracks_columns", [False, True])
@RESOLVERS
def test_rows_come_to_rest_and_nothing_is_lost_without_a_record(
    resolver: str,
    tracks_columns: bool,  # noqa: FBT001 - given by parametrize
    depth: int,
) -> None:
    require_rest_everywhere(Model(article(resolver, tracks_columns=tracks_columns)), depth)


@pytest.mark.parametrize(
    ("resolver", "depth"),
    [("priority", 4), *(pytest.param(name, 7, marks=SOAK) for name in ("publisher-wins", "subscriber-wins"))],
)
def test_metadata_may_be_purged_as_soon_as_they_are_settled(resolver: str, depth: int) -> None:
    model = Model(article(resolver, tracks_columns=False), purges=True, whole=True)
    require_rest_everywhere(model, depth)


@pytest.mark.parametrize(("resolver", "depth"), [("priority", 4), pytest.param("publisher-wins", 6, marks=SOAK)])
def test_metadata_may_be_purged_with_column_tracking_too(resolver: str, depth: int) -> None:
    model = Model(article(resolver, tracks_columns=True), purges=True)
    require_rest_everywhere(model, depth)


@pytest.mark.parametrize(("resolver", "depth"), [("priority", 4), pytest.param("publisher-wins", 6, marks=SOAK)])
def test_a_subscriber_may_be_reinitialised_at_any_time(resolver: str, depth: int) -> None:
    model = Model(article(resolver, tracks_columns=False), purges=True, whole=True, reinitializes=True)
    require_rest_everywhere(model, depth)


PURGED_AT_ONE = [(ONE, SYNCHRONISE), (ONE, SYNCHRONISE)]
CHANGED_AT_TWO = [(TWO, "update a"), (TWO, SYNCHRONISE)]


def test_update_that_beats_a_delete_keeps_changes_before_a_purge() -> None:
    model = Model(article("subscriber-wins", tracks_columns=True), purges=True)
    won = [(ONE, "update b"), (HUB, DELETE), (ONE, SYNCHRONISE)]

    require_rest_after(model, [(ONE, "update a"), *PURGED_AT_ONE, *won, *CHANGED_AT_TWO])


def test_reinserted_row_is_new_in_all_columns_after_a_purge() -> None:
    model = Model(article("priority", tracks_columns=True), purges=True)

    require_rest_after(model, [(ONE, DELETE), *PURGED_AT_ONE, (ONE, INSERT), (ONE, SYNCHRONISE), *CHANGED_AT_TWO])


def test_a_reinitialised_one_undoes_nothing_known_of_columns() -> None:
    model = Model(article("priority", tracks_columns=True))
    begun = [(ONE, REINITIALIZE), (ONE, "update b"), (ONE, SYNCHRONISE)]

    require_rest_after(model, [(HUB, "update a"), *begun, *CHANGED_AT_TWO])
