"""Formats of what rowtide stores: each store records the number of its format, and the least that may read and write it.

A build reads and writes the number that it has for a kind of store. A store of a higher number was written by a newer
build, which decided whether this one may still read or write it: the numbers of the least reader and the least writer
are the store's own. A store of a lower number is migrated by `rowtide upgrade`, in numbered steps. Format 1 is the
first: what has no number was written before there were any.
"""

from __future__ import annotations

from dataclasses import dataclass

from rowtide.core.errors import Invalid, numbered

FIRST = 1


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """What a store records of its format: its number, and the least numbers of builds that may read and write it."""

    number: int
    least_reader: int
    least_writer: int


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

    def require_readable(self, place: str, stored: StoredFormat | None) -> None:
        """Raises `FormatUnnumbered` if a store has no format, `FormatNewer` if this build may not read it."""
        if stored is None:
            raise FormatUnnumbered(self.store, place)
        if stored.least_reader > self.number:
            raise FormatNewer(self.store, place, stored.number, self.number)

    def require_writable(self, place: str, stored: StoredFormat | None) -> None:
        """Raises as `require_readable`, or `FormatOutdated` if the store has to be migrated first."""
        if stored is None:
            raise FormatUnnumbered(self.store, place)
        if stored.least_writer > self.number:
            raise FormatNewer(self.store, place, stored.number, self.number)
        if stored.number < self.number:
            raise FormatOutdated(self.store, place, stored.number, self.number)


@numbered
class FormatNewer(Invalid):
    """A newer build wrote the store, and this one may not read it, or not write to it."""

    number = 1134
    fact = 'the {store} at "{place}" has format {found}, which a newer build wrote; this build knows format {known}'
    hint = "Nothing was changed. Use a build of rowtide that knows this format."
    store: str
    place: str
    found: int
    known: int


@numbered
class FormatOutdated(Invalid):
    """An earlier build wrote the store, which has to be migrated before this one writes to it."""

    number = 1135
    fact = 'the {store} at "{place}" has format {found}; this build writes format {known}'
    hint = "Nothing was changed. Stop what runs on the earlier build, then migrate it with `rowtide upgrade`."
    store: str
    place: str
    found: int
    known: int


@numbered
class FormatUnnumbered(Invalid):
    """The store was written before formats had numbers, by a build that was never released."""

    number = 1136
    fact = 'the {store} at "{place}" was written before formats had numbers'
    hint = "Nothing was changed. This build does not read it; the commands that disable and drop still remove it."
    store: str
    place: str
