"""What is known of a row, made of what triggers and the agent have noted of it.

THE RULE: a tombstone counts only while the row is not there, and the contents only while it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from rowtide.merge.articles import Article
from rowtide.merge.versions.changes import KnownVersion, RowChange, TombstoneType
from rowtide.merge.versions.comparison import Lineage, NodeChange, Presence, RowVersion, encode_columns
from rowtide.merge.versions.stored_metadata import Composer, Contents, Tombstone, add_up, append

OWN, HUB, OTHER = 4, 1, 9
PURGED = Lineage((NodeChange(HUB, 1),))
RECEIVED = Lineage((NodeChange(HUB, 7), NodeChange(OTHER, 2)))
LAST = NodeChange(OTHER, 2)


def composer(*, tracks_columns: bool = False) -> Composer:
    return Composer(Article("t", "", "t", 1, (), column_tracking=tracks_columns), OWN, PURGED.encode())


def contents(
    version: int,
    origin: int | None = None,
    lineage: Lineage | None = None,
    columns: Mapping[int, NodeChange] | None = None,
    own_columns: Mapping[int, int] | None = None,
) -> Contents:
    last = None if lineage is None else LAST.encode()
    written = None if lineage is None else lineage.encode()
    encoded = None if columns is None else encode_columns(columns)
    return Contents(version, origin, 75.0, written, last, encoded, own_columns or {})


def tombstone(version: int, origin: int | None = None, lineage: Lineage | None = None) -> Tombstone:
    last = None if origin is None else LAST.encode()
    return Tombstone(version, origin, 75.0, None if lineage is None else lineage.encode(), last, TombstoneType.USER)


def live(noted: Contents, gone: Tombstone | None = None) -> RowVersion:
    return composer().live("r", ("a",), noted, gone).version


def test_a_nodes_own_change_is_made_on_what_it_had_received() -> None:
    version = live(contents(5, lineage=RECEIVED))

    assert version.last == NodeChange(OWN, 5)
    assert version.lineage == Lineage((NodeChange(HUB, 7), NodeChange(OWN, 5), NodeChange(OTHER, 2)))


def test_a_row_that_was_only_received_is_as_its_sender_had_it() -> None:
    change = composer().live("r", ("a",), contents(5, HUB, RECEIVED), None)

    assert change == RowChange("r", RECEIVED.encode(), LAST.encode(), None, ("a",), priority=75.0)


def test_row_never_received_builds_on_the_snapshot_lineage() -> None:
    assert live(contents(5)).lineage == Lineage((NodeChange(HUB, 1), NodeChange(OWN, 5)))


def test_reinserted_row_includes_its_own_tombstone_with_lineage() -> None:
    on_received = live(contents(6), tombstone(5, lineage=RECEIVED))
    on_nothing = live(contents(6), tombstone(5))

    assert on_received == RowVersion(Presence.LIVE, RECEIVED.with_change(NodeChange(OWN, 6)), NodeChange(OWN, 6))
    assert on_nothing.lineage == Lineage((NodeChange(HUB, 1), NodeChange(OWN, 6)))


def test_reinserted_row_includes_a_received_tombstone() -> None:
    assert live(contents(6), tombstone(5, HUB, RECEIVED)).lineage == RECEIVED.with_change(NodeChange(OWN, 6))


def test_tombstone_is_ignored_for_a_row_received_after_it() -> None:
    noted = contents(6, lineage=PURGED)

    assert live(noted, tombstone(5, lineage=RECEIVED)) == live(noted, None)
    received = contents(6, HUB, PURGED)
    assert live(received, tombstone(5, lineage=RECEIVED)).lineage == PURGED


def test_contents_do_not_count_for_a_row_that_is_gone() -> None:
    known = composer().known(is_live=False, contents=contents(9, HUB, PURGED), tombstone=tombstone(5, lineage=RECEIVED))

    version = RowVersion(Presence.DELETED, RECEIVED.with_change(NodeChange(OWN, 5)), NodeChange(OWN, 5))
    assert known == KnownVersion(version, None, 75.0, 5)
    assert composer().known(is_live=False, contents=contents(9, HUB, RECEIVED), tombstone=None) is None


def test_a_tombstone_does_not_count_for_a_row_that_is_there() -> None:
    known = composer().known(is_live=True, contents=contents(6, HUB, RECEIVED), tombstone=tombstone(9))

    assert known == KnownVersion(RowVersion(Presence.LIVE, RECEIVED, LAST), HUB, 75.0, 6)


@pytest.mark.parametrize(
    ("gone", "lineage"),
    [
        pytest.param(None, PURGED, id="none"),
        pytest.param(tombstone(5), PURGED.with_change(NodeChange(OWN, 5)), id="its own"),
        pytest.param(tombstone(5, HUB, RECEIVED), RECEIVED, id="from elsewhere"),
    ],
)
def test_row_without_metadata_includes_purges_and_tombstone(gone: Tombstone | None, lineage: Lineage) -> None:
    known = composer().known(is_live=True, contents=None, tombstone=gone)

    assert known == KnownVersion(RowVersion(Presence.LIVE, lineage, None), None, None, None)


def test_tombstone_is_sent_as_received_or_as_own_change_on_top() -> None:
    assert composer().gone("r", tombstone(5, HUB, RECEIVED)).version == RowVersion(Presence.DELETED, RECEIVED, LAST)
    own = composer().gone("r", tombstone(5, lineage=RECEIVED))
    assert own.version.lineage == RECEIVED.with_change(NodeChange(OWN, 5))
    assert own.version.last == NodeChange(OWN, 5)
    assert (own.row, own.tombstone) == (None, TombstoneType.USER)


def test_only_columns_changed_here_have_own_generations() -> None:
    tracking = composer(tracks_columns=True)
    columns = {0: NodeChange(HUB, 7), 1: LAST}
    own = contents(6, lineage=RECEIVED, columns=columns, own_columns={1: 5, 2: 6})

    assert tracking.live("r", (), own, None).version.columns == {
        0: NodeChange(HUB, 7),
        1: NodeChange(OWN, 5),
        2: NodeChange(OWN, 6),
    }
    received = contents(6, HUB, RECEIVED, columns=columns)
    assert tracking.live("r", (), received, None).version.columns == columns


def test_with_column_tracking_every_version_has_a_column_map() -> None:
    tracking = composer(tracks_columns=True)

    assert tracking.live("r", (), contents(6), None).version.columns == {}
    assert tracking.gone("r", tombstone(6)).version.columns == {}
    known = tracking.known(is_live=True, contents=None, tombstone=None)
    assert known is not None
    assert known.version.columns == {}
    assert live(contents(6, own_columns={0: 6})).columns is None


NODE = 7
BEGUN = json.dumps([[0, "10"]])


def knowing(*versions: int) -> Lineage:
    return Lineage.of(NodeChange(NODE, version) for version in versions)


def test_both_changes_count_once() -> None:
    assert add_up(BEGUN, knowing(), NODE, "13", "15") == "18"


def test_what_came_before_its_sender_knew_is_not_counted_again() -> None:
    bases = append(append(BEGUN, 4, "13"), 6, "20")

    assert add_up(bases, knowing(), NODE, "21", "15") == "26"
    assert add_up(bases, knowing(4), NODE, "21", "18") == "26"
    assert add_up(bases, knowing(6), NODE, "21", "25") == "26"


def test_a_repeat_is_nothing_new_and_the_first_is_kept() -> None:
    bases = BEGUN
    for version in range(1, 40):
        bases = append(bases, version, str(version))
        assert append(bases, version, str(version)) == bases

    pairs = json.loads(bases)
    assert pairs[0] == [0, "10"]
    assert pairs[-1] == [39, "39"]
    assert len(pairs) == 11


@pytest.mark.parametrize(
    ("sent", "known", "total"),
    [
        pytest.param(None, "5", "5", id="NULL and a number"),
        pytest.param("5", None, "5", id="a number and NULL"),
        pytest.param("10.50", "9.25", "9.75", id="decimals, exactly"),
        pytest.param("1e3", "12", "1002", id="no exponents"),
        pytest.param("many", "12", None, id="no number"),
        pytest.param("NaN", "12", None, id="not a number"),
    ],
)
def test_values_add_up_as_numbers(sent: str | None, known: str | None, total: str | None) -> None:
    assert add_up(BEGUN, knowing(), NODE, sent, known) == total


def test_a_base_of_null_says_nothing() -> None:
    assert add_up(json.dumps([[0, None]]), knowing(), NODE, "5", "6") is None
