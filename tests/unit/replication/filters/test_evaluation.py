"""Which rows a filter chooses from the text that the log has."""

from __future__ import annotations

import numpy as np
import pytest

from builders.values.row_filters import column_values
from rowtide.replication.filters import FilterColumn, parse_filter
from rowtide.replication.filters.evaluation import find_transitions, matches


def choose(type_text: str, predicate: str, *values: str | None) -> list[str | None]:
    """Return those of a column's values that `c`, with the predicate after it, is true for."""
    column = FilterColumn(7, "c", type_text, has_deterministic_collation=True)
    chosen = matches(parse_filter(f"c {predicate}", [column]), {7: column_values(*values)})
    return [value for value, is_chosen in zip(values, chosen.tolist(), strict=True) if is_chosen]


@pytest.mark.parametrize(
    ("predicate", "chosen"),
    [
        ("= ' +5 '", ["5"]),
        ("= 5.00", ["5"]),
        ("= 5.5", []),
        ("< 4.5", ["-7", "4"]),
        ("<> 99999999999999999999", ["-7", "4", "5"]),
        ("in (4, 5.5, '-7')", ["-7", "4"]),
        ("not in (4)", ["-7", "5"]),
        ("between 4 and 5", ["4", "5"]),
        ("not between 4 and 5", ["-7"]),
        ("is null", [None]),
        ("is not null", ["-7", "4", "5"]),
    ],
)
def test_integers_compare_as_numbers(predicate: str, chosen: list[str | None]) -> None:
    assert choose("smallint", predicate, "-7", "4", None, "5") == chosen


@pytest.mark.parametrize(
    ("predicate", "chosen"),
    [
        ("= 0", ["0.00", "0"]),
        ("= '-0.0'", ["0.00", "0"]),
        ("in (0, 'NaN')", ["0.00", "0", "NaN"]),
        ("= 'nan'", ["NaN"]),
        ("> 'Infinity'", ["NaN"]),
        (">= 'inf'", ["Infinity", "NaN"]),
        ("< 0", ["-Infinity"]),
        ("<> 'NaN'", ["0.00", "0", "9" * 500, "Infinity", "-Infinity"]),
        ("> " + "9" * 499, ["9" * 500, "Infinity", "NaN"]),
    ],
)
def test_not_a_number_is_equal_to_itself_and_beyond_infinity(predicate: str, chosen: list[str | None]) -> None:
    assert choose("numeric", predicate, "0.00", "0", "9" * 500, "Infinity", "-Infinity", "NaN", None) == chosen


@pytest.mark.parametrize(
    ("type_text", "predicate", "chosen"),
    [
        ("character(4)", "= 'DE'", ["DE  "]),
        ("character(4)", "= 'DE      '", ["DE  "]),
        ("character(4)", "in ('')", ["    "]),
        ("text", "= 'DE'", []),
        ("character varying(4)", "= 'DE  '", ["DE  "]),
        ("text", "<> 'DE  '", ["    ", "é", "e\u0301"]),
        ("text", "= 'é'", ["é"]),
    ],
)
def test_texts_compare_bytewise_and_char_without_padding(
    type_text: str, predicate: str, chosen: list[str | None]
) -> None:
    assert choose(type_text, predicate, "DE  ", "    ", "é", "e\u0301", None) == chosen


@pytest.mark.parametrize(
    ("predicate", "chosen"),
    [
        ("< '0001-01-01'", ["-infinity", "0044-03-15 BC", "0001-02-29 BC"]),
        ("between '0044-03-15 BC' and '0001-02-29 BC'", ["0044-03-15 BC", "0001-02-29 BC"]),
        ("> '9999-12-31'", ["12024-01-01", "infinity"]),
        ("= date 'infinity'", ["infinity"]),
    ],
)
def test_dates_go_beyond_the_years_of_python(predicate: str, chosen: list[str | None]) -> None:
    values = ("-infinity", "0044-03-15 BC", "0001-02-29 BC", "2024-02-29", "12024-01-01", "infinity", None)
    assert choose("date", predicate, *values) == chosen


@pytest.mark.parametrize(
    ("predicate", "chosen"),
    [
        ("= '2024-01-01 12:00:00+02'", ["2024-01-01 10:00:00+00"]),
        ("= '2024-01-01T04:30-05:30'", ["2024-01-01 10:00:00+00"]),
        ("> '2024-01-01 10:00:00Z'", ["2024-01-01 10:00:00.000001+00", "infinity"]),
        ("< '0001-01-01 00:00:00+00'", ["0001-12-31 23:59:59.999999+00 BC"]),
    ],
)
def test_moments_compare_in_one_zone_to_the_microsecond(predicate: str, chosen: list[str | None]) -> None:
    values = (
        *("0001-12-31 23:59:59.999999+00 BC", "2024-01-01 10:00:00+00", "2024-01-01 10:00:00.000001+00"),
        *("infinity", None),
    )
    assert choose("timestamp with time zone", predicate, *values) == chosen


def test_booleans_and_uuids_have_an_order() -> None:
    assert choose("boolean", "< true", "t", "f", None) == ["f"]
    assert choose("boolean", "= 'YES'", "t", "f", None) == ["t"]
    low, high = "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "f" * 8 + "-0000" * 3 + "-" + "0" * 12
    assert choose("uuid", f"> '{low}'", low, high, None) == [high]
    assert choose("uuid", f"= '{high.upper()}'", low, high, None) == [high]


@pytest.mark.parametrize(
    ("filter_text", "chosen"),
    [
        ("a = 1", [True, False, False]),
        ("not a = 1", [False, True, False]),
        ("a = 1 and b = 1", [False, False, False]),
        ("not (a = 1 and b = 1)", [False, True, False]),
        ("a = 1 or b = 1", [True, False, False]),
        ("not (a = 1 or b = 1)", [False, False, False]),
        ("a = 1 or b is null", [True, True, True]),
        ("not a in (2, 3) or not b = 1", [True, False, False]),
    ],
)
def test_null_is_neither_true_nor_false(filter_text: str, chosen: list[bool]) -> None:
    columns = [
        FilterColumn(place, name, "integer", has_deterministic_collation=True) for place, name in enumerate("ab")
    ]
    values = {0: column_values("1", "2", None), 1: column_values(None, None, None)}

    assert matches(parse_filter(filter_text, columns), values).tolist() == chosen


def test_whether_it_is_null_is_known_of_what_is_not_compared() -> None:
    assert choose("double precision", "is not null", "NaN", None, "0.1") == ["NaN", "0.1"]


def test_no_rows_have_no_verdict() -> None:
    assert choose("text", "= 'x'") == []


def test_rows_leaving_are_deletes_and_rows_entering_are_inserts() -> None:
    before, after = np.array([True, True, False, False]), np.array([True, False, True, False])

    transitions = find_transitions(before, after)

    assert transitions.updates.tolist() == [True, False, False, False]
    assert transitions.deletes.tolist() == [False, True, False, False]
    assert transitions.inserts.tolist() == [False, False, True, False]
