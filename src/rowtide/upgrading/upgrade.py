"""The stores of a database and of its subscribers, and their migration in order, by one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, cast

from rowtide.core.errors import RowtideError
from rowtide.core.formats import PresentStore
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url


@frozen
class FoundStores:
    """The stores that were found, and schemas with rowtide's names whose tables belong to others.

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


class UpgradesOfKind(Protocol):
    """The interface of the module for each kind of database."""

    find_present: Callable[[str], FoundStores]
    find_at_subscriber: Callable[[str], FoundStores]
    """Returns the stores that a database has as a subscriber, which those that it has for itself are not."""
    migrating_alone: Callable[[str], AbstractContextManager[None]]
    """Lets no other process migrate the database meanwhile, and waits for one that does."""


def present_of(url: str) -> UpgradesOfKind:
    """Return the part of a database's kind. Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`."""
    return cast("UpgradesOfKind", parse_url(url).kind.load_part("rowtide.upgrading"))


def find_present(url: str) -> FoundStores:
    """Return the stores of a database, none in one where nothing was enabled; also those that cannot be migrated.

    Where the definitions in a database cannot be read, the stores outside of it are not known. Raises `UrlNotRead`,
    `DatabaseKindUnknown`, `ExtraMissing`, `DatabaseCopied`, and what connecting raises.
    """
    return present_of(url).find_present(url)


_Visit: TypeAlias = Callable[[str], FoundStores]


@frozen
class DatabaseUpgrade:
    """What a database had before its upgrade; `failure` is why a subscriber could not be looked at or migrated."""

    url: str
    present: FoundStores
    failure: RowtideError | None = None

    @property
    def failures(self) -> tuple[RowtideError, ...]:
        """Why something was not migrated."""
        return (*self.present.list_refusals(), *(() if self.failure is None else (self.failure,)))

    def list_outdated(self) -> tuple[PresentStore, ...]:
        """Return the stores that were older than this build's, none if one of them is refused."""
        if self.failures:
            return ()
        return tuple(store for store in self.present.stores if store.list_steps())


def find_upgrades(url: str, subscribers: Sequence[str] | None = ()) -> tuple[DatabaseUpgrade, ...]:
    """Return what an upgrade would find, first in the database; see `upgrade` for the subscribers.

    Raises as `find_present`.
    """
    own = present_of(url).find_present(url)
    return (DatabaseUpgrade(url, own), *_visit(own, subscribers, _find_at_subscriber))


def upgrade(url: str, subscribers: Sequence[str] | None = ()) -> tuple[DatabaseUpgrade, ...]:
    """Migrate the stores of a database, then those that its subscribers have for it; return what each had before.

    `subscribers` are their URLs, None: all that the database records. If a store of a database is refused, none of it
    is migrated, and with the database's own none of its subscribers. A subscriber that fails does not keep the others
    from being migrated. A process that finds another one at it waits, and finds it done. Raises as `find_present`,
    `LeaseHeld`, and what the steps of the database itself raise.
    """
    part = present_of(url)
    with part.migrating_alone(url):
        own = part.find_present(url)
        own.migrate()
    visit = _find_at_subscriber if own.list_refusals() else _upgrade_at_subscriber
    return (DatabaseUpgrade(url, own), *_visit(own, subscribers, visit))


def _visit(own: FoundStores, subscribers: Sequence[str] | None, visit: _Visit) -> Iterator[DatabaseUpgrade]:
    for url in own.subscribers if subscribers is None else subscribers:
        yield _visit_one(url, visit)


def _visit_one(url: str, visit: _Visit) -> DatabaseUpgrade:
    try:
        return DatabaseUpgrade(url, visit(url))
    except RowtideError as error:
        return DatabaseUpgrade(url, FoundStores(()), error)


def _find_at_subscriber(url: str) -> FoundStores:
    return present_of(url).find_at_subscriber(url)


def _upgrade_at_subscriber(url: str) -> FoundStores:
    part = present_of(url)
    with part.migrating_alone(url):
        present = part.find_at_subscriber(url)
        present.migrate()
    return present
