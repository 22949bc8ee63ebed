"""Fingerprints, by which two tables' rows are compared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The number of rows, and optionally a checksum that does not depend on their order."""

    rows: int
    checksum: str | None


FLOATING = ("real", "double precision")
"""Types whose text form differs between databases: compared by their bits."""
