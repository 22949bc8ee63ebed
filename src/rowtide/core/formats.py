"""Formats of what rowtide stores: each store records its format's number, and the least that may read and write it.

A build reads and writes the number that it has for a kind of store. A store of a higher number was written by a newer
build, which decided whether this one may still read or write it: the least reader and writer are the store's own. A
store of a lower number is migrated in numbered steps (`rowtide.core.upgrades`) before anything else is done with it.
Format 1 is the first: what has no number was written before there were any.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from rowtide.core.errors import Invalid

FIRST = 1


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Format:
    """The format in which this build writes one kind of store, which is named as in `docs/reference/formats.md`."""

    store: str
    number: int = FIRST
    least_reader: int = FIRST
    least_writer: int = FIRST

    @property
    def recorded(self) -> StoredFormat:
        """What a store that this build makes records."""
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
        """Raises as `require_not_newer`, and `FormatOutdated` if the store has to be migrated first."""
        number = self.require_not_newer(place, stored).number
        if number < self.number:
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
    hint = "Nothing was changed. Stop what runs with the earlier version, then migrate it: `rowtide upgrade`."
    store: str
    place: str
    found: int
    known: int


class FormatUnnumbered(Invalid, number=1136):
    """The store was written before formats had numbers, by a build of rowtide that was never released."""

    fact = 'the {store} at "{place}" was written before formats had numbers'
    hint = (
        "Nothing was changed, and this version does not use it. `disable-db`, `disable-table`, `drop-publication`, "
        "`drop-subscription` and `tracking disable` still remove it from a database."
    )
    store: str
    place: str
