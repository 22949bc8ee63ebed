"""What can happen to one row at a hub and two nodes, as the product's own functions decide it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, product

from builders.merge.small_oracles import MADE, decided, judge, require_rest
from builders.merge.small_worlds import (
    DELETE,
    HUB,
    INSERT,
    NODES,
    ONE,
    PLACES,
    ROWGUID,
    SUBSCRIBERS,
    UPDATES,
    History,
    Link,
    Replica,
    Stamps,
    Step,
    World,
    change,
    first_world,
)
from rowtide.merge.articles import Article
from rowtide.merge.conflicts.resolvers import (
    Answered,
    Contest,
    Custom,
    Resolver,
    Winner,
    combine,
    decide,
    find_resolver,
    resolve,
    winner_of,
)
from rowtide.merge.session.accepted_versions import accepted
from rowtide.merge.session.hub.decisions import instead
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write
from rowtide.merge.versions.comparison import (
    Accept,
    Combine,
    Comparison,
    Conflict,
    Lineage,
    NodeChange,
    Nothing,
    compare,
    include,
)
from rowtide.merge.versions.stored_metadata import Composer, Contents, Tombstone, append

PRIORITY = 75.0
"""Of both subscriptions: the hub's own changes win, and among theirs those of the lower nickname."""
SYNCHRONISE, UPLOAD, DOWNLOAD = "synchronise", "upload", "download"
REINITIALIZE = "reinitialize"
LOST_UPLOAD, LOST_DOWNLOAD = "upload, its position lost", "download, its position lost"
HALVES = (UPLOAD, DOWNLOAD, LOST_UPLOAD, LOST_DOWNLOAD)


@dataclass(frozen=True)
class Model:
    """What can happen: `purges` says whether metadata go as soon as they may, `whole` that no exchange is in parts.

    `reinitializes` says whether subscribers may be reinitialised; not one that has changes which the hub lacks.
    `answer` is the function of a resolver `procedure`, of the subscriber's row and the publisher's.
    """

    article: Article
    inserts: bool = True
    purges: bool = False
    whole: bool = False
    reinitializes: bool = False
    answer: Callable[[Row, Row], Row | None] | None = None

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
        if isinstance(said, Accept):
            return place(world, receiver, accepted(sent, known, HUB, None), world.at(HUB).history)
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
        self, world: World, sent: RowChange, known: KnownVersion | None, sender: int, said: Comparison
    ) -> World:
        theirs, hub = world.at(sender).history, world.at(HUB)
        if isinstance(said, Nothing):
            return world
        if self.article.is_download_only:
            return self.reject(world, sent, known, theirs)
        if isinstance(said, Accept):
            return place(world, HUB, accepted(sent, known, sender, PRIORITY), theirs)
        assert known is not None
        world = world._replace(decisions=world.decisions + 1)
        won = hub.history
        if isinstance(said, Conflict) and sent.row != hub.row:
            contest = Contest(self.article, sent, known, hub.row, PRIORITY)
            verdict = self._resolver(contest)(contest)
            won, lost = (theirs, won) if winner_of(verdict) is Winner.SUBSCRIBER else (won, theirs)
            # A record has both rows: what of the winner's a procedure omitted is there, too.
            recorded = lost.seen - won.seen
            if self.answer is not None and isinstance(verdict, Custom):
                recorded = lost.seen ^ won.seen
                made = [at for at, value in enumerate(verdict.row) if value == str(MADE)]
                won = won._replace(touched=won.touched | {(at, -world.decisions) for at in made})
            world = world._replace(recorded=world.recorded | recorded)
            write = resolve(contest, verdict)
        elif isinstance(said, Combine):
            assert hub.row is not None
            won = won._replace(born=theirs.born if said.columns == PLACES else won.born)
            write = combine(sent, known, hub.row, said.columns)
        else:
            won = won._replace(deleters=won.deleters | theirs.deleters)
            write = decide(sent, known, sent.row)
        return place(world, HUB, write, decided(won, theirs, hub.history, -world.decisions))

    def reject(self, world: World, sent: RowChange, known: KnownVersion | None, theirs: History) -> World:
        """Return the world after the hub has put its own version in the place of a subscriber's."""
        hub = world.at(HUB)
        if known is None and sent.row is None:
            return world
        lost = theirs.seen - hub.history.seen
        world = world._replace(decisions=world.decisions + 1, recorded=world.recorded | lost)
        history = decided(hub.history, theirs, hub.history, -world.decisions)
        return place(world, HUB, instead(sent, known, hub.row), history)

    def require_rest(self, world: World, synchronise: Callable[[World, int], World]) -> None:
        """All is as it must be after quiet rounds; see `small_oracles.require_rest`."""
        require_rest(self.article, world, synchronise)

    def _resolver(self, contest: Contest) -> Resolver:
        rows = contest.subscriber_row, contest.publisher_row
        if self.answer is None or rows[0] is None or rows[1] is None:
            return find_resolver(self.article)
        return Answered({ROWGUID: self.answer(rows[0], rows[1])}).resolve

    def _composer(self, node: int, replica: Replica) -> Composer:
        return Composer(self.article, node, replica.purged)

    def _compare(self, sent: RowChange, known: KnownVersion | None, sender: Replica, receiver: Replica) -> Comparison:
        """Return what the product says, which is what the reference says."""
        if known is None:
            # Its tombstone was purged: a node that has the row has put it back, and knew of all that was before.
            assert sent.row is None or sender.history.seen >= receiver.history.seen, (sender, receiver)
            return Nothing() if sent.row is None else Accept()
        said = compare(sent.version, known.version)
        judged = judge(sender, receiver, tracks_columns=self.article.column_tracking)
        assert said == judged, (said, judged, sender, receiver)
        return said


