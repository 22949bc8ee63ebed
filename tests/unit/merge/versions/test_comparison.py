"""What two versions of a row are to each other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rowtide.merge.versions.comparison import (
    Combine,
    Comparison,
    Conflict,
    ConflictKind,
    Join,
    Nothing,
    Presence,
    RowVersion,
    Take,
    compare,
    concurrent_columns,
)
from rowtide.merge.versions.lineage import Change, Lineage

HUB, ONE = 1, 2
A, B, C = 0, 1, 2
LIVE, DELETED = Presence.LIVE, Presence.DELETED


def version(
    last: Change | None,
    *others: Change,
    presence: Presence = LIVE,
    columns: Mapping[int, Change] | None = None,
) -> RowVersion:
    """Return a version that was made by a change on top of others."""
    changes = others if last is None else (*others, last)
    return RowVersion(presence, Lineage.of(changes), last, columns)


HUB_2, ONE_3 = Change(HUB, 2), Change(ONE, 3)
CONCURRENT = version(ONE_3, Change(HUB, 1)), version(HUB_2, Change(ONE, 2))


@pytest.mark.parametrize(
    ("sent", "known", "expected"),
    [
        pytest.param(version(ONE_3, HUB_2), version(ONE_3, HUB_2), Nothing(), id="the same version"),
        pytest.param(version(ONE_3), version(HUB_2, ONE_3), Nothing(), id="an older one"),
        pytest.param(version(Change(ONE, 2)), version(HUB_2, ONE_3), Nothing(), id="one between others"),
        pytest.param(version(ONE_3, presence=DELETED), version(HUB_2, ONE_3), Nothing(), id="an older tombstone"),
        pytest.param(version(ONE_3, HUB_2), version(HUB_2), Take(), id="a newer one"),
        pytest.param(version(ONE_3, Change(HUB, 4)), version(HUB_2), Take(), id="a newer one with more between"),
        pytest.param(version(ONE_3, HUB_2, presence=DELETED), version(HUB_2), Take(), id="a newer tombstone"),
        pytest.param(version(ONE_3, HUB_2), version(HUB_2, presence=DELETED), Take(), id="put back knowingly"),
        pytest.param(*CONCURRENT, Conflict(ConflictKind.UPDATE_UPDATE), id="concurrent"),
    ],
)
def test_versions_are_compared_by_the_last_change_of_each(
    sent: RowVersion, known: RowVersion, expected: Comparison
) -> None:
    assert compare(sent, known) == expected


@pytest.mark.parametrize(
    ("sent", "known", "expected"),
    [
        (LIVE, DELETED, Conflict(ConflictKind.UPDATE_DELETE)),
        (DELETED, LIVE, Conflict(ConflictKind.DELETE_UPDATE)),
        (DELETED, DELETED, Join()),
    ],
)
@pytest.mark.parametrize("columns", [None, {A: ONE_3}])
def test_columns_are_irrelevant_if_one_side_deleted_the_row(
    sent: Presence, known: Presence, expected: Comparison, columns: Mapping[int, Change] | None
) -> None:
    ours = version(ONE_3, presence=sent, columns=columns if sent is LIVE or columns is None else {})
    theirs = version(HUB_2, presence=known, columns=None if columns is None else {})

    assert compare(ours, theirs) == expected


def test_row_without_metadata_yields_to_any_unknown_change() -> None:
    untouched = version(None, HUB_2)

    assert compare(version(ONE_3), untouched) == Take()
    assert compare(version(Change(HUB, 3)), untouched) == Take()
    assert compare(version(HUB_2), untouched) == Nothing()


def test_concurrently_changed_columns_are_combined() -> None:
    sent = version(ONE_3, columns={A: ONE_3})
    known = version(HUB_2, columns={B: HUB_2})

    assert compare(sent, known) == Combine(frozenset({A}))


def test_column_change_the_other_knew_is_no_conflict() -> None:
    both_know = Change(HUB, 1)
    sent = version(ONE_3, both_know, columns={A: ONE_3, B: both_know, C: Change(ONE, 2)})
    known = version(HUB_2, Change(ONE, 2), columns={B: HUB_2, C: Change(ONE, 2)})

    assert compare(sent, known) == Combine(frozenset({A}))


def test_conflicting_columns_are_those_both_sides_changed() -> None:
    sent = version(ONE_3, columns={A: ONE_3, B: Change(ONE, 2)})
    known = version(HUB_2, columns={B: Change(HUB, 1), C: HUB_2})

    assert compare(sent, known) == Conflict(ConflictKind.UPDATE_UPDATE, frozenset({B}))
    assert concurrent_columns(sent, known) == {A, B, C}


def test_without_column_tracking_on_a_side_any_updates_conflict() -> None:
    sent, known = version(ONE_3, columns={A: ONE_3}), version(HUB_2)

    assert compare(sent, known) == Conflict(ConflictKind.UPDATE_UPDATE)
    assert concurrent_columns(sent, known) == {A}
