"""Which database a URL leads to: told by what the database is, not by how the URL is spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a subscription delivers: tables, as `schema.table`, to the subscriber of a URL."""

    subscriber: str
    tables: frozenset[str]


@dataclass(frozen=True, slots=True)
class DatabaseIdentity:
    """A database, and the subscriptions that are recorded in it.

    `database` is the same under each name of the database, and no other's; None where there is none yet. `receives`:
    the guids of the subscriptions that it is the subscriber of, or a copy of that; `delivers`: those that it is the
    publisher of, by their guids.
    """

    database: str | None
    receives: frozenset[str] = frozenset()
    delivers: Mapping[str, Delivered] = field(default_factory=dict)
