"""Commit times at the publisher of the transactions in the segments that a step reads. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_EPOCH = datetime.fromtimestamp(0, UTC)
_Times = npt.NDArray[np.int64]


class CommitTimes:
    """Commit times by LSN, in microseconds since 1970, by the publisher's clock."""

    def __init__(self) -> None:
        self._known: list[tuple[_Times, _Times]] = []

    def add(self, records: pa.Table) -> None:
        """Add the transactions of a segment."""
        lsns, places = np.unique(records["commit_lsn"].to_numpy(), return_index=True)
        times = records["commit_time"].cast(pa.int64()).to_numpy()
        self._known.append((lsns, times[places]))

    def find(self, lsn: int) -> int | None:
        """Return a transaction's commit time; None if none of the segments has it."""
        for lsns, times in reversed(self._known):
            place = int(np.searchsorted(lsns, lsn))
            if place < len(lsns) and lsns[place] == lsn:
                return int(times[place])
        return None


def microseconds(time: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1)
