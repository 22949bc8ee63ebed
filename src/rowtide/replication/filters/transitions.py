"""Filter transitions: what a change is to a subscriber that has only the rows of a filter. Pure.

(SQL Server: the rows of horizontally filtered articles.) Source: specification 2.2, "Row (horizontal) filter".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Facts = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Transitions:
    """Which updates remain updates, become deletes because the row left the filter, or inserts because it entered.

    Other updates are not sent to the subscriber.
    """

    updates: _Facts
    deletes: _Facts
    inserts: _Facts


def find_transitions(before: _Facts, after: _Facts) -> Transitions:
    """Classify updates by whether their rows match the filter before and after."""
    return Transitions(updates=before & after, deletes=before & ~after, inserts=~before & after)