def keep_base(article: Article, replica: Replica) -> Replica:
    """Return a node that is about to send its own change of a row, with the additive value that is sent."""
    noted = replica.contents
    if article.additive_column is None or noted is None or noted.bases is None or replica.row is None:
        return replica
    return replica._replace(contents=replace(noted, bases=append(noted.bases, noted.version, replica.row[0])))


def reinitialize(article: Article, world: World, subscriber: int) -> World | None:
    """Return the world after a subscriber was filled again from the hub; None where that loses something."""
    hub, replica = close(world.at(HUB)), world.at(subscriber)
    # Tombstones are not sent: a reinitialised subscriber cannot know that a row existed, and does not put it back.
    if hub.row is None or not replica.history.seen <= hub.history.seen:
        return None
    included = include(hub.purged, NodeChange(HUB, hub.closed))
    world = world.with_replica(HUB, hub).with_link(subscriber, Link(down=hub.closed))
    world = world.with_replica(subscriber, Replica(hub.history, hub.row, included, replica.closed))
    if hub.contents is None:
        return world
    change = Composer(article, HUB, hub.purged).live(ROWGUID, hub.row, hub.contents, hub.tombstone)
    return place(world, subscriber, accepted(change, None, HUB, None)._replace(is_live=True), hub.history)


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
    changes = chain([NodeChange(node, bound)], *(lineage.changes for lineage in included))
    left = replica._replace(
        purged=Lineage.of(changes).encode(),
        contents=None if replica.contents in going else replica.contents,
        tombstone=None if replica.tombstone in going else replica.tombstone,
    )
    return world.with_replica(node, left)


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


def require_rest_everywhere(model: Model, depth: int) -> None:
    """Whatever happened, after a round and what the last one brought all have come to rest."""
    synchronise = cache(model.synchronise)
    settled = set()
    for world in all_worlds(model, depth):
        for subscriber in (*SUBSCRIBERS, ONE):
            world = synchronise(world, subscriber)  # noqa: PLW2901 - one world after another
        if world not in settled:
            settled.add(world)
            model.require_rest(world, synchronise)
    assert any(world.recorded for world in settled)


def require_rest_after(model: Model, steps: Sequence[Step]) -> None:
    """After these steps, and a round and what the last one brought, all have come to rest."""
    world = first_world()
    for step in [*steps, *product((*SUBSCRIBERS, ONE), [SYNCHRONISE])]:
        after = model.run(world, step)
        assert after is not None, step
        world = after
    model.require_rest(world, model.synchronise)
