"""By its statistics a file is omitted only if it has no row of a range."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from rowtide.delta.data_files import Between, FileStatistics
from rowtide.delta.replay import AddFile
from rowtide.delta.schema import parse_schema

STATISTICS = {"numRecords": 4, "minValues": {"a": 5}, "maxValues": {"a": 9}, "nullCount": {"a": 1, "n": 4}}


def file(statistics: dict[str, Any] | None) -> AddFile:
    return AddFile("a", 1, 1, json.dumps(statistics) if statistics is not None else None)


@pytest.mark.parametrize(
    ("low", "high", "may"),
    [
        (None, None, True),
        (9, None, True),
        (10, None, False),
        (None, 5, True),
        (None, 4, False),
        (6, 7, True),
        (10, 20, False),
    ],
)
def test_a_file_is_left_out_beyond_its_bounds(low: int | None, high: int | None, *, may: bool) -> None:
    assert Between("a", low, high).may_be_in(file(STATISTICS)) is may


@pytest.mark.parametrize("statistics", [None, {}, {"numRecords": 1}, {"maxValues": {"a": "x"}}, {"maxValues": None}])
def test_a_file_without_bounds_may_have_any_row(statistics: dict[str, Any] | None) -> None:
    assert Between("a", 100).may_be_in(file(statistics))


@pytest.mark.parametrize(
    ("low", "high", "may"), [("b", "c", True), ("d", None, True), ("da", None, False), (None, "a", False), (5, 7, True)]
)
def test_texts_bound_as_integers_do(low: int | str | None, high: int | str | None, *, may: bool) -> None:
    statistics = {"numRecords": 2, "minValues": {"a": "b"}, "maxValues": {"a": "d"}}
    assert Between("a", low, high).may_be_in(file(statistics)) is may


def test_a_file_whose_values_are_all_null_has_none() -> None:
    assert not Between("n", 0).may_be_in(file(STATISTICS))
    assert Between("a", 6).may_be_in(file(STATISTICS))


TYPES = {"n": "long", "d": "date", "t": "timestamp", "l": "timestamp_ntz", "s": "string"}
COLUMNS = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in TYPES.items()]
FIELDS = parse_schema(json.dumps({"fields": COLUMNS}), is_mapped=False)


def describe(name: str, *values: object) -> tuple[Any, Any, Any]:
    rows = pa.table({name: pa.array(values, FIELDS.schema.field(name).type)})
    at_once, one_by_one = (FileStatistics([field for field in FIELDS.fields if field.name == name]) for _ in range(2))
    at_once.add(rows)
    for place in range(len(values)):
        one_by_one.add(rows.slice(place, 1))
    assert one_by_one.format() == at_once.format()
    found = json.loads(at_once.format())
    assert found["numRecords"] == len(values)
    return found["minValues"].get(name), found["maxValues"].get(name), found["nullCount"][name]


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("n", (5, None, -3), (-3, 5, 1)),
        ("n", (None, None), (None, None, 2)),
        ("n", (), (None, None, 0)),
        ("d", (0, -719162, None), ("0001-01-01", "1970-01-01", 1)),
        ("d", (3_000_000,), (None, None, 0)),
        ("t", (1_001, 1), ("1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.002Z", 0)),
        ("t", (-1_001, 1_000), ("1969-12-31T23:59:59.998Z", "1970-01-01T00:00:00.001Z", 0)),
        ("l", (0,), ("1970-01-01T00:00:00.000", "1970-01-01T00:00:00.000", 0)),
        ("s", ("b", "a", None), ("a", "b", 1)),
        ("s", ("x" * 32,), ("x" * 32, "x" * 32, 0)),
        ("s", ("x" * 33,), ("x" * 32, "x" * 32 + "\x7f", 0)),
        ("s", ("x" * 32 + "\x7f",), ("x" * 32, "x" * 32 + "\U0010ffff", 0)),
        ("s", ("x" * 32 + "\U0010ffff",), ("x" * 32, None, 0)),
    ],
)
def test_rows_are_within_the_bounds_that_are_written(
    name: str, values: tuple[object, ...], expected: tuple[object, ...]
) -> None:
    assert describe(name, *values) == expected
