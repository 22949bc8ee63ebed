"""Skip commands whose errors a subscription lists (SQL Server: -SkipErrors). Pure.

A batch that had an error is run in pieces: a piece runs as a whole or not at all. If one fails, the commands before the
failing one are run, then that one alone; after that, pieces grow again. This is cheap for one failing command as well
as for many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeGuard

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.replication.errors.delivery import CommandError, CommandRefused, RowNotFound
from rowtide.replication.errors.subscribing import SkipErrorsInvalid

if TYPE_CHECKING:
    from rowtide.replication.distribution.calls.ordered import ProcedureCall

_UNIQUE = ("23505", "SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID")
_CODES: Mapping[str, tuple[str, ...]] = {
    "2601": _UNIQUE,
    "2627": _UNIQUE,
    "547": ("23503", "23514", "SQLITE_CONSTRAINT_CHECK", "SQLITE_CONSTRAINT_FOREIGNKEY"),
    "515": ("23502", "SQLITE_CONSTRAINT_NOTNULL"),
}
"""SQLSTATEs and SQLite codes of the errors that SQL Server has a number for."""
_ROW_NOT_FOUND = str(RowNotFound.number)
_SQLSTATE = re.compile("[0-9A-Z]{5}")


@frozen
class SkipErrors:
    """The errors for which a command is skipped; by default none."""

    codes: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> SkipErrors:
        """Parse SQL Server error numbers and SQLSTATEs, separated by colons; none if empty.

        Raises `SkipErrorsInvalid`.
        """
        if not text:
            return NOTHING_SKIPPED
        codes: set[str] = set()
        for part in text.split(":"):
            code = part.strip().upper()
            if code not in _CODES and _SQLSTATE.fullmatch(code) is None:
                raise SkipErrorsInvalid(part, ", ".join([*_CODES, _ROW_NOT_FOUND]))
            codes.update(_CODES.get(code, (code,)))
        return cls(frozenset(codes))

    def __bool__(self) -> bool:
        return bool(self.codes)

    def covers(self, error: RowtideError) -> TypeGuard[CommandError]:
        """Return whether a command with this error is skipped."""
        match error:
            case RowNotFound():
                return _ROW_NOT_FOUND in self.codes
            case CommandRefused():
                return error.sqlstate in self.codes
            case _:
                return False


NOTHING_SKIPPED = SkipErrors()

_MOST = 1024


@frozen
class Failure:
    """The first failing call of a piece, from 0, and its error."""

    index: int
    error: RowtideError


class RetriedCalls:
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
