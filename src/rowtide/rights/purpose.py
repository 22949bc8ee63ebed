"""The purposes of roles. Pure."""

from __future__ import annotations

from enum import StrEnum

from rowtide.rights.errors import PurposeUnknown


class Purpose(StrEnum):
    """What a role is for: it needs rights for that, and no others."""

    MONITOR = "monitor"
    """It runs `status`, `health`, `check`, and the listings of history and errors."""
    READER = "reader"
    """It reads changes: of capture instances, or of tracked tables."""
    PUBLISHER = "publisher"
    """It enables capture, publishes, and runs the agents that read the log."""
    SUBSCRIBER = "subscriber"
    """Published tables are delivered into the database."""
    MERGE = "merge"
    """The database is a node of a merge: hub or subscriber."""
    GATEWAY = "gateway"
    """It serves the devices of a hub over HTTP: the hub's tables are there, and it publishes nothing."""
    TRACKER = "tracker"
    """It enables and administers change tracking."""


def parse_purpose(name: Purpose | str) -> Purpose:
    """Return the purpose of a name. Raises `PurposeUnknown`."""
    if name not in set(Purpose):
        raise PurposeUnknown(name, ", ".join(Purpose))
    return Purpose(name)
