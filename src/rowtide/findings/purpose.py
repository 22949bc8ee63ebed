"""What a role is to do in the database that is checked."""

from __future__ import annotations

from enum import StrEnum


class Purpose(StrEnum):
    """What the role of the connection is for: a check judges what that needs, and nothing else."""

    MONITOR = "monitor"
    """It runs `status`, `health` and `check`."""
    READER = "reader"
    """It reads changes: of capture instances, or of tracked tables."""
    PUBLISHER = "publisher"
    """It enables capture, publishes, and runs the agents that read the log."""
    SUBSCRIBER = "subscriber"
    """Published tables are delivered into the database."""
    MERGE = "merge"
    """The database is a node of a merge: hub or subscriber."""
