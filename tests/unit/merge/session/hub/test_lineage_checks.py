"""What a subscriber may say of generations: nothing of those that are still to come."""

from __future__ import annotations

import pytest

from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.errors.nodes import GenerationRefused
from rowtide.merge.session.hub.lineage_checks import LineageChecks
from rowtide.merge.versions.changes import RowChange
from rowtide.merge.versions.comparison import MOST_VERSIONS, Lineage, NodeChange

HUB, DEVICE, OTHER, UNMET = 1, 2, 3, 4
ITEM = Article("item", "public", "item", 7, (ArticleColumn("id", "bigint", is_nullable=False, key_ordinal=1),))
SEEN = Lineage.of([NodeChange(UNMET, 6)])


def checks(generation: int = 10) -> LineageChecks:
    """Return what judges a device at a generation; the hub is at 5, knows 7 of another, and 6 of one it never met."""
    made = LineageChecks("field", DEVICE, 3, {HUB: 5, OTHER: 7}, lambda _nickname: SEEN)
    made.begin(generation)
    return made


def change(*changes: NodeChange, last: NodeChange | None = None) -> RowChange:
    return RowChange("a", Lineage.of(changes).encode(), (last or changes[-1]).encode(), None, ("1",))


LAST = [NodeChange(HUB, 5), NodeChange(DEVICE, 10), NodeChange(OTHER, 7), NodeChange(UNMET, 6)]


@pytest.mark.parametrize("reached", LAST)
def test_a_generation_is_named_once_it_is_reached(reached: NodeChange) -> None:
    checks().require([(ITEM, [change(reached)])], [{}])
    later = NodeChange(reached.nickname, reached.version + 1)
    with pytest.raises(GenerationRefused, match=rf"generation {later.version}, which is still to come"):
        checks().require([(ITEM, [change(later)])], [{}])


def test_a_version_includes_the_change_that_made_it() -> None:
    with pytest.raises(GenerationRefused, match="does not include the change that made it"):
        checks().require([(ITEM, [change(NodeChange(HUB, 5), last=NodeChange(OTHER, 2))])], [{}])


@pytest.mark.parametrize(
    ("generation", "problem"),
    [(2, "at generation 2, and has sent generation 3 before"), (MOST_VERSIONS, "which is too high")],
)
def test_a_device_goes_on_from_what_it_has_sent(generation: int, problem: str) -> None:
    checks(3)
    with pytest.raises(GenerationRefused, match=problem):
        checks(generation)


def test_a_losing_lineage_keeps_what_its_nodes_have_reached() -> None:
    to_come = [NodeChange(DEVICE, 11), NodeChange(OTHER, 8), NodeChange(UNMET, 7)]
    reached = [NodeChange(HUB, 5), *LAST[1:]]
    assert checks().reduce(ITEM, Lineage.of(reached).encode()) == Lineage.of(reached).encode()
    assert checks().reduce(ITEM, Lineage.of([LAST[0], *to_come]).encode()) == Lineage.of(LAST[:1]).encode()
