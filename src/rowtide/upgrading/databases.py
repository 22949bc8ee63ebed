"""Upgrades of a database and of its subscribers: what each has, and its migration, one process at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from rowtide.core.errors import RowtideError
from rowtide.core.formats import PresentStore
from rowtide.core.values import frozen
from rowtide.upgrading.present import Present, present_of

_Visit: TypeAlias = Callable[[str], Present]


@frozen
class DatabaseUpgrade:
    """What a database had before its upgrade; `failure` is why a subscriber could not be looked at or migrated."""

    url: str
    present: Present
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


def _visit(own: Present, subscribers: Sequence[str] | None, visit: _Visit) -> Iterator[DatabaseUpgrade]:
    for url in own.subscribers if subscribers is None else subscribers:
        yield _visit_one(url, visit)


def _visit_one(url: str, visit: _Visit) -> DatabaseUpgrade:
    try:
        return DatabaseUpgrade(url, visit(url))
    except RowtideError as error:
        return DatabaseUpgrade(url, Present(()), error)


def _find_at_subscriber(url: str) -> Present:
    return present_of(url).find_at_subscriber(url)


def _upgrade_at_subscriber(url: str) -> Present:
    part = present_of(url)
    with part.migrating_alone(url):
        present = part.find_at_subscriber(url)
        present.migrate()
    return present
