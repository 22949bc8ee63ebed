"""What a change is to a subscriber who has the rows of a filter only. Pure.

(SQL Server: the rows of horizontally filtered articles.) Source: specification 2.2, "Row (horizontal) filter".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Facts = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Transitions:
    """Which updates stay updates, which are deletes as their row left the filter, and inserts as it came in.

    What is none of these is nothing to the subscriber.
    """

    updates: _Facts
    deletes: _Facts
    inserts: _Facts


def find_transitions(before: _Facts, after: _Facts) -> Transitions:
    """Return what updates are, from whether their rows match before and after."""
    return Transitions(updates=before & after, deletes=before & ~after, inserts=~before & after)
