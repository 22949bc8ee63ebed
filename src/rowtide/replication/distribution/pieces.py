"""A batch that had an error, in pieces: a command whose error is listed is left out, all others are run. Pure.

A piece is all run or not at all. Of one that fails, what came before the failing command is run, then that alone; from
there on pieces grow again: one bad command among many costs little, and so do many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowtide.core.errors import RowtideError
from rowtide.replication.distribution.batches import Call
from rowtide.replication.distribution.skip_errors import SkipErrors
from rowtide.replication.errors import CommandError

_MOST = 1024


@dataclass(frozen=True, slots=True)
class Failure:
    """Which call of a piece failed first, from 0, and how."""

    place: int
    error: RowtideError


class Pieces:
    """Takes calls and runs them by `run_piece`, which returns the failure of a piece that it has undone."""

    def __init__(self, run_piece: Callable[[Sequence[Call]], Failure | None], skips: SkipErrors) -> None:
        self._run_piece = run_piece
        self._skips = skips
        self._waiting: list[Call] = []
        self._size = _MOST
        self._skipped: list[CommandError] = []

    def add(self, call: Call) -> None:
        """Take a call. Raises the error of one that is not skipped, here and at the end."""
        self._waiting.append(call)
        if len(self._waiting) >= _MOST:
            self._run_waiting()

    def end(self) -> Sequence[CommandError]:
        """Run what is left; return the errors of what was left out."""
        self.flush()
        return self._skipped

    def flush(self) -> None:
        """Run what waits."""
        self._run_waiting()

    def _run_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        done = 0
        while done < len(waiting):
            done += self._run_some(waiting[done : done + self._size])

    def _run_some(self, piece: Sequence[Call]) -> int:
        """Run a piece; return how many calls are done with."""
        failure = self._run_piece(piece)
        if failure is None:
            self._size = min(2 * self._size, _MOST)
            return len(piece)
        if len(piece) > 1:
            self._size = 1
            # Without the failing one they went well; should they not now, they are begun again one by one.
            has_run = failure.place > 0 and self._run_piece(piece[: failure.place]) is None
            return failure.place if has_run else 0
        error = failure.error
        if self._skips.covers(error):
            self._skipped.append(error)
            return 1
        raise error
