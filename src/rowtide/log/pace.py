"""How long changes wait to be made durable together: in a bucket, until who reads them asks for them.

A batch costs requests, to write and to read it; a reader that rests between its cycles needs one batch a cycle, and
says when. Nothing depends on what is asked: a batch waits a while at most, and never for a reader that did not ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

MOST_HELD_S = 30.0
"""After this time a batch is made durable unasked, so that the server may remove its log."""


@dataclass(frozen=True, slots=True)
class BatchWanted:
    """A reader of the log store, by its name there, waits for what was committed."""

    reader: str


class ReadingPace:
    """The log reader's side. Asked by one thread, used by another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Hold nothing until a reader has asked."""
        self._clock = clock
        self._reader: str | None = None
        self._is_wanted = True
        self._held_since: float | None = None

    def ask(self, wanted: BatchWanted) -> None:
        """Let the next batch be made durable at once."""
        self._reader, self._is_wanted = wanted.reader, True

    def holds(self, readers: Collection[str]) -> bool:
        """Return whether a batch that is there waits; `readers` are all that read the log store."""
        if self._is_wanted or set(readers) != {self._reader}:
            return False
        now = self._clock()
        if self._held_since is None:
            self._held_since = now
        return now < self._held_since + MOST_HELD_S

    def hand_on(self) -> None:
        """Note that a batch is made durable: from now on the next one waits to be asked for."""
        self._is_wanted, self._held_since = False, None
