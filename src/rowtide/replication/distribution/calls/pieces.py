"""Run a batch that had an error in pieces, skipping the commands whose errors are listed. Pure.

A piece runs as a whole or not at all. If one fails, the commands before the failing one are run, then that one alone;
after that, pieces grow again. This is cheap for one failing command as well as for many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.replication.distribution.calls.ordered import ProcedureCall
from rowtide.replication.distribution.skip_errors import SkipErrors
from rowtide.replication.errors.delivery import CommandError

_MOST = 1024


@frozen
class Failure:
    """The first failing call of a piece, from 0, and its error."""

    index: int
    error: RowtideError


class Pieces:
    """Runs calls by `run_piece`, which returns the failure of a piece that it rolled back."""

    def __init__(self, run_piece: Callable[[Sequence[ProcedureCall]], Failure | None], skips: SkipErrors) -> None:
        self._run_piece = run_piece
        self._skips = skips
        self._waiting: list[ProcedureCall] = []
        self._size = _MOST
        self._skipped: list[CommandError] = []

    def add(self, call: ProcedureCall) -> None:
        """Add a call. Raises the error of a call that may not be skipped, here or at the end."""
        self._waiting.append(call)
        if len(self._waiting) >= _MOST:
            self._run_waiting()

    def end(self) -> Sequence[CommandError]:
        """Run the remaining calls; return the errors of skipped ones."""
        self.flush()
        return self._skipped

    def flush(self) -> None:
        """Run the waiting calls."""
        self._run_waiting()

    def _run_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        done = 0
        while done < len(waiting):
            done += self._run_some(waiting[done : done + self._size])

    def _run_some(self, piece: Sequence[ProcedureCall]) -> int:
        """Run a piece; return how many calls are done."""
        failure = self._run_piece(piece)
        if failure is None:
            self._size = min(2 * self._size, _MOST)
            return len(piece)
        if len(piece) > 1:
            self._size = 1
            # They succeeded before the failing one; if they do not now, they are begun again one by one.
            has_run = failure.index > 0 and self._run_piece(piece[: failure.index]) is None
            return failure.index if has_run else 0
        error = failure.error
        if self._skips.covers(error):
            self._skipped.append(error)
            return 1
        raise error
