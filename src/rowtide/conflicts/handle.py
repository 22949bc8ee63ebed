"""The conflicts of a database: `rowtide.connect(url).conflicts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowtide.conflicts.errors import InboxConflictUnknown, NothingDecided
from rowtide.conflicts.inbox import Choice, ConflictFilter, ConflictGroup, InboxConflict, InboxState, group, winner_of
from rowtide.conflicts.sources import Asked, Held, read_delivery, read_merge
from rowtide.core.errors import RowtideError
from rowtide.core.options import member_of, takes
from rowtide.core.values import frozen

if TYPE_CHECKING:
    from rowtide.replication.resolving import UnreadSubscriber


@frozen
class Inbox:
    """Conflicts, oldest first, and the subscribers whose conflicts could not be read."""

    conflicts: tuple[InboxConflict, ...]
    unread: tuple[UnreadSubscriber, ...]

    @property
    def groups(self) -> Sequence[ConflictGroup]:
        """The conflicts by their cause, the most frequent first."""
        return group(self.conflicts)


@frozen
class DecisionResult:
    """What a decision about a conflict did; `failure` says why it was refused, None if it was not."""

    conflict_id: str
    is_written: bool
    failure: str | None = None


class ConflictInbox:
    """The conflicts of merge that a node keeps, and those of delivery to a publisher's subscribers."""

    def __init__(self, url: str) -> None:
        self.url = url

    @takes(ConflictFilter)
    def list_conflicts(self, wanted: ConflictFilter) -> Inbox:
        """Return the conflicts that are wanted. Connects to the publisher's subscribers."""
        now = datetime.now(UTC)
        held, unread = self._read()
        chosen = (one.conflict for one in held if wanted.has(one.conflict, now))
        return Inbox(tuple(sorted(chosen, key=lambda one: one.created)), unread)

    def decide(
        self,
        name: str,
        choice: Choice | str,
        *,
        over_later_changes: bool = False,
        again: bool = False,
        decided_by: str | None = None,
    ) -> Iterator[DecisionResult]:
        """Decide about a conflict, or about all open ones of a cause; yield what became of each, as it is done.

        Each is a transaction of its own; one that is refused does not keep the others. A repeat decides about those
        that are left; with `again` about those that are settled, too. Raises `InboxConflictUnknown`.
        """
        wanted, asked = member_of(Choice, choice, "choice"), Asked(over_later_changes, again, decided_by)
        held, _ = self._read()
        chosen = [one for one in held if name in (one.conflict.conflict_id, one.conflict.cause)]
        if not chosen:
            raise InboxConflictUnknown(name)
        for one in chosen:
            if again or one.conflict.conflict_id == name or one.conflict.state is InboxState.OPEN:
                yield _decide(one, wanted, asked)

    def _read(self) -> tuple[Sequence[Held], tuple[UnreadSubscriber, ...]]:
        delivered, unread = read_delivery(self.url)
        return [*read_merge(self.url), *delivered], unread


def _decide(one: Held, choice: Choice, asked: Asked) -> DecisionResult:
    try:
        side = winner_of(one.conflict, choice)
        if side is None:
            raise NothingDecided(one.conflict.conflict_id)
        return DecisionResult(one.conflict.conflict_id, one.settle(side, asked))
    except RowtideError as error:
        return DecisionResult(one.conflict.conflict_id, is_written=False, failure=str(error))
