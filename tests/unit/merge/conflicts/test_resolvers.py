"""How resolvers compare and combine values of columns."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rowtide.merge.articles import Article, ArticleColumn
from rowtide.merge.conflicts.resolvers import (
    Contest,
    Winner,
    average,
    by_priority,
    combine,
    decide,
    find_resolver,
    merge_texts,
    order,
    resolve,
)
from rowtide.merge.errors.publishing import ResolverUnknown
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType
from rowtide.merge.versions.comparison import Lineage, NodeChange, Presence, RowVersion, encode_columns


def column(type_text: str) -> ArticleColumn:
    return ArticleColumn("c", type_text, is_nullable=True, key_ordinal=None)


ASCENDING = {
    "integer": ["-10", "-9", "9", "10"],
    "numeric(20,2)": ["-Infinity", "-1e3", "0.10", "1e3", "10000000000000000000001", "Infinity", "NaN"],
    "date": ["-infinity", "4713-01-01 BC", "0001-12-31 BC", "0001-01-01", "9999-12-31", "10000-01-01", "infinity"],
    "timestamp without time zone": [
        "0044-03-15 12:00:00 BC",
        "2026-01-02 03:04:05",
        "2026-01-02 03:04:05.000001",
        "2026-01-02T03:04:06",
        "12026-01-02 03:04:05",
    ],
    "timestamp with time zone": [
        "2026-01-02 03:04:05+05:45",
        "2026-01-02 03:04:05+01",
        "2026-01-02 02:04:06Z",
        "2026-01-02 03:04:05-00:30",
        "2026-01-02 03:04:05-08",
    ],
    "time with time zone": ["09:00:00+02", "08:00:00+00", "09:30:00+01", "24:00:00+00"],
    "interval": ["-infinity", "P-1D", "PT0S", "PT23H59M59.999S", "P1D", "P30DT-1S", "P1M", "P1Y", "P1Y1D", "infinity"],
    "text": ["-1", "9", "10", "0044-03-15 BC", "2026-11-09 10:00", "2026-11-10", "a", "b"],
}


@pytest.mark.parametrize("type_text", ASCENDING)
def test_values_are_ordered_in_their_columns_type(type_text: str) -> None:
    for lower, higher in pairwise(ASCENDING[type_text]):
        assert order(column(type_text), lower) < order(column(type_text), higher), (lower, higher)


@pytest.mark.parametrize(
    ("type_text", "one", "other"),
    [
        ("numeric", "1.10", "1.1"),
        ("timestamp with time zone", "2026-01-02 03:04:05+01", "2026-01-02 02:04:05+00"),
        ("timestamp without time zone", "2026-01-02", "2026-01-02 00:00:00.000"),
        ("interval", "P1M", "P30D"),
        ("interval", "P1D", "PT24H"),
    ],
)
def test_one_value_in_two_forms_is_equal(type_text: str, one: str, other: str) -> None:
    assert order(column(type_text), one) == order(column(type_text), other)


@pytest.mark.parametrize(
    ("type_text", "one", "other", "mean"),
    [
        ("integer", "1", "2", "2"),
        ("integer", "-1", "-2", "-2"),
        ("bigint", "9223372036854775807", "9223372036854775805", "9223372036854775806"),
        ("numeric(10,2)", "0.10", "0.15", "0.13"),
        ("numeric", "0.1", "0.2", "0.15"),
        ("double precision", "0.5", "1", "0.75"),
        ("numeric", "NaN", "1", None),
        ("numeric", "Infinity", "1", None),
        ("integer", "a", "1", None),
    ],
)
def test_a_mean_fits_the_columns_type(type_text: str, one: str, other: str, mean: str | None) -> None:
    assert average(column(type_text), one, other) == mean


@pytest.mark.parametrize(
    ("publisher", "subscriber", "merged"),
    [
        ("note, hub", "note, sub", "note, hub|sub"),
        ("note", "note, sub", "note, sub"),
        ("note, hub", "note", "note, hub"),
        ("a", "b", "a|b"),
        ("", "b", "b"),
        ("same", "same", "same"),
    ],
)
def test_texts_share_their_beginning(publisher: str, subscriber: str, merged: str) -> None:
    assert merge_texts(column("text"), publisher, subscriber, "|") == merged


def test_a_merged_text_longer_than_its_column_is_none() -> None:
    assert merge_texts(column("character varying(9)"), "note A", "note BCD", "|") is None
    assert merge_texts(column("character varying(10)"), "note A", "note BCD", "|") == "note A|BCD"


@pytest.mark.parametrize("texts", [("\0X'00'", "a"), ("a", "\0X'00'")])
def test_a_blob_is_not_merged_with_a_text(texts: tuple[str, str]) -> None:
    assert merge_texts(column("text"), *texts, "|") is None


HUB, ONE, TWO = 5, 2, 7
A, B, C = 0, 1, 2
SENT, KNOWN = NodeChange(ONE, 3), NodeChange(HUB, 2)
PUBLISHER, SUBSCRIBER = Winner.PUBLISHER, Winner.SUBSCRIBER


def article(resolver: str = "priority") -> Article:
    columns = tuple(ArticleColumn(name, "text", is_nullable=True, key_ordinal=None) for name in "abc")
    return Article("t", "", "t", 1, columns, column_tracking=True, resolver=resolver)


def contest(
    sent: Row | None = ("1", "1", "1"),
    known: Row | None = ("0", "0", "0"),
    *,
    priority: float = 0.0,
    known_priority: float | None = None,
    last: NodeChange = KNOWN,
    sent_columns: dict[int, NodeChange] | None = None,
    known_columns: dict[int, NodeChange] | None = None,
) -> Contest:
    """Return a conflict between a change of ONE, on top of TWO's first, and what the hub has."""
    lineage = Lineage.of([SENT, NodeChange(TWO, 1)]).encode()
    columns = None if sent_columns is None else encode_columns(sent_columns)
    tombstone = TombstoneType.SYSTEM if sent is None else None
    change = RowChange("r", lineage, SENT.encode(), columns, sent, tombstone)
    presence = Presence.DELETED if known is None else Presence.LIVE
    version = RowVersion(presence, Lineage.of([last, NodeChange(ONE, 1)]), last, known_columns)
    return Contest(article(), change, KnownVersion(version, None, known_priority, 4), known, priority)


