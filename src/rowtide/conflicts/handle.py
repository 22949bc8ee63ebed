"""The conflicts of a database: `rowtide.connect(url).conflicts`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowtide.conflicts.errors import CommentEmpty, InboxConflictUnknown, NothingDecided
from rowtide.conflicts.inbox import (
    Choice,
    ConflictDetail,
    ConflictFilter,
    ConflictGroup,
    DecisionPreview,
    InboxConflict,
    InboxState,
    compare_versions,
    group,
    winner_of,
)
from rowtide.conflicts.sources import (
    DecidableConflict,
    DecisionOptions,
    DeliveredConflicts,
    MergedConflicts,
    comment,
    find_merge,
    read_delivery_notes,
    written_versions,
)
from rowtide.core.errors import RowtideError
from rowtide.core.options import member_of, takes
from rowtide.core.values import frozen

if TYPE_CHECKING:
    from rowtide.replication.kept_conflicts import UnreadSubscriber


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


_MOST_NAMED = 10


def list_refused(results: Sequence[DecisionResult]) -> str:
    """Return which decisions were refused, with the errors' numbers; nothing if none was."""
    refused = [one for one in results if one.failure is not None]
    named = [f"{one.conflict_id} ({(one.failure or '').partition(':')[0]})" for one in refused[:_MOST_NAMED]]
    more = len(refused) - len(named)
    return ", ".join([*named, *([f"{more:,} more"] if more else [])])


class ConflictInbox:
    """The conflicts of merge that a node keeps, and those of delivery to a publisher's subscribers."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._merged = MergedConflicts(url)
        self._delivered = DeliveredConflicts(url)

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
        """Decide about a conflict, or about all open ones of a cause; yield each outcome, as it is written.

        Each is a transaction of its own; one that is refused does not keep the others. A repeat decides about those
        that are left; with `again` about those that are settled, too. Raises `InboxConflictUnknown`.
        """
        wanted, asked = member_of(Choice, choice, "choice"), DecisionOptions(over_later_changes, again, decided_by)
        for one in self._choose(name, settled_too=again):
            yield _decide(one, wanted, asked)

    def preview(self, name: str, choice: Choice | str, *, settled_too: bool = False) -> Iterator[DecisionPreview]:
        """Yield what a decision about a conflict, or about all open ones of a cause, would do; write nothing.

        Of rows that have changed since, it is what the decision over later changes would do. Raises
        `InboxConflictUnknown`.
        """
        wanted = member_of(Choice, choice, "choice")
        for one in self._choose(name, settled_too=settled_too):
            yield _preview(one, wanted)

    def show(self, conflict_id: str) -> ConflictDetail:
        """Return a conflict with its columns at both sides, comments and decisions. Raises `InboxConflictUnknown`."""
        merged = find_merge(self.url, conflict_id)
        if merged is not None:
            conflict = merged.held.conflict
            return ConflictDetail(conflict, compare_versions(conflict), merged.notes, merged.written)
        for one in self._delivered.read()[0]:
            if one.conflict.conflict_id == conflict_id:
                notes, written = read_delivery_notes(self.url, one.conflict), written_versions(one.conflict)
                return ConflictDetail(one.conflict, compare_versions(one.conflict), tuple(notes), tuple(written))
        raise InboxConflictUnknown(conflict_id)

    def comment(self, name: str, note: str, *, noted_by: str) -> int:
        """Record a comment on a conflict, or on all of a cause; return on how many.

        It is kept as long as the conflict, at the hub, or at the publisher. Raises `InboxConflictUnknown`,
        `CommentEmpty`.
        """
        if not note.strip():
            raise CommentEmpty
        chosen = [one.conflict for one in self._choose(name, settled_too=True)]
        comment(self.url, chosen, note.strip(), noted_by)
        return len(chosen)

    def _choose(self, name: str, *, settled_too: bool) -> Sequence[DecidableConflict]:
        """Return a conflict, or those of a cause that are open. Raises `InboxConflictUnknown`."""
        merged = find_merge(self.url, name)
        if merged is not None:
            return [merged.held]
        held, _ = self._read()
        chosen = [one for one in held if name in (one.conflict.conflict_id, one.conflict.cause)]
        if not chosen:
            raise InboxConflictUnknown(name)
        is_wanted = settled_too or any(one.conflict.conflict_id == name for one in chosen)
        return [one for one in chosen if is_wanted or one.conflict.state is InboxState.OPEN]

    def _read(self) -> tuple[Sequence[DecidableConflict], tuple[UnreadSubscriber, ...]]:
        delivered, unread = self._delivered.read()
        return [*self._merged.read(), *delivered], unread


def _decide(one: DecidableConflict, choice: Choice, asked: DecisionOptions) -> DecisionResult:
    try:
        side = winner_of(one.conflict, choice)
        if side is None:
            raise NothingDecided(one.conflict.conflict_id)
        return DecisionResult(one.conflict.conflict_id, one.settle(side, asked))
    except RowtideError as error:
        return DecisionResult(one.conflict.conflict_id, is_written=False, failure=str(error))


def _preview(one: DecidableConflict, choice: Choice) -> DecisionPreview:
    side = winner_of(one.conflict, choice)
    try:
        if side is None:
            raise NothingDecided(one.conflict.conflict_id)
        return one.preview(side)
    except RowtideError as error:
        return DecisionPreview(one.conflict.conflict_id, side, failure=str(error))
