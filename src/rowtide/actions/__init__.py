"""Actions of people on a database, and the audit table that has each with its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.actions.database_actions import Actions
    from rowtide.actions.entries import ActionEntry, ActionKind, ActionOutcome, ActionRequest, Channel

__all__ = ["ActionEntry", "ActionKind", "ActionOutcome", "ActionRequest", "Actions", "Channel"]

_HOMES = {
    "ActionEntry": "rowtide.actions.entries",
    "ActionKind": "rowtide.actions.entries",
    "ActionOutcome": "rowtide.actions.entries",
    "ActionRequest": "rowtide.actions.entries",
    "Actions": "rowtide.actions.database_actions",
    "Channel": "rowtide.actions.entries",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
