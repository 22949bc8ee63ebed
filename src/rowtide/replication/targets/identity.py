"""The identity of the database to which a URL leads, whatever the URL's spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rowtide.core.values import frozen


@frozen
class Delivered:
    """What a subscription delivers: tables, as `schema.table`, to the subscriber of a URL."""

    subscriber: str
    tables: frozenset[str]
    forwards: bool = True
    """Whether it also delivers what the publisher itself has received."""
    conflicts: str | None = None
    """What is done about conflicts; None: not decided."""


@frozen
class Originators:
    """Where a subscription's changes come from: the publisher, and all databases whose changes it delivers.

    `tables` are those that it delivers to, as `schema.table`. `onward` are the subscriptions, by subscriber's URL and
    guid, that forward what it delivers.
    """

    publisher: str
    databases: frozenset[str]
    tables: frozenset[str]
    onward: tuple[tuple[str, str], ...] = ()


@frozen
class ReceivedOrigins:
    """What a subscription delivers to a database: changes that `databases` have made, to tables, from `publisher`.

    All None: the database does not record it.
    """

    publisher: str | None
    databases: frozenset[str] | None
    tables: frozenset[str] | None

    def find_origins(self, table: str) -> frozenset[str]:
        """Return the databases whose changes of a table arrive; none if that is not known."""
        return self.databases or frozenset() if self.tables is not None and table in self.tables else frozenset()


UNKNOWN_ORIGINS = ReceivedOrigins(None, None, None)


@frozen
class DatabaseIdentity:
    """A database, and the subscriptions recorded in it.

    `database` is the same by every name of the database, and unique; None if it does not exist yet. `receives`: the
    subscriptions of which it, or the database it was copied from, is the subscriber; `delivers`: those of which it is
    the publisher; both by guid.
    """

    database: str | None
    receives: Mapping[str, ReceivedOrigins] = field(default_factory=dict)
    delivers: Mapping[str, Delivered] = field(default_factory=dict)
