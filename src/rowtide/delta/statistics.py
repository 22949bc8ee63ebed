"""Statistics of data files: which files a range of values may be in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rowtide.delta.actions import AddFile


@dataclass(frozen=True, slots=True)
class Between:
    """Rows in which an integer column, by its name in files, is in [low, high]; None: no bound."""

    column: str
    low: int | None = None
    high: int | None = None

    def may_be_in(self, file: AddFile) -> bool:
        """Return whether, by its statistics, a file may have such rows; without statistics it may."""
        statistics = file.statistics
        if self._is_all_null(file):
            return False
        least = (statistics.get("minValues") or {}).get(self.column)
        most = (statistics.get("maxValues") or {}).get(self.column)
        is_below = self.low is not None and isinstance(most, int) and most < self.low
        is_above = self.high is not None and isinstance(least, int) and least > self.high
        return not is_below and not is_above

    def _is_all_null(self, file: AddFile) -> bool:
        rows = file.statistics.get("numRecords")
        nulls = (file.statistics.get("nullCount") or {}).get(self.column)
        # Counts are bounds only where the file's rows are not hidden by a deletion vector.
        return rows is not None and nulls == rows


def prune(files: Iterable[AddFile], ranges: Iterable[Between]) -> Iterator[AddFile]:
    """Yield the files that may have rows in all ranges."""
    wanted = tuple(ranges)
    return (file for file in files if all(each.may_be_in(file) for each in wanted))
