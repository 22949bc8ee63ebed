"""What an agent that was killed left prepared at a subscriber, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecoveredTransaction:
    """A prepared transaction, by its name at the subscriber (PostgreSQL: gid); `outcome` is what was done with it."""

    name: str
    outcome: str