@pytest.mark.parametrize(
    ("sent", "known", "last", "winner"),
    [
        pytest.param(0.0, None, KNOWN, PUBLISHER, id="a client and the hub's own"),
        pytest.param(75.0, None, KNOWN, PUBLISHER, id="a server and the hub's own, which is 100"),
        pytest.param(75.0, 50.0, NodeChange(TWO, 9), SUBSCRIBER, id="a server and a lower one"),
        pytest.param(50.0, 75.0, NodeChange(TWO, 9), PUBLISHER, id="a server and a higher one"),
        pytest.param(75.0, 75.0, NodeChange(TWO, 9), SUBSCRIBER, id="equal ones, the sender's nickname is lower"),
        pytest.param(75.0, 75.0, NodeChange(1, 9), PUBLISHER, id="equal ones, the sender's nickname is higher"),
        pytest.param(0.0, 0.0, NodeChange(TWO, 1), SUBSCRIBER, id="zero is a priority"),
    ],
)
def test_the_higher_priority_wins_and_then_the_lower_nickname(
    sent: float, known: float | None, last: NodeChange, winner: Winner
) -> None:
    assert by_priority(contest(priority=sent, known_priority=known, last=last)) is winner


@pytest.mark.parametrize(
    ("sent", "known", "winner"),
    [
        pytest.param("9", "10", PUBLISHER, id="numbers are not texts"),
        pytest.param("1e3", "999.99", SUBSCRIBER, id="numbers in any form"),
        pytest.param("-2", "-1", PUBLISHER, id="numbers below zero"),
        pytest.param("10000000000000000000001", "10000000000000000000000", SUBSCRIBER, id="beyond what a float has"),
        pytest.param("2026-11-09 10:00:00", "2026-11-10 09:00:00", PUBLISHER, id="times in ISO form"),
        pytest.param("a", "9", SUBSCRIBER, id="texts are above numbers"),
        pytest.param(None, "-1", PUBLISHER, id="NULL loses"),
        pytest.param("", None, SUBSCRIBER, id="an empty text is above NULL"),
    ],
)
def test_the_later_value_wins(sent: str | None, known: str | None, winner: Winner) -> None:
    later = find_resolver(article("later-wins:b"))

    # By priority it would be the other one's.
    priority = 0.0 if winner is SUBSCRIBER else 101.0
    assert later(contest(("1", sent, "1"), ("0", known, "0"), priority=priority)) is winner


def test_the_earlier_value_wins_and_any_value_against_null() -> None:
    earlier = find_resolver(article("earlier-wins:b"))

    assert earlier(contest(("1", "9", "1"), ("0", "10", "0"))) is SUBSCRIBER
    assert earlier(contest(("1", None, "1"), ("0", "10", "0"), priority=101.0)) is PUBLISHER
    assert earlier(contest(("1", "9", "1"), ("0", None, "0"))) is SUBSCRIBER


