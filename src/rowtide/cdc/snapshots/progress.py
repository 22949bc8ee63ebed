"""How far the snapshot of a table is."""

from __future__ import annotations

from rowtide.core.values import frozen


@frozen
class SnapshotProgress:
    """A report on a copy: chunks, rows and bytes so far, and the rate in rows a second.

    `message` says what happened: it waits, begins again, has ended.
    """

    capture_instance: str
    chunks: int
    of_chunks: int | None
    rows: int
    estimated_rows: int | None
    size: int
    rows_a_second: int | None = None
    message: str | None = None
    is_finished: bool = False

    @property
    def remaining_s(self) -> int | None:
        """The estimated seconds to the end, None if unknown."""
        if self.is_finished or not self.rows_a_second or not self.estimated_rows:
            return None
        return max(self.estimated_rows - self.rows, 0) // self.rows_a_second
