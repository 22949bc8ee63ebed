"""The stores of the database that a URL names, in the order in which they are migrated."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, cast

from rowtide.core.errors import RowtideError
from rowtide.core.formats import PresentStore
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url


@frozen
class Present:
    """What is there: stores, and schemas with rowtide's names whose tables are somebody else's.

    `subscribers` are the URLs of databases that have stores of their own for this one's publications.
    """

    stores: tuple[PresentStore, ...]
    foreign: tuple[str, ...] = ()
    subscribers: tuple[str, ...] = ()

    def list_refusals(self) -> tuple[RowtideError, ...]:
        """Return why stores cannot be migrated; nothing is migrated if one of them cannot be."""
        return tuple(refusal for store in self.stores if (refusal := store.find_refusal()) is not None)

    def migrate(self) -> None:
        """Migrate what is outdated, unless a store is refused. Raises what the steps raise."""
        if not self.list_refusals():
            for store in self.stores:
                store.migrate()


class PresentOfKind(Protocol):
    """What each kind of database has in its folder."""

    find_present: Callable[[str], Present]
    find_at_subscriber: Callable[[str], Present]
    """Returns the stores that a database has as a subscriber, which those that it has for itself are not."""
    migrating_alone: Callable[[str], AbstractContextManager[None]]
    """Lets no other process migrate the database meanwhile, and waits for one that does."""


def present_of(url: str) -> PresentOfKind:
    """Return the part of a database's kind. Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`."""
    return cast("PresentOfKind", parse_url(url).kind.load_part("rowtide.upgrading", "present"))


def find_present(url: str) -> Present:
    """Return the stores of a database, none in one where nothing was enabled; also those that cannot be migrated.

    Where the definitions in a database cannot be read, the stores outside of it are not known. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`, `DatabaseCopied`, and what connecting raises.
    """
    return present_of(url).find_present(url)
