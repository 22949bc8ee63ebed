"""What tells whether two tables have the same rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """How many rows there are, and a checksum that their order does not change, if that was asked for."""

    rows: int
    checksum: str | None


FLOATING = ("real", "double precision")
"""Types whose numbers databases write each in its own way: compared by their bits."""
