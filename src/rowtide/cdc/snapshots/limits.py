"""How tables are divided into chunks, and how many chunks are copied at once. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.cdc.rows.row_sizes import find_most_row_bytes
from rowtide.copying.present_tables import PresentTable

WORKERS = 2
LEAST_CHUNK_BYTES, MOST_CHUNK_BYTES = 64 * 1024 * 1024, 512 * 1024 * 1024
"""Of a table, as the server stores it: so much is repeated after a kill."""
CHUNKS_PER_WORKER = 8
"""Of a table that allows it: the last ones end at about the same time."""
CHUNK_S = 10
"""At a limited rate, a chunk takes about so long: a transaction snapshot that lives long holds back vacuum."""
LOCK_TIMEOUT_S = 2
"""A thread that waits for a lock does not notice that it is to end."""


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """How tables are divided, by default by their sizes, how many chunks are copied at once, and how large a row is
    copied whole (0: as memory allows).
    """

    chunk_bytes: int | None = None
    workers: int = WORKERS
    row_bytes: int = 0

    @property
    def most_row_bytes(self) -> int:
        """Return the size, in bytes of text, up to which a row is copied whole."""
        return self.row_bytes or find_most_row_bytes()

    def choose_chunk_bytes(self, present: PresentTable, rows_per_second: int | None) -> int:
        """Return the size of a table's chunks at a rate."""
        usual = self.chunk_bytes
        if usual is None:
            even = present.size // (self.workers * CHUNKS_PER_WORKER)
            usual = min(max(even, LEAST_CHUNK_BYTES), MOST_CHUNK_BYTES)
        if rows_per_second is None or not present.rows:
            return usual
        row_bytes = max(present.size // present.rows, 1)
        return max(min(usual, row_bytes * rows_per_second * CHUNK_S), row_bytes)


USUAL_LIMITS = CopyLimits()
