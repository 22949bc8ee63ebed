"""Formats of what rowtide stores: each store records the number of its format, and the oldest builds that may use it.

The writer decides what older builds may do with a store, since only it knows what it changed. A store of the build's
own number has exactly the fields that the build writes; anything else is damage. The number is read first, and changes
in the same atomic step as what it numbers, so that an older build that runs meets it before its next write. Format 1 is
the first: a store without a number was never released.

Stores of an older format are migrated by numbered steps, so that a decoder knows one format; immutable files are not
rewritten, and are decoded by their own number. A build that raised a
format cannot be taken back, unless the new format's least reader and writer allow it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any, TypeAlias

from rowtide.core.errors import Invalid, RowtideError
from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen

FIRST = 1


@frozen
class StoredFormat:
    """What a store records of its format: its number, and the least numbers of builds that may read and write it."""

    number: int
    least_reader: int
    least_writer: int

    def __post_init__(self) -> None:
        """Raises `ValueError` for what no build records."""
        if not FIRST <= self.least_reader <= self.least_writer <= self.number:
            raise ValueError(f"no format: {self}")

    def __str__(self) -> str:
        return f"{self.number}/{self.least_reader}/{self.least_writer}"

    @classmethod
    def parse(cls, text: str) -> StoredFormat:
        """Read what `str` gives, for stores whose properties are texts. Raises `ValueError`."""
        numbers = text.split("/")
        if len(numbers) != len(fields(cls)) or not all(number.isdecimal() for number in numbers):
            raise ValueError(f"no format: {text}")
        return cls(*map(int, numbers))


@frozen
class StoreFormat:
    """The format in which this build writes one kind of store, which is named as in `docs/reference/formats.md`."""

    store: str
    number: int = FIRST
    least_reader: int = FIRST
    least_writer: int = FIRST
    replacement: str = ""
    """What the user does instead if `rowtide upgrade` does not cover the store."""

    @property
    def recorded(self) -> StoredFormat:
        """The format that this build records in a new store."""
        return StoredFormat(self.number, self.least_reader, self.least_writer)

    def require_not_newer(self, place: str, stored: StoredFormat | None) -> StoredFormat:
        """Return the format of a store that this build can read, or migrate.

        Raises `FormatUnnumbered` if a store has no format, `FormatNewer` if this build may not read it.
        """
        if stored is None:
            raise FormatUnnumbered(self.store, place)
        if stored.least_reader > self.number:
            raise FormatNewer(self.store, place, stored.number, self.number)
        return stored

    def require_readable(self, place: str, stored: StoredFormat | None) -> None:
        """Raises as `require_not_newer`; for an older store `FormatOutdated` or `FormatNotMigrated`."""
        number = self.require_not_newer(place, stored).number
        if number < self.number:
            if self.replacement:
                raise FormatNotMigrated(self.store, place, number, self.number, self.replacement)
            raise FormatOutdated(self.store, place, number, self.number)

    def require_writable(self, place: str, stored: StoredFormat | None) -> None:
        """Raises as `require_readable`, and `FormatNewer` if this build may not write to the store."""
        self.require_readable(place, stored)
        if stored is not None and stored.least_writer > self.number:
            raise FormatNewer(self.store, place, stored.number, self.number)


class FormatNewer(Invalid, number=1134):
    """A newer version of rowtide wrote the store, and this one may not read it, or not write to it."""

    fact = 'a newer version of rowtide wrote the {store} at "{place}": it has format {found}, this version {known}'
    hint = "Nothing was changed. Use a version of rowtide that knows this format."
    store: str
    place: str
    found: int
    known: int


class FormatOutdated(Invalid, number=1135):
    """An earlier version of rowtide wrote the store, which has to be migrated before this one uses it."""

    fact = 'the {store} at "{place}" has format {found}; this version needs format {known}'
    hint = (
        "Nothing was changed. Stop what runs with the earlier version, then migrate it: `rowtide upgrade`, or the "
        "agent's option --upgrade."
    )
    store: str
    place: str
    found: int
    known: int


class FormatNotMigrated(Invalid, number=1139):
    """An earlier version of rowtide wrote something that is created again instead of migrated: a snapshot, a stream's
    offset.
    """

    fact = 'the {store} at "{place}" has format {found}; this version needs format {known}'
    hint = "Nothing was changed: {replacement}."
    store: str
    place: str
    found: int
    known: int
    replacement: str


class FormatUnnumbered(Invalid, number=1136):
    """The store was written before formats had numbers, by a build of rowtide that was never released."""

    fact = 'the {store} at "{place}" was written before formats had numbers'
    hint = (
        "Nothing was changed, and this version does not use it. `disable-db`, `disable-table`, `drop-publication`, "
        "`drop-subscription` and `tracking disable` still remove it from a database."
    )
    store: str
    place: str


Migration = Callable[[Any], None]
MIGRATIONS: dict[tuple[str, int], Migration] = {}
"""Migration steps, by the store's name and the number from which the step migrates. A step receives the store's
`subject`.
"""


@frozen
class PresentStore:
    """An existing store: where it is, the format that it records, and what its migrations receive.

    `stored` is None if it was written before formats had numbers, or could not be read; `unread` is the reason in that
    case.
    """

    format: StoreFormat
    place: str
    stored: StoredFormat | None
    subject: Any
    unread: RowtideError | None = None

    def list_steps(self) -> list[int]:
        """Return the numbers from which the store is migrated, in order; empty if it needs no migration.

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
        """Take the store to this build's format, step by step; a repeat continues after the last one. Raises as
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


# The format of what rowtide keeps in a database: a view of one row, whose numbers are read from its definition. The
# definition is in the catalogue: to read it takes no right to the view, does not fail where there is none, and is
# part of whatever query a session begins with. Dumps have the view, and users can ask it.

_NUMBERS = re.compile(r"\b(\d+) as (number|least_reader|least_writer)\b", re.IGNORECASE)

Requirement: TypeAlias = Callable[[StoreFormat, str, StoredFormat | None], object]
"""What is required of a store before it is used: `StoreFormat.require_readable` or `StoreFormat.require_writable`.

It takes the format of this build, the store's place and what the store records.
"""


def format_row(recorded: StoredFormat) -> str:
    """Return the query that is the definition of a format's view."""
    numbers = {name: getattr(recorded, name) for name in ("number", "least_reader", "least_writer")}
    return f"select {', '.join(f'{number} as {name}' for name, number in numbers.items())}"


def parse_definition(definition: str | None) -> StoredFormat | None:
    """Return the format that a view records; None without one."""
    found = {name.lower(): int(number) for number, name in _NUMBERS.findall(definition or "")}
    return StoredFormat(**found) if len(found) == 3 else None


def _require_removable(own: StoreFormat, place: str, stored: StoredFormat | None) -> None:
    """Raise `FormatNewer` or `FormatOutdated` for what this build may not write to; what has no number is removed."""
    if stored is not None:
        own.require_writable(place, stored)


@contextmanager
def removing(*, wanted: bool = True) -> Iterator[None]:
    """Let `require` accept stores from before formats had numbers, so that the commands that disable and drop remove
    them.
    """
    token = _IS_REMOVING.set(wanted)
    try:
        yield
    finally:
        _IS_REMOVING.reset(token)


def require(requirement: Requirement, own: StoreFormat, place: str, stored: StoredFormat | None) -> None:
    """Raise what a store's requirement raises; within `removing`, a store without a number is accepted."""
    (_require_removable if _IS_REMOVING.get() else requirement)(own, place, stored)


_IS_REMOVING: ContextVar[bool] = ContextVar("is_removing", default=False)
