"""What becomes of the rows of a logical record that both ends have changed."""

from __future__ import annotations

from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.conflicts.record_contests import ContestedRow, choose, is_contested, kind_of, settle
from rowtide.merge.conflicts.records import ConflictType
from rowtide.merge.conflicts.resolvers import Winner
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType
from rowtide.merge.versions.comparison import Lineage, NodeChange, Presence, RowVersion

HUB, DEVICE = 9, 1
COMMON = NodeChange(HUB, 1)
TABLE = Article("t", "", "t", 1, (ArticleColumn("a", "text", is_nullable=True, key_ordinal=None),))


def sent(row: Row | None, *, is_changed: bool) -> RowChange:
    last = NodeChange(DEVICE, 5) if is_changed else COMMON
    lineage = Lineage.of((COMMON, last)).encode()
    return RowChange("r", lineage, last.encode(), None, row, None if row is not None else TombstoneType.USER)


def known(row: Row | None, *, is_changed: bool) -> KnownVersion:
    last = NodeChange(HUB, 7) if is_changed else COMMON
    presence = Presence.DELETED if row is None else Presence.LIVE
    return KnownVersion(RowVersion(presence, Lineage.of((COMMON, last)), last), None, None, 7)


def row_of(theirs: str | None, ours: str | None, *, ahead: bool, behind: bool) -> ContestedRow:
    there, here = (None if value is None else (value,) for value in (theirs, ours))
    return ContestedRow(TABLE, "r", sent(there, is_changed=ahead), known(here, is_changed=behind), here)


OURS = row_of("old", "hub", ahead=False, behind=True)
THEIRS = row_of("sub", "old", ahead=True, behind=False)
NEW_HERE = ContestedRow(TABLE, "r", None, known(("new",), is_changed=True), ("new",))
NEW_THERE = ContestedRow(TABLE, "r", sent(("new",), is_changed=True), None, None)


def test_changes_of_different_rows_conflict_only_if_detected() -> None:
    assert not is_contested([OURS, THEIRS], detects=False)
    assert is_contested([OURS, THEIRS], detects=True)
    assert not is_contested([THEIRS, NEW_THERE], detects=True)


def test_a_rows_own_conflict_is_one_of_the_record() -> None:
    assert is_contested([row_of("sub", "hub", ahead=True, behind=True)], detects=False)
    assert not is_contested([row_of("same", "same", ahead=True, behind=True)], detects=True)


def test_the_hub_wins_by_its_priority() -> None:
    assert choose(TABLE, [OURS, THEIRS], 99.0) is Winner.PUBLISHER
    assert choose(TABLE, [OURS, THEIRS], 100.0) is Winner.SUBSCRIBER


def test_the_winners_rows_replace_the_losers() -> None:
    back = settle(OURS, Winner.SUBSCRIBER, 0)
    kept = settle(THEIRS, Winner.PUBLISHER, 0)

    assert back is not None
    assert kept is not None
    assert (back.row, kept.row) == (("old",), ("old",))
    assert Lineage.decode(kept.lineage).includes(NodeChange(DEVICE, 5))
    assert settle(OURS, Winner.PUBLISHER, 0) is None
    assert settle(THEIRS, Winner.SUBSCRIBER, 0) is None


def test_rows_that_only_the_loser_has_are_withdrawn() -> None:
    here, there = settle(NEW_HERE, Winner.SUBSCRIBER, 0), settle(NEW_THERE, Winner.PUBLISHER, 0)

    assert here is not None
    assert there is not None
    assert {(one.row, one.tombstone) for one in (here, there)} == {(None, TombstoneType.SYSTEM)}
    assert (here.is_live, there.is_live) == (True, False)


def test_what_a_row_loses_by_its_record_has_a_type() -> None:
    deleted = row_of(None, "old", ahead=True, behind=False)

    assert kind_of(OURS, Winner.SUBSCRIBER) is ConflictType.RECORD_UPDATE_CONFLICT
    assert kind_of(NEW_HERE, Winner.SUBSCRIBER) is ConflictType.RECORD_DELETE_WINS_CONFLICT
    assert kind_of(deleted, Winner.PUBLISHER) is ConflictType.RECORD_UPDATE_WINS_CONFLICT
    assert kind_of(THEIRS, Winner.SUBSCRIBER) is None
