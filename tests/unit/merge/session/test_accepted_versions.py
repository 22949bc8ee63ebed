"""What is the same for many rows of a batch is decided once, and comes to a database once."""

from __future__ import annotations

from rowtide.merge.session.accepted_versions import accepted, accepted_alike, alike, count_writes
from rowtide.merge.session.messages import Counts
from rowtide.merge.versions.changes import KnownVersion, RowChange, TombstoneType, Write, number_alike, overruling
from rowtide.merge.versions.comparison import Lineage, NodeChange, Presence, RowVersion

HUB = 1
OLD, NEW = NodeChange(HUB, 1), NodeChange(HUB, 2)


def change(rowguid: str, last: NodeChange = NEW, *, is_gone: bool = False) -> RowChange:
    row = None if is_gone else (f"value of {rowguid}",)
    tombstone = TombstoneType.USER if is_gone else None
    return RowChange(rowguid, Lineage((last,)).encode(), last.encode(), None, row, tombstone)


def known() -> KnownVersion:
    return KnownVersion(RowVersion(Presence.LIVE, Lineage((OLD,)), OLD), HUB, None, 1)


def test_changes_with_equal_version_and_known_row_form_one_group() -> None:
    here, elsewhere = known(), known()
    changes = [change("a"), change("b"), change("c", OLD), change("d"), change("e", is_gone=True), change("f")]
    groups = list(alike(changes, {"a": here, "b": here, "c": here, "d": elsewhere, "e": here}))

    assert [([each.rowguid for each in several], of) for several, of in groups] == [
        (["a", "b"], here),
        (["c"], here),
        (["d"], elsewhere),
        (["e"], here),
        (["f"], None),
    ]


def test_what_is_taken_together_is_what_is_taken_one_by_one() -> None:
    changes, here = [change("a"), change("b")], known()

    assert accepted_alike(changes, here, HUB, 75.0) == [accepted(each, here, HUB, 75.0) for each in changes]


def test_a_refused_version_counts_for_nothing_until_changed() -> None:
    below = NodeChange(9, 5)
    here = KnownVersion(RowVersion(Presence.LIVE, Lineage.of([OLD, below]), below), 9, None, 7)
    (refused,), nothing = overruling([change("a")._replace(overrules=7)], here)
    assert (refused.version.lineage, nothing) == (
        Lineage.of([NEW, below]),
        KnownVersion(RowVersion(Presence.LIVE, Lineage.EMPTY, None), 9, None, 7),
    )
    for last_seen in (6, None):
        later = [change("a")._replace(overrules=last_seen)]
        assert overruling(later, here) == (later, here)


def test_writes_that_differ_beyond_the_row_get_own_numbers() -> None:
    def write(rowguid: str, *, is_live: bool = True, is_gone: bool = False) -> Write:
        return accepted(change(rowguid, is_gone=is_gone), known() if is_live else None, HUB, None)

    writes = [write("a"), write("b", is_live=False), write("c"), write("d", is_gone=True), write("e", is_live=False)]
    numbers, firsts = number_alike(writes)

    assert numbers == [0, 1, 0, 2, 1]
    assert firsts == [writes[0], writes[1], writes[3]]


def test_a_tombstone_of_an_absent_row_counts_for_nothing() -> None:
    def write(*, is_live: bool, is_gone: bool = False) -> Write:
        return accepted(change("a", is_gone=is_gone), known() if is_live else None, HUB, None)

    updates = [write(is_live=True)] * 2
    deletes = [write(is_live=True, is_gone=True)] * 3
    absent = write(is_live=False, is_gone=True)
    assert count_writes([*updates, write(is_live=False), *deletes, absent]) == Counts(inserts=1, updates=2, deletes=3)
