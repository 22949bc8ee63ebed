"""Slices follow from change rows: what closes, what opens, and from where to where."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rowtide.targets.direct.history import ChangeRows


def slice_rows(*rows: tuple[int, int, int, float | None]) -> tuple[list[tuple[bool, int, int]], list[tuple[int, ...]]]:
    """Return what is done for rows of key, LSN, operation and value, which are in order."""
    keys, lsns, operations, values = zip(*rows, strict=True)
    table = pa.table({"value": pa.array(values, pa.float64())})
    changes = ChangeRows(table, np.array(keys), np.array(lsns), np.array(operations))
    closed, opened = changes.slice(["value"])
    closes = list(zip(closed.alters.tolist(), closed.row.tolist(), closed.to.tolist(), strict=True))
    return closes, list(zip(opened.row.tolist(), opened.start.tolist(), opened.to.tolist(), strict=True))


def test_all_changes_of_a_transaction_are_one_slice() -> None:
    assert slice_rows((0, 5, 2, 1), (0, 5, 3, 1), (0, 5, 4, 2)) == ([(False, 2, 5)], [(2, 5, -1)])


def test_changes_end_a_slice_and_begin_another() -> None:
    found = slice_rows((0, 5, 3, 1), (0, 5, 4, 2), (1, 5, 1, 7), (0, 6, 3, 2), (0, 6, 4, 3), (0, 7, 1, 3))
    assert found == ([(False, 1, 5), (False, 2, 5)], [(1, 5, 6), (4, 6, 7)])


def test_what_is_not_tracked_alters_the_open_slice() -> None:
    rows = ((0, 5, 3, None), (0, 5, 4, None), (0, 6, 3, float("nan")), (0, 6, 4, float("nan")), (0, 7, 3, 0.0))
    assert slice_rows(*rows, (0, 7, 4, -0.0)) == ([(True, 5, -1)], [])


def test_an_altered_slice_may_end() -> None:
    rows = ((0, 5, 3, 1), (0, 5, 4, 1), (0, 8, 3, 1), (0, 8, 4, None))
    assert slice_rows(*rows) == ([(True, 1, 8)], [(3, 8, -1)])
