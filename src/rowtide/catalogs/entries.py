"""What is registered of a table, and what a catalogue has of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EntryColumn:
    """A column: its name and lake type in the table, and what it means."""

    name: str
    type_name: str
    comment: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A Delta table that is to be registered.

    `key` tells it from all other tables of its database for good; `name` is wanted, if the catalogue takes it.
    """

    key: str
    name: str
    location: str
    comment: str = ""
    columns: tuple[EntryColumn, ...] = ()


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Registered:
    """A table of a catalogue's namespace.

    `key` is that of the entry if it was registered from this database, else None; `entry` is how it is registered,
    without a name of its own.
    """

    name: str
    key: str | None = None
    entry: Entry | None = None
