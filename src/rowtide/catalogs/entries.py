"""Kinds of catalogues, the registration of a table, and the plan of what to add, correct and remove.

A registration is marked in the catalogue with the source's identity, and a key that survives renames. Several databases
may register in one namespace, which may have other tables too; a table without this database's mark is never changed. A
registered table keeps its name until it is removed, so that a reader of a name never gets another table's rows; a new
table whose name is in use gets a suffix. Registrations are compared with what would be registered now, so that changes
of a location, type or comment by another client are corrected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Protocol

from rowtide.catalogs.errors import CatalogueNameTaken
from rowtide.core.values import frozen


@frozen
class EntryColumn:
    """A column: its name and lake type in the table, and what it means."""

    name: str
    type_name: str
    comment: str


@frozen
class CatalogueEntry:
    """A Delta table that is to be registered.

    `key` identifies it among all tables of its database, permanently; `name` is wanted, if the catalogue takes it.
    """

    key: str
    name: str
    location: str
    comment: str = ""
    columns: tuple[EntryColumn, ...] = ()


@frozen
class Resident:
    """An Iceberg table that its target has in a catalogue: no other catalogue may have it, too.

    `title` is what it is in rowtide's words, `catalog` its target's `NAME.NAMESPACE`, `name` its name
    there; `meanings` are comments of columns.
    """

    title: str
    target_id: str
    catalog: str
    name: str
    comment: str
    meanings: Mapping[str, str]


@frozen
class Registered:
    """A table of a catalogue's namespace.

    `key` is that of the entry if it was registered from this database, else None; `entry` is how it is registered,
    without a name of its own.
    """

    name: str
    key: str | None = None
    entry: CatalogueEntry | None = None


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

    def fit(self, entry: CatalogueEntry) -> CatalogueEntry:
        """Return an entry in the catalogue's form: its names of types, its form of places, its limits of texts."""
        ...

    def list_tables(self) -> Sequence[Registered]:
        """Return its tables. Raises `CatalogueNamespaceUnknown`."""
        ...

    def add(self, name: str, entry: CatalogueEntry) -> None:
        """Register a table. Raises `CatalogueNameTaken`."""
        ...

    def correct(self, name: str, entry: CatalogueEntry) -> None:
        """Replace the registration of a table."""
        ...

    def remove(self, name: str) -> None:
        """Remove the registration of a table, whose files stay."""
        ...


_DIGEST_LENGTH = 6


class RegistrationAction(StrEnum):
    """The action on a table's registration."""

    ADD = "add"
    CORRECT = "correct"
    REMOVE = "remove"
    KEEP = "keep"


@frozen
class RegistrationStep:
    """An action on the registration of a table under a name of the catalogue; `entry` is None for a removal."""

    action: RegistrationAction
    name: str
    entry: CatalogueEntry | None


def plan_steps(
    wanted: Iterable[CatalogueEntry], present: Iterable[Registered], as_name: Callable[[str], str], namespace: str
) -> list[RegistrationStep]:
    """Return a step for each table: removals first, which free names, and then the entries in their order.

    `as_name` converts a name to one that the catalogue accepts. A registered table keeps its name, which no other table
    gets before it is removed. If two tables would have the same name, the later one gets a suffix derived from its own
    name. The entries are in the catalogue's form. Raises `CatalogueNameTaken`.
    """
    entries, found = list(wanted), list(present)
    keys = {entry.key for entry in entries}
    ours = {one.key: one for one in found if one.key is not None and one.key in keys}
    gone = [one for one in found if one.key is not None and ours.get(one.key) is not one]
    foreign = {one.name for one in found if one.key is None}
    taken = {one.name for one in ours.values()}
    steps = [RegistrationStep(RegistrationAction.REMOVE, one.name, None) for one in gone]
    for entry in entries:
        known = ours.get(entry.key)
        if known is not None:
            steps.append(
                RegistrationStep(
                    RegistrationAction.KEEP if known.entry == replace(entry, name="") else RegistrationAction.CORRECT,
                    known.name,
                    entry,
                )
            )
            continue
        name = _choose(entry.name, as_name, taken)
        if name in foreign:
            raise CatalogueNameTaken(namespace, name)
        taken.add(name)
        steps.append(RegistrationStep(RegistrationAction.ADD, name, entry))
    return steps


def _choose(wanted: str, as_name: Callable[[str], str], taken: Iterable[str]) -> str:
    name = as_name(wanted)
    if name not in taken:
        return name
    return f"{name}_{hashlib.sha256(wanted.encode()).hexdigest()[:_DIGEST_LENGTH]}"


class CatalogueKind(StrEnum):
    """A kind of catalogue, by its interface.

    Unity Catalog is missing, because no package registry has its server for tests.
    """

    HIVE = "hive"
    """A Hive metastore: by Thrift, or by JDBC the database of an embedded one."""
    ICEBERG = "iceberg"
    """A catalogue of Iceberg's REST protocol."""
