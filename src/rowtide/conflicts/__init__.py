"""The conflicts of merge and of delivery in one list, to be decided by people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.conflicts.handle import ConflictInbox, DecisionResult, Inbox
    from rowtide.conflicts.inbox import (
        Choice,
        ColumnVersions,
        ConflictDetail,
        ConflictFilter,
        ConflictGroup,
        ConflictSource,
        DecisionPreview,
        InboxConflict,
        InboxNote,
        InboxState,
        PreviewedRow,
        WrittenVersion,
    )

__all__ = [
    "Choice",
    "ColumnVersions",
    "ConflictDetail",
    "ConflictFilter",
    "ConflictGroup",
    "ConflictInbox",
    "ConflictSource",
    "DecisionPreview",
    "DecisionResult",
    "Inbox",
    "InboxConflict",
    "InboxNote",
    "InboxState",
    "PreviewedRow",
    "WrittenVersion",
]

_HOMES = {
    "Choice": "rowtide.conflicts.inbox",
    "ColumnVersions": "rowtide.conflicts.inbox",
    "ConflictDetail": "rowtide.conflicts.inbox",
    "ConflictFilter": "rowtide.conflicts.inbox",
    "ConflictGroup": "rowtide.conflicts.inbox",
    "ConflictInbox": "rowtide.conflicts.handle",
    "InboxNote": "rowtide.conflicts.inbox",
    "ConflictSource": "rowtide.conflicts.inbox",
    "DecisionPreview": "rowtide.conflicts.inbox",
    "DecisionResult": "rowtide.conflicts.handle",
    "Inbox": "rowtide.conflicts.handle",
    "InboxConflict": "rowtide.conflicts.inbox",
    "InboxState": "rowtide.conflicts.inbox",
    "PreviewedRow": "rowtide.conflicts.inbox",
    "WrittenVersion": "rowtide.conflicts.inbox",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
