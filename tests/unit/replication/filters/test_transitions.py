"""What an update is to a subscriber who has the rows of a filter only."""

from __future__ import annotations

import numpy as np

from rowtide.replication.filters.transitions import find_transitions


def test_rows_leaving_are_deletes_and_rows_entering_are_inserts() -> None:
    before, after = np.array([True, True, False, False]), np.array([True, False, True, False])

    transitions = find_transitions(before, after)

    assert transitions.updates.tolist() == [True, False, False, False]
    assert transitions.deletes.tolist() == [False, True, False, False]
    assert transitions.inserts.tolist() == [False, False, True, False]
