"""The audit of a database: what each kind of database has in its folder, and how it is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from rowtide.actions.entries import ActionEntry, ActionOutcome, ActionRequest
from rowtide.core.errors import RowtideError
from rowtide.core.values import frozen
from rowtide.databases.urls import parse_url


@frozen
class BegunAction:
    """What is known as an action begins: the entry that its id has already, and whether there is an audit.

    A database in which rowtide does nothing gets no audit: nothing can be done there.
    """

    entry: ActionEntry | None
    is_audited: bool


class ActionJournal(Protocol):
    """The audit of one kind of database; every method opens and closes its own connection."""

    UNWRITABLE: tuple[type[RowtideError], ...]
    """What is raised where no entry can be written."""

    def begin(self, url: str, request: ActionRequest) -> BegunAction:
        """Commit the entry of an action, unless its id has one; make the table where there is none."""

    def end(self, url: str, action_id: str, outcome: ActionOutcome, result: str, error_number: int | None) -> None:
        """Commit the end of an action that has none."""

    def purge(self, url: str, days: int) -> int:
        """Delete the entries that began so many days ago or earlier; return how many."""

    def find_entry(self, url: str, action_id: str) -> ActionEntry | None:
        """Return the entry of an id."""

    def list_entries(self, url: str, limit: int) -> Sequence[ActionEntry]:
        """Return the last entries, newest first; none where there is no audit."""


def journal_of(url: str) -> ActionJournal:
    """Return the audit of a database's kind. Raises `UrlNotRead`, `DatabaseKindUnknown`, `ExtraMissing`."""
    return cast("ActionJournal", parse_url(url).kind.load_part("rowtide.actions", "audit"))
