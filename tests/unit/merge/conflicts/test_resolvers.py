"""How resolvers compare and combine values of columns."""

from __future__ import annotations

from itertools import pairwise

import pytest

from rowtide.merge.articles import ArticleColumn
from rowtide.merge.conflicts.resolvers import average, merge_texts, order


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
