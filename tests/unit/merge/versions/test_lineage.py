"""Lineages and the last changes of columns: what they include, and how they are written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rowtide.merge.versions.lineage import Change, Lineage, decode_columns, encode_columns

CHANGE = st.builds(Change, st.integers(1, 3) | st.integers(1, (1 << 48) - 1), st.integers(1, (1 << 32) - 1))
CHANGES = st.lists(CHANGE)


@given(CHANGES)
def test_a_lineage_is_read_as_it_was_written(changes: list[Change]) -> None:
    lineage = Lineage.of(changes)

    assert Lineage.decode(lineage.encode()) == lineage
    assert len(lineage.encode()) == 10 * len({change.nickname for change in changes})


def test_an_entry_is_six_bytes_of_nickname_and_four_of_version() -> None:
    change = Change(0x0102_0304_0506, 0x0708_090A)

    assert change.encode() == bytes(range(1, 11))
    assert Change.decode(bytes(range(1, 11))) == change


@given(CHANGES)
def test_lineage_includes_each_node_up_to_its_last_change(changes: list[Change]) -> None:
    lineage = Lineage.of(changes)

    for change in changes:
        last = max(other.version for other in changes if other.nickname == change.nickname)
        assert lineage.version_of(change.nickname) == last
        assert lineage.includes(change)
        assert not lineage.includes(Change(change.nickname, last + 1))


@given(CHANGES, CHANGES)
def test_joined_lineage_includes_exactly_what_either_does(ours: list[Change], theirs: list[Change]) -> None:
    one, other = Lineage.of(ours), Lineage.of(theirs)
    joined = one.joined(other)

    assert all(map(joined.includes, [*ours, *theirs]))
    assert joined == other.joined(one)
    assert all(one.includes(change) or other.includes(change) for change in joined.changes)


def test_change_advances_its_own_node_and_never_moves_it_back() -> None:
    lineage = Lineage((Change(3, 5), Change(7, 2)))

    assert lineage.with_change(Change(7, 4)) == Lineage((Change(3, 5), Change(7, 4)))
    assert lineage.with_change(Change(7, 1)) == lineage
    assert lineage.with_change(Change(4, 1)) == Lineage((Change(3, 5), Change(4, 1), Change(7, 2)))


def test_of_a_node_that_is_not_in_it_a_lineage_includes_nothing() -> None:
    assert Lineage.EMPTY.version_of(7) == 0
    assert not Lineage((Change(3, 5),)).includes(Change(7, 1))


@given(st.dictionaries(st.integers(0, (1 << 16) - 1), CHANGE))
def test_changes_of_columns_are_read_as_they_were_written(columns: dict[int, Change]) -> None:
    assert decode_columns(encode_columns(columns)) == columns
    assert encode_columns(dict(reversed(columns.items()))) == encode_columns(columns)
