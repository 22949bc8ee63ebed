"""Which transactions a copy contains: those that its snapshot sees. Pure.

Neither LSN nor commit time decides: a commit that waits for a synchronous standby is in the log, but invisible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.values import frozen

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@frozen
class TransactionSnapshot:
    """All transactions below `xmin` have ended, none from `xmax` on has started.

    In between, those in `in_progress` run. (PostgreSQL: pg_snapshot; ids are the 64-bit ones of transactions,
    subtransactions have none of their own.)
    """

    xmin: int
    xmax: int
    in_progress: tuple[int, ...]

    def sees(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return, for committed transactions, whether their changes are in the copy."""
        import numpy as np

        has_begun: npt.NDArray[np.bool_] = xids < self.xmax
        return has_begun & ~np.isin(xids, self.in_progress)


def parse_snapshot(text: str) -> TransactionSnapshot:
    """Parse PostgreSQL's text of a snapshot: `xmin:xmax:xid,xid,…`."""
    xmin, xmax, in_progress = text.split(":")
    return TransactionSnapshot(int(xmin), int(xmax), tuple(int(xid) for xid in in_progress.split(",") if xid))


def format_snapshot(snapshot: TransactionSnapshot) -> str:
    """Return PostgreSQL's text of a snapshot."""
    return f"{snapshot.xmin}:{snapshot.xmax}:{','.join(map(str, snapshot.in_progress))}"