@pytest.mark.parametrize("priority", [0.0, 101.0])
@pytest.mark.parametrize(
    ("sent", "known"),
    [
        pytest.param(("1", "5", "1"), ("0", "5.0", "0"), id="one number in two forms"),
        pytest.param(("1", None, "1"), ("0", None, "0"), id="NULL twice"),
        pytest.param(None, ("0", "5", "0"), id="the sender has deleted the row"),
        pytest.param(("1", "5", "1"), None, id="the hub has deleted the row"),
    ],
)
def test_where_no_value_is_later_the_higher_priority_wins(sent: Row | None, known: Row | None, priority: float) -> None:
    later = find_resolver(article("later-wins:b"))

    assert later(contest(sent, known, priority=priority)) is (SUBSCRIBER if priority else PUBLISHER)


@pytest.mark.parametrize(("sent", "known"), [("NaN", "1"), ("NaN", "NaN")])
def test_a_value_that_is_not_a_number_is_ordered_too(sent: str, known: str) -> None:
    later = find_resolver(article("later-wins:b"))

    assert isinstance(later(contest(("1", sent, "1"), ("0", known, "0"))), Winner)


@pytest.mark.parametrize("resolver", ["latest-wins:a", "later-wins", "later-wins:d", "priority:a"])
def test_unknown_resolver_is_refused_with_the_list_of_known_ones(resolver: str) -> None:
    with pytest.raises(ResolverUnknown) as refused:
        find_resolver(article(resolver))

    assert f'"{resolver}" for t' in str(refused.value)
    assert "upload-only, download-only, later-wins:COLUMN" in str(refused.value)


def test_who_is_to_win_whatever_the_priorities() -> None:
    assert find_resolver(article("publisher-wins"))(contest(priority=101.0)) is PUBLISHER
    assert find_resolver(article("subscriber-wins"))(contest(priority=0.0)) is SUBSCRIBER


@pytest.mark.parametrize("winner", Winner)
def test_winning_row_becomes_a_hub_change_that_includes_both(winner: Winner) -> None:
    write = resolve(contest(priority=75.0, known_priority=50.0), winner)

    assert write.row == (("1", "1", "1") if winner is SUBSCRIBER else ("0", "0", "0"))
    assert write.priority == (75.0 if winner is SUBSCRIBER else 50.0)
    assert (write.origin, write.last) == (None, None)
    assert Lineage.decode(write.lineage) == Lineage.of([SENT, KNOWN, NodeChange(TWO, 1)])
    assert write.columns is None
    assert not write.own_columns


def test_what_a_client_wins_counts_as_the_hubs_own() -> None:
    assert resolve(contest(priority=0.0, known_priority=50.0), SUBSCRIBER).priority is None


def test_resolved_row_marks_every_column_that_either_changed() -> None:
    both_know = NodeChange(ONE, 1)
    given = contest(sent_columns={A: SENT, C: both_know}, known_columns={B: KNOWN, C: both_know})

    assert resolve(given, PUBLISHER).own_columns == {A, B}
    assert resolve(given, SUBSCRIBER).own_columns == {A, B}


@pytest.mark.parametrize(("sent", "known"), [(None, ("0", "0", "0")), (("1", "1", "1"), None)])
def test_row_that_beats_a_tombstone_keeps_its_column_history(sent: Row | None, known: Row | None) -> None:
    columns = {C: NodeChange(ONE, 1)}
    given = contest(sent, known, sent_columns=columns if sent else {}, known_columns=columns if known else {})
    write = resolve(given, PUBLISHER if known else SUBSCRIBER)

    assert write.row is not None
    assert write.columns == encode_columns(columns)


@pytest.mark.parametrize(("winner", "tombstone"), [(SUBSCRIBER, TombstoneType.SYSTEM), (PUBLISHER, TombstoneType.USER)])
def test_tombstone_has_the_sender_type_if_the_sender_wins(winner: Winner, tombstone: TombstoneType) -> None:
    write = resolve(contest(sent=None), winner)

    assert (write.row is None, write.tombstone) == (winner is SUBSCRIBER, tombstone)


def test_a_decision_knows_whether_the_hub_has_the_row() -> None:
    there, gone = contest(), contest(known=None)

    assert decide(there.sent, there.known, None).is_live
    assert not decide(gone.sent, gone.known, ("1", "1", "1")).is_live


def test_combined_row_takes_only_the_sender_changed_columns() -> None:
    given = contest(("1", None, "1"), known_priority=50.0, sent_columns={B: SENT}, known_columns={A: KNOWN})
    write = combine(given.sent, given.known, ("0", "0", "0"), frozenset({B}))

    assert write.row == ("0", None, "0")
    assert write.own_columns == {A, B}
    assert write.priority == 50.0
    assert write.last is None
