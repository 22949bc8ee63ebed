"""What a catalogue can do, whatever its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rowtide.catalogs.entries import Entry, Registered

SOURCE, KEY = "rowtide.source", "rowtide.table"
"""Properties of what rowtide registered: the identity of its database, and its entry's key."""


class Catalogue(Protocol):
    """A namespace of a catalogue, in which one database's tables are registered.

    Calls raise `CatalogueUnreachable`, `CatalogueRefused`.
    """

    @property
    def namespace(self) -> str:
        """Its name, as errors have it."""
        ...

    def as_name(self, name: str) -> str:
        """Return the nearest name that it takes."""
        ...

    def fit(self, entry: Entry) -> Entry:
        """Return an entry as it would have it: its own words for types and places, its lengths of texts."""
        ...

    def list_tables(self) -> Sequence[Registered]:
        """Return its tables. Raises `CatalogueNamespaceUnknown`."""
        ...

    def add(self, name: str, entry: Entry) -> None:
        """Register a table. Raises `CatalogueNameTaken`."""
        ...

    def correct(self, name: str, entry: Entry) -> None:
        """Replace the registration of a table."""
        ...

    def remove(self, name: str) -> None:
        """Remove the registration of a table, whose files stay."""
        ...
