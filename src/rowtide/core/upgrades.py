"""Migrations of stores to this build's formats, in numbered steps.

A step takes a store from one number to the next, atomically: it records the new number with what it changes, so that a
store that was killed in between has one of both. There is none yet: format 1 is the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rowtide.core.errors import Invalid, RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.formats import Format, StoredFormat

Migration = Callable[[Any], None]
MIGRATIONS: dict[tuple[str, int], Migration] = {}
"""By a store's name and the number it takes the store from: it is given the store's `subject`."""


@dataclass(frozen=True, slots=True)
class PresentStore:
    """A store that is there: where it is, the format that it records, and what its migrations are given.

    `stored` is None if it was written before formats had numbers, or could not be read: then `unread` says why.
    """

    format: Format
    place: str
    stored: StoredFormat | None
    subject: Any
    unread: RowtideError | None = None

    def list_steps(self) -> list[int]:
        """Return the numbers from which the store is migrated, in order, none for one that needs no migration.

        Raises `FormatUnnumbered`, `FormatNewer`, `MigrationMissing`, and what reading it raised.
        """
        if self.unread is not None:
            raise self.unread
        stored = self.format.require_not_newer(self.place, self.stored)
        numbers = list(range(stored.number, self.format.number))
        for number in numbers:
            if (self.format.store, number) not in MIGRATIONS:
                raise MigrationMissing(self.format.store, self.place, number)
        return numbers

    def find_refusal(self) -> RowtideError | None:
        """Return why the store cannot be migrated; None if it can be, or need not be."""
        try:
            self.list_steps()
        except RowtideError as error:
            return error
        return None

    def migrate(self) -> None:
        """Take the store to this build's format, step by step; a repeat goes on after the last one. Raises as
        `list_steps`, and what the steps raise.
        """
        for number in self.list_steps():
            failpoint("upgrade_step.before")
            MIGRATIONS[self.format.store, number](self.subject)
            failpoint("upgrade_step.after")


class MigrationMissing(Invalid, number=1137):
    """The store is of a format that this version of rowtide no longer migrates."""

    fact = 'the {store} at "{place}" has format {found}, from which this version does not migrate'
    hint = "Nothing was changed. Migrate it first with a version of rowtide that does."
    store: str
    place: str
    found: int
