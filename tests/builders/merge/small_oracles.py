"""What the reference says of the small models: of two versions by what each has seen, and of how all must end."""

from __future__ import annotations

from collections.abc import Callable

from builders.merge.small_worlds import HUB, SUBSCRIBERS, History, Replica, Told, World
from rowtide.merge.articles import Article
from rowtide.merge.versions.comparison import Accept, Combine, Comparison, ConcurrentChangeKind, Conflict, Join, Nothing

MAKING = ("additive", "averaging", "merge-text")
"""The resolvers that make a value of two."""
MADE = 999
"""A value of a procedure's own."""


def decided(won: History, theirs: History, ours: History, decision: int) -> History:
    """Return a decision's history: it has seen all, and touched what either had touched without the other knowing."""
    concurrent = unknown_to(ours, theirs) | unknown_to(theirs, ours)
    touched = won.touched | theirs.touched | ours.touched | {(at, decision) for at in concurrent}
    seen = theirs.seen | ours.seen | {decision}
    return won._replace(seen=seen, touched=frozenset() if won.deleters else touched)


def unknown_to(history: History, other: History) -> frozenset[int]:
    return frozenset(at for at, number in other.touched if number not in history.seen)


def judge(sent: Replica, known: Replica, *, tracks_columns: bool) -> Comparison:
    """The reference: what two versions are to each other, by what each has seen."""
    theirs, ours = sent.history, known.history
    if theirs.seen <= ours.seen:
        return Nothing()
    if theirs.seen >= (ours.seen if ours.made_of is None else ours.made_of):
        return Accept()
    if sent.row is None and known.row is None:
        return Join()
    if sent.row is None or known.row is None:
        return Conflict(ConcurrentChangeKind.DELETE_UPDATE if sent.row is None else ConcurrentChangeKind.UPDATE_DELETE)
    if not tracks_columns:
        return Conflict(ConcurrentChangeKind.UPDATE_UPDATE)
    ahead, behind = unknown_to(ours, theirs), unknown_to(theirs, ours)
    return Conflict(ConcurrentChangeKind.UPDATE_UPDATE, ahead & behind) if ahead & behind else Combine(ahead)


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
    if writer == MADE:
        return told.number in final.history.seen
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
