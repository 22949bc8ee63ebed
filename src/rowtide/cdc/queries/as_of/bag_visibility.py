"""Which transactions count above a snapshot of a table without a key: those that the snapshot does not see.

The snapshot is one of the server's, so that a row is in it once. LSNs do not say what it sees: a commit that waits for
a synchronous standby is in the log, but invisible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rowtide.cdc.lake_tables import LSN_TIME_MAPPING, arrow_schema, system_table_path
from rowtide.copying.visibility import parse_snapshot
from rowtide.delta.statistics import Between
from rowtide.lake.small_tables import SmallTable

if TYPE_CHECKING:
    import numpy.typing as npt

    from rowtide.cdc.recorded_snapshots import RecordedSnapshot

_COLUMNS = arrow_schema(LSN_TIME_MAPPING, "start_lsn", "tran_id")


@dataclass(frozen=True, slots=True)
class Counted:
    """The LSNs that count: those above one, and a few others below it."""

    above: int
    others: tuple[int, ...] = ()

    def has(self, lsns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which LSNs count."""
        counts: npt.NDArray[np.bool_] = (lsns > self.above) | np.isin(lsns, self.others)
        return counts

    def condition(self, lsn: str) -> str:
        """Return the condition, in SQL, that an LSN counts."""
        others = f" or {lsn} in ({', '.join(map(str, self.others))})" if self.others else ""
        return f"({lsn} > {self.above}{others})"


def find_counted(lake: str, snapshot: RecordedSnapshot) -> Counted:
    """Return what counts above a complete snapshot. Raises `LakeReadFailed`."""
    begin, covered = snapshot.begin.value, snapshot.covered
    table = SmallTable.open(system_table_path(lake, "lsn_time_mapping"))
    if table is None or covered is None or snapshot.definition.visible is None:
        return Counted(begin)
    seen_by = parse_snapshot(snapshot.definition.visible)
    above, unseen = begin, np.empty(0, np.int64)
    for rows in table.stream(_COLUMNS, Between("start_lsn", begin + 1, covered.value)):
        published = rows.filter(rows["start_lsn"].is_valid())
        lsns, xids = (published[name].to_numpy() for name in ("start_lsn", "tran_id"))
        is_there = (lsns > begin) & (lsns <= covered.value)
        is_seen = is_there & seen_by.sees(xids)
        above = int(max(lsns[is_seen].max(initial=above), above))
        unseen = np.concatenate([unseen, lsns[is_there & ~is_seen]])
    return Counted(above, tuple(sorted(int(lsn) for lsn in unseen if lsn < above)))
