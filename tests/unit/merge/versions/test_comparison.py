"""What two versions of a row are to each other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from rowtide.merge.versions.comparison import (
    Accept,
    Combine,
    Comparison,
    ConcurrentChangeKind,
    Conflict,
    Join,
    Lineage,
    NodeChange,
    Nothing,
    Presence,
    RowVersion,
    compare,
    concurrent_columns,
    decode_columns,
    encode_columns,
)

HUB, ONE = 1, 2
A, B, C = 0, 1, 2
LIVE, DELETED = Presence.LIVE, Presence.DELETED


def version(
    last: NodeChange | None,
    *others: NodeChange,
    presence: Presence = LIVE,
    columns: Mapping[int, NodeChange] | None = None,
) -> RowVersion:
    """Return a version that was made by a change on top of others."""
    changes = others if last is None else (*others, last)
    return RowVersion(presence, Lineage.of(changes), last, columns)


HUB_2, ONE_3 = NodeChange(HUB, 2), NodeChange(ONE, 3)
CONCURRENT = version(ONE_3, NodeChange(HUB, 1)), version(HUB_2, NodeChange(ONE, 2))


@pytest.mark.parametrize(
    ("sent", "known", "expected"),
    [
        pytest.param(version(ONE_3, HUB_2), version(ONE_3, HUB_2), Nothing(), id="the same version"),
        pytest.param(version(ONE_3), version(HUB_2, ONE_3), Nothing(), id="an older one"),
        pytest.param(version(NodeChange(ONE, 2)), version(HUB_2, ONE_3), Nothing(), id="one between others"),
        pytest.param(version(ONE_3, presence=DELETED), version(HUB_2, ONE_3), Nothing(), id="an older tombstone"),
        pytest.param(version(ONE_3, HUB_2), version(HUB_2), Accept(), id="a newer one"),
        pytest.param(version(ONE_3, NodeChange(HUB, 4)), version(HUB_2), Accept(), id="a newer one with more between"),
        pytest.param(version(ONE_3, HUB_2, presence=DELETED), version(HUB_2), Accept(), id="a newer tombstone"),
        pytest.param(version(ONE_3, HUB_2), version(HUB_2, presence=DELETED), Accept(), id="put back knowingly"),
        pytest.param(*CONCURRENT, Conflict(ConcurrentChangeKind.UPDATE_UPDATE), id="concurrent"),
    ],
)
def test_versions_are_compared_by_the_last_change_of_each(
    sent: RowVersion, known: RowVersion, expected: Comparison
) -> None:
    assert compare(sent, known) == expected


@pytest.mark.parametrize(
    ("sent", "known", "expected"),
    [
        (LIVE, DELETED, Conflict(ConcurrentChangeKind.UPDATE_DELETE)),
        (DELETED, LIVE, Conflict(ConcurrentChangeKind.DELETE_UPDATE)),
        (DELETED, DELETED, Join()),
    ],
)
@pytest.mark.parametrize("columns", [None, {A: ONE_3}])
def test_columns_are_irrelevant_if_one_side_deleted_the_row(
    sent: Presence, known: Presence, expected: Comparison, columns: Mapping[int, NodeChange] | None
) -> None:
    ours = version(ONE_3, presence=sent, columns=columns if sent is LIVE or columns is None else {})
    theirs = version(HUB_2, presence=known, columns=None if columns is None else {})

    assert compare(ours, theirs) == expected


def test_row_without_metadata_yields_to_any_unknown_change() -> None:
    untouched = version(None, HUB_2)

    assert compare(version(ONE_3), untouched) == Accept()
    assert compare(version(NodeChange(HUB, 3)), untouched) == Accept()
    assert compare(version(HUB_2), untouched) == Nothing()


def test_concurrently_changed_columns_are_combined() -> None:
    sent = version(ONE_3, columns={A: ONE_3})
    known = version(HUB_2, columns={B: HUB_2})

    assert compare(sent, known) == Combine(frozenset({A}))


def test_column_change_the_other_knew_is_no_conflict() -> None:
    both_know = NodeChange(HUB, 1)
    sent = version(ONE_3, both_know, columns={A: ONE_3, B: both_know, C: NodeChange(ONE, 2)})
    known = version(HUB_2, NodeChange(ONE, 2), columns={B: HUB_2, C: NodeChange(ONE, 2)})

    assert compare(sent, known) == Combine(frozenset({A}))


def test_conflicting_columns_are_those_both_sides_changed() -> None:
    sent = version(ONE_3, columns={A: ONE_3, B: NodeChange(ONE, 2)})
    known = version(HUB_2, columns={B: NodeChange(HUB, 1), C: HUB_2})

    assert compare(sent, known) == Conflict(ConcurrentChangeKind.UPDATE_UPDATE, frozenset({B}))
    assert concurrent_columns(sent, known) == {A, B, C}


def test_without_column_tracking_on_a_side_any_updates_conflict() -> None:
    sent, known = version(ONE_3, columns={A: ONE_3}), version(HUB_2)

    assert compare(sent, known) == Conflict(ConcurrentChangeKind.UPDATE_UPDATE)
    assert concurrent_columns(sent, known) == {A}


CHANGE = st.builds(NodeChange, st.integers(1, 3) | st.integers(1, (1 << 48) - 1), st.integers(1, (1 << 32) - 1))
CHANGES = st.lists(CHANGE)


@given(CHANGES)
def test_a_lineage_is_read_as_it_was_written(changes: list[NodeChange]) -> None:
    lineage = Lineage.of(changes)

    assert Lineage.decode(lineage.encode()) == lineage
    assert len(lineage.encode()) == 10 * len({change.nickname for change in changes})


def test_an_entry_is_six_bytes_of_nickname_and_four_of_version() -> None:
    change = NodeChange(0x0102_0304_0506, 0x0708_090A)

    assert change.encode() == bytes(range(1, 11))
    assert NodeChange.decode(bytes(range(1, 11))) == change


@given(CHANGES)
def test_lineage_includes_each_node_up_to_its_last_change(changes: list[NodeChange]) -> None:
    lineage = Lineage.of(changes)

    for change in changes:
        last = max(other.version for other in changes if other.nickname == change.nickname)
        assert lineage.version_of(change.nickname) == last
        assert lineage.includes(change)
        assert not lineage.includes(NodeChange(change.nickname, last + 1))


@given(CHANGES, CHANGES)
def test_joined_lineage_includes_exactly_what_either_does(ours: list[NodeChange], theirs: list[NodeChange]) -> None:
    one, other = Lineage.of(ours), Lineage.of(theirs)
    joined = one.joined(other)

    assert all(map(joined.includes, [*ours, *theirs]))
    assert joined == other.joined(one)
    assert all(one.includes(change) or other.includes(change) for change in joined.changes)


def test_change_advances_its_own_node_and_never_moves_it_back() -> None:
    lineage = Lineage((NodeChange(3, 5), NodeChange(7, 2)))

    assert lineage.with_change(NodeChange(7, 4)) == Lineage((NodeChange(3, 5), NodeChange(7, 4)))
    assert lineage.with_change(NodeChange(7, 1)) == lineage
    assert lineage.with_change(NodeChange(4, 1)) == Lineage((NodeChange(3, 5), NodeChange(4, 1), NodeChange(7, 2)))


def test_of_a_node_that_is_not_in_it_a_lineage_includes_nothing() -> None:
    assert Lineage.EMPTY.version_of(7) == 0
    assert not Lineage((NodeChange(3, 5),)).includes(NodeChange(7, 1))


@given(st.dictionaries(st.integers(0, (1 << 16) - 1), CHANGE))
def test_changes_of_columns_are_read_as_they_were_written(columns: dict[int, NodeChange]) -> None:
    assert decode_columns(encode_columns(columns)) == columns
    assert encode_columns(dict(reversed(columns.items()))) == encode_columns(columns)
