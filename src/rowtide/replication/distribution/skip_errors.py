"""Command errors that are skipped at the user's request (SQL Server: -SkipErrors). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeGuard

from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.replication.errors.delivery import CommandError, CommandRefused, RowNotFound
from rowtide.replication.errors.subscribing import SkipErrorsInvalid

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
