"""The conflicts of databases, read on demand of pages, over connections that may read rows.

Conflicts of delivery are at subscribers, any of which may not answer: a thread reads them, and pages show what was read
last, with its age. Nothing is read while nobody looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from rowtide.conflicts.handle import ConflictInbox
from rowtide.conflicts.inbox import (
    Choice,
    ConflictDetail,
    ConflictGroup,
    DecisionPreview,
    InboxConflict,
    InboxState,
    group,
)
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.monitor.errors import OperatorUrlMissing
from rowtide.monitor.labels import without_users

if TYPE_CHECKING:
    from rowtide.conflicts.handle import Inbox

FRESH_S = 10.0
"""The age up to which results are reused."""
_FIRST_S = 4.0
"""How long a page waits for the first results."""
MOST_PREVIEWED = 20


@frozen
class UnreadPlace:
    """A subscriber whose conflicts cannot be read: since when (None: unknown), and why."""

    subscriber: str
    since: datetime | None
    reason: str


ANY = "any"
"""The conflicts of each state."""


@frozen
class ConflictIndex:
    """An index of conflicts for pages, made once for each set of results, since indexing thousands takes time.

    `listed` has those of a state, or of `ANY`, oldest first, and `causes` their groups; `by_cause` has those of each
    cause. `texts` are the searchable texts by conflict_id, without values of rows, which a search would disclose to
    viewers.
    """

    listed: Mapping[str, Sequence[InboxConflict]]
    causes: Mapping[str, Sequence[ConflictGroup]]
    by_cause: Mapping[str, Sequence[InboxConflict]]
    texts: Mapping[str, str]
    tables: frozenset[str]
    kinds: frozenset[str]

    @classmethod
    def make(cls, conflicts: Iterable[InboxConflict]) -> ConflictIndex:
        """Return the index of conflicts."""
        ordered = sorted(conflicts, key=lambda one: one.created)
        listed: dict[str, Sequence[InboxConflict]] = {
            state: [one for one in ordered if one.state is state] for state in InboxState
        }
        listed[ANY] = ordered
        by_cause: dict[str, list[InboxConflict]] = {}
        for one in ordered:
            by_cause.setdefault(one.cause, []).append(one)
        return cls(
            listed,
            {state: group(several) for state, several in listed.items()},
            by_cause,
            {one.conflict_id: _searched(one) for one in ordered},
            frozenset(one.table for one in ordered),
            frozenset(one.kind for one in ordered),
        )


def _searched(one: InboxConflict) -> str:
    return "\n".join((one.publication, one.table, one.node, one.conflict_id, one.cause)).casefold()


NO_CONFLICTS = ConflictIndex.make(())


@frozen
class InboxReading:
    """The conflicts of a database as last read; `failure` says why the last attempt to read them failed.

    `read_at` None: nothing was read yet.
    """

    index: ConflictIndex = NO_CONFLICTS
    unread: tuple[UnreadPlace, ...] = ()
    read_at: datetime | None = None
    failure: str | None = None

    @property
    def conflicts(self) -> Sequence[InboxConflict]:
        """All of them, oldest first."""
        return self.index.listed[ANY]


class Inboxes(Protocol):
    """The conflicts of databases, by the names of these."""

    def read(self, database: str) -> InboxReading | None:
        """Return the conflicts of a database; None if the monitor has no connection that may read them."""
        ...

    def show(self, database: str, conflict_id: str) -> ConflictDetail:
        """Read a conflict with its comments. Raises `InboxConflictUnknown`, connection errors."""
        ...

    def preview(self, database: str, name: str, choice: Choice) -> Sequence[DecisionPreview]:
        """Return what a decision would do, of a cause about its first `MOST_PREVIEWED` open conflicts.

        Raises `InboxConflictUnknown`, connection errors.
        """
        ...


class ReadInboxes:
    """The conflicts of those databases whose URLs of operators are known."""

    def __init__(self, urls: Mapping[str, str]) -> None:
        self._urls = urls
        self._readers: dict[str, _Reader] = {}

    def read(self, database: str) -> InboxReading | None:
        """See `Inboxes`."""
        url, known = self._urls.get(database), self._readers.get(database)
        if url is None:
            return None
        # The first two requests may both create a reader, and both read; that is harmless.
        if known is None or known.inbox.url != url:
            known = self._readers[database] = _Reader(ConflictInbox(url))
        return known.read()

    def show(self, database: str, conflict_id: str) -> ConflictDetail:
        """See `Inboxes`."""
        found = self._inbox_of(database).show(conflict_id)
        written = (
            replace(one, node=without_users(one.node) if one.node is not None else None) for one in found.written
        )
        return replace(found, conflict=_without_users(found.conflict), written=tuple(written))

    def preview(self, database: str, name: str, choice: Choice) -> Sequence[DecisionPreview]:
        """See `Inboxes`."""
        return list(islice(self._inbox_of(database).preview(name, choice), MOST_PREVIEWED))

    def _inbox_of(self, database: str) -> ConflictInbox:
        """Return the conflicts of a database that `read` has read. Raises `OperatorUrlMissing`."""
        url, known = self._urls.get(database), self._readers.get(database)
        if url is None:
            raise OperatorUrlMissing(database)
        return known.inbox if known is not None and known.inbox.url == url else ConflictInbox(url)


class _Reader:
    """Reads the conflicts of one database, in one thread at a time."""

    def __init__(self, inbox: ConflictInbox, now: Callable[[], float] = time.monotonic) -> None:
        self.inbox = inbox
        self._now = now
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ended_at: float | None = None
        self._last = InboxReading()
        self._found: tuple[InboxConflict, ...] = ()

    def read(self) -> InboxReading:
        """Return the last results, and start reading again unless they are recent."""
        with self._starting:
            is_running = self._thread is not None and self._thread.is_alive()
            is_fresh = self._ended_at is not None and self._now() - self._ended_at < FRESH_S
            if not is_running and not is_fresh:
                self._thread = threading.Thread(target=self._read, name="read conflicts", daemon=True)
                self._thread.start()
            thread = self._thread
        # Waits only for the first results: later a page shows the last ones, and waits for no subscriber.
        if self._ended_at is None and thread is not None:
            thread.join(_FIRST_S)
        return self._last

    def _read(self) -> None:
        try:
            found = self.inbox.list_conflicts()
            # Unchanged conflicts of merge are the same objects as before, so thousands are compared quickly.
            is_known = found.conflicts == self._found
            index = self._last.index if is_known else ConflictIndex.make(map(_without_users, found.conflicts))
            self._found = found.conflicts
            self._last = InboxReading(index, _unread(found), datetime.now(UTC))
        except RowtideError as error:
            before = self._last
            self._last = replace(before, failure=without_users(str(error)))
        self._ended_at = self._now()


def _unread(found: Inbox) -> tuple[UnreadPlace, ...]:
    return tuple(
        UnreadPlace(without_users(one.subscriber), one.since, without_users(one.reason)) for one in found.unread
    )


def _without_users(one: InboxConflict) -> InboxConflict:
    return replace(one, node=without_users(one.node))
