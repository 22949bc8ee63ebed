"""Ascending numbers of rows, taken up to an end at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Ascending:
    """Numbers that come in parts."""

    more: Iterator[Numbers]
    held: Numbers = field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, end: int) -> Numbers:
        """Return the numbers below an end that were not taken yet."""
        taken = []
        while True:
            count = int(np.searchsorted(self.held, end))
            taken.append(self.held[:count])
            self.held = self.held[count:]
            if len(self.held):
                break
            found = next(self.more, None)
            if found is None:
                break
            self.held = found
        return np.concatenate(taken)
