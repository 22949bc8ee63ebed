"""Lineages: what they include, and how they are written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowtide.merge.lineage import Change, Lineage

CHANGES = st.lists(st.builds(Change, st.integers(1, 3) | st.integers(1, (1 << 48) - 1), st.integers(1, (1 << 32) - 1)))


@given(CHANGES)
def test_a_lineage_is_read_as_it_was_written(changes: list[Change]) -> None:
    lineage = Lineage.of(changes)

    assert Lineage.decode(lineage.encode()) == lineage
    assert len(lineage.encode()) == 10 * len({change.nickname for change in changes})


@given(CHANGES, CHANGES)
def test_joined_lineages_include_what_either_does_and_nothing_else(ours: list[Change], theirs: list[Change]) -> None:
    one, other = Lineage.of(ours), Lineage.of(theirs)
    joined = one.joined(other)

    assert all(map(joined.includes, [*ours, *theirs]))
    assert joined == other.joined(one)
    assert all(one.includes(change) or other.includes(change) for change in joined.changes)


@given(CHANGES, CHANGES)
def test_one_covers_another_if_they_join_to_it(ours: list[Change], theirs: list[Change]) -> None:
    one, other = Lineage.of(ours), Lineage.of(theirs)

    assert one.covers(other) == (one.joined(other) == one)


def test_a_node_counts_its_own_changes() -> None:
    once = Lineage.EMPTY.changed_by(7)

    assert once.changed_by(7) == Lineage((Change(7, 2),))
    assert once.changed_by(3) == Lineage((Change(3, 1), Change(7, 1)))
    assert not once.covers(once.changed_by(3))
