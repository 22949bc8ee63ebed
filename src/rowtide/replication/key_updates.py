"""How a change of a row's key reaches a subscriber."""

from __future__ import annotations

from enum import StrEnum


class KeyUpdates(StrEnum):
    """How an update that changes a row's key reaches the subscriber."""

    UPDATE = "update"
    DELETE_INSERT = "delete-insert"
    """As SQL Server's deferred updates: what refers to the row by a cascading foreign key goes with it."""
