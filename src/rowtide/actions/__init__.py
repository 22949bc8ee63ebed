"""Actions of people on a database, and the audit table that has each with its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.actions.entries import ActionEntry, ActionKind, ActionOutcome, ActionRequest, Channel
    from rowtide.actions.performing import Actions

__all__ = ["ActionEntry", "ActionKind", "ActionOutcome", "ActionRequest", "Actions", "Channel"]

_HOMES = {
    "ActionEntry": "rowtide.actions.entries",
    "ActionKind": "rowtide.actions.entries",
    "ActionOutcome": "rowtide.actions.entries",
    "ActionRequest": "rowtide.actions.entries",
    "Actions": "rowtide.actions.performing",
    "Channel": "rowtide.actions.entries",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
