"""The actions on a database: `rowtide.connect(url).actions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rowtide.actions.entries import (
    RETENTION_DAYS,
    ActionEntry,
    ActionKind,
    ActionRequest,
    Channel,
    journal_of,
    normalize_id,
)
from rowtide.actions.errors import ActionUnknown
from rowtide.actions.performing import perform

MOST_LISTED = 1000


class Actions:
    """Actions that are done once, with an entry in the audit that has what became of each."""

    def __init__(self, url: str) -> None:
        self.url = url

    def list_entries(self, *, limit: int = MOST_LISTED) -> Sequence[ActionEntry]:
        """Return the last entries of the audit, newest first; none where nothing was done yet."""
        return journal_of(self.url).list_entries(self.url, limit)

    def purge(self, days: int) -> int:
        """Delete the entries that are older than so many days; return how many.

        Those older than `keep_days` of `perform`, 365 days by default, are deleted with the next action anyway.
        """
        return journal_of(self.url).purge(self.url, days)

    def find_entry(self, action_id: str) -> ActionEntry | None:
        """Return the entry of an action's id. Raises `ActionIdInvalid`."""
        return journal_of(self.url).find_entry(self.url, normalize_id(action_id))

    def perform(
        self,
        action: ActionKind | str,
        arguments: Mapping[str, Any],
        *,
        actor: str,
        channel: Channel = Channel.API,
        action_id: str | None = None,
        keep_days: int = RETENTION_DAYS,
    ) -> ActionEntry | None:
        """Do an action as the command of that name does it, and return its entry, which has its result.

        `arguments` are the command's, by their names: `{"publication": "shop"}`. An id, a UUID, that was used before
        is not done again: its entry is returned. An error of the action is in its entry. Entries that are older than
        `keep_days` are deleted. None: rowtide does nothing in this database. Raises `ActionUnknown`,
        `ActionIncomplete`, `ActionIdInvalid`, `ActionIdTaken`, `ActionNotRecorded` of a database that cannot be
        written, and connection errors.
        """
        from rowtide.actions.performing import prepare

        kind = parse_kind(action)
        run = prepare(self.url, kind, arguments, actor)
        request = ActionRequest.make(kind, arguments, actor=actor, channel=channel, action_id=action_id)
        return perform(self.url, request, run, keep_days=keep_days)


def parse_kind(name: ActionKind | str) -> ActionKind:
    """Return the action of a name. Raises `ActionUnknown`."""
    if name not in set(ActionKind):
        raise ActionUnknown(name, ", ".join(ActionKind))
    return ActionKind(name)
