"""The small model of an upload-only article: what subscribers insert and update goes up, and nothing comes down.

A subscriber never learns of others' changes, so its own next change must not be held against it: the hub's version of
the row is the subscriber's, and still knows of what it has overridden.
"""

from __future__ import annotations

from collections.abc import Callable

from builders.merge.small_models import PRIORITY, Model, place
from builders.merge.small_oracles import is_kept, is_quiet, unknown_to
from builders.merge.small_worlds import HUB, PLACES, SUBSCRIBERS, History, Told, World
from rowtide.merge.session.accepted_versions import accepted
from rowtide.merge.session.hub.decisions import uploaded
from rowtide.merge.versions.changes import KnownVersion, RowChange
from rowtide.merge.versions.comparison import Comparison, Conflict, Nothing


class Uploading(Model):
    """What can happen to a row of an upload-only article."""

    def find_sent(self, world: World, sender: int, receiver: int) -> RowChange | None:
        """Return what a subscriber sends; it keeps its deletes to itself."""
        return None if sender == HUB or world.at(sender).row is None else super().find_sent(world, sender, receiver)

    def receive_at_hub(
        self, world: World, sent: RowChange, known: KnownVersion | None, sender: int, said: Comparison
    ) -> World:
        """Return the world after the hub has stored the subscriber's version, and recorded what that overrides."""
        if isinstance(said, Nothing):
            return world
        before, theirs, ours = world.at(HUB).row, world.at(sender).history, world.at(HUB).history
        if known is None:
            return place(world, HUB, accepted(sent, None, sender, PRIORITY), theirs)
        if isinstance(said, Conflict):
            world = world._replace(recorded=world.recorded | (ours.seen - theirs.seen))
        world = world._replace(decisions=world.decisions + 1)
        ahead = unknown_to(ours, theirs)
        is_combined = before is not None and sent.columns is not None
        history = theirs._replace(seen=theirs.seen | ours.seen, made_of=theirs.seen)
        if is_combined:
            kept = {(at, number) for at, number in ours.touched if at not in ahead}
            history = History(
                theirs.seen | ours.seen | {-world.decisions},
                frozenset(kept | {(at, number) for at, number in theirs.touched if at in ahead}),
                theirs.born if ahead == PLACES else ours.born,
            )
        after = place(world, HUB, uploaded(sent, known, before, sender, PRIORITY), history)
        assert sent.row is not None
        expected = [
            theirs_at if at in ahead or before is None or not is_combined else before[at]
            for at, theirs_at in enumerate(sent.row)
        ]
        assert after.at(HUB).row == tuple(expected), (after, sent)
        return after

    def require_rest(self, world: World, synchronise: Callable[[World, int], World]) -> None:
        """Two more rounds move nothing, and what is not at the hub was omitted by the subscriber, or is recorded."""
        after = world
        for subscriber in SUBSCRIBERS * 2:
            before, after = after, synchronise(after, subscriber)
            assert is_quiet(before, after), (before, after)
        lost = {told.number for told in world.told if not self._is_kept(world, told)}
        assert lost <= world.recorded, (lost, world)

    def _is_kept(self, world: World, told: Told) -> bool:
        """Tell whether a change is at the hub, was overwritten knowingly, or is a subscriber's delete or before one."""
        node = told.number // 10
        deletes = [each for each in world.told if each.is_delete and each.number // 10 == node != HUB]
        return (
            told in deletes or any(told.number in each.seen for each in deletes) or is_kept(self.article, world, told)
        )
