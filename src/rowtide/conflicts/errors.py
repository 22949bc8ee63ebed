"""Errors of the list of conflicts."""

from __future__ import annotations

from rowtide.core.errors import Invalid, NotFound, RowtideError


class InboxConflictUnknown(NotFound, number=1196):
    """No conflict, and no cause of conflicts, has this name."""

    fact = "no conflict and no cause of conflicts is named {name}"
    hint = "The lists of conflicts and of causes have their names; conflicts are kept for 14 days."
    name: str


class NothingDecided(Invalid, number=1198):
    """Neither side of a conflict has won yet: it can be neither kept nor decided otherwise."""

    fact = "conflict {conflict_id} has stopped delivery: neither side has won"
    hint = "Choose publisher or subscriber."
    conflict_id: str


class DecisionsFailed(RowtideError, number=1199):
    """Decisions about conflicts were refused; the others are made."""

    fact = "{failed} of {count} decisions were refused: {refused}"
    hint = "A repeat decides about those that are left."
    failed: int
    count: int
    refused: str


class CommentEmpty(Invalid, number=7209):
    """A comment on a conflict has no text."""

    fact = "the comment has no text"
    hint = "Write what others should know about the conflict."
