"""Counts of a batch that is delivered, which are reported when it is committed."""

from __future__ import annotations

import time


class BatchCounts:
    """Counts of the current batch."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.transactions = 0
        self.commands = 0
        self.last_lsn = -1

    def count(self, lsn: int, commands: int = 1) -> None:
        """Count calls of a transaction."""
        self.commands += commands
        if lsn != self.last_lsn:
            self.transactions += 1
            self.last_lsn = lsn
