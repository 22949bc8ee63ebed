"""What an update is to a subscriber who has the rows of a filter only."""

from __future__ import annotations

import numpy as np

from rowtide.replication.filters.crossings import cross


def test_rows_leaving_are_deletes_and_rows_entering_are_inserts() -> None:
    before, after = np.array([True, True, False, False]), np.array([True, False, True, False])

    crossings = cross(before, after)

    assert crossings.updates.tolist() == [True, False, False, False]
    assert crossings.deletes.tolist() == [False, True, False, False]
    assert crossings.inserts.tolist() == [False, False, True, False]
