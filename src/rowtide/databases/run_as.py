"""Whose rights the code of other roles' tables has where rowtide writes into them."""

from __future__ import annotations

from enum import StrEnum


class RunAs(StrEnum):
    """Whose rights triggers, defaults, checks and other code of a table of another role have."""

    OWNER = "owner"
    """Those of the table's owner."""
    AGENT = "agent"
    """Those of the role that writes: the tables' owners are trusted with them."""
