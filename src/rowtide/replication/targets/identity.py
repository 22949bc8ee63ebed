"""The identity of the database to which a URL leads, whatever the URL's spelling."""

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
    """A database, and the subscriptions recorded in it.

    `database` is the same by every name of the database, and unique; None if it does not exist yet. `receives`: the
    guids of the subscriptions of which it, or the database it was copied from, is the subscriber; `delivers`: those of
    which it is the publisher, by guid.
    """

    database: str | None
    receives: frozenset[str] = frozenset()
    delivers: Mapping[str, Delivered] = field(default_factory=dict)
