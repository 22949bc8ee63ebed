"""Keys of several columns are found by all of them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from rowtide.delta.data_files import Between
from rowtide.targets.direct.tables import KeySet

ROWS = pa.table({"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [1.0, 2.0, 0.0]})


def test_rows_are_found_by_all_columns_of_the_key() -> None:
    keys = KeySet(ROWS, ["a", "b", "c"])
    assert keys.find(ROWS).tolist() == [0, 1, 2]
    others = pa.table({"a": [2, 1, 5, 1, None], "b": ["x", "x", "x", "y", "x"], "c": [-0.0, 3, 1, 2, 1.0]})
    assert keys.find(others).tolist() == [2, -1, -1, 1, -1]


def test_keys_are_numbered_as_they_appear() -> None:
    rows = pa.table({"a": [3, 1, 3, 2, 1], "b": [Decimal("1.5")] * 5})
    assert KeySet(rows, ["a", "b"]).find(rows).tolist() == [0, 1, 0, 2, 1]


def test_no_key_finds_no_row() -> None:
    assert KeySet(ROWS.slice(0, 0), ["a", "b"]).find(ROWS).tolist() == [-1, -1, -1]
    assert KeySet(ROWS, ["a", "b"]).find(ROWS.slice(0, 0)).tolist() == []


def test_keys_are_in_ranges_of_integers_and_texts() -> None:
    ranges = list(KeySet(ROWS, ["a", "b", "c"]).ranges(["p", "q", "r"]))
    assert ranges == [Between("p", 1, 2), Between("q", "x", "y")]
