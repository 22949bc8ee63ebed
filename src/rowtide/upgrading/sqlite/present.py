"""The stores of a SQLite file."""

from __future__ import annotations

from collections.abc import Iterator

from rowtide.core.upgrades import PresentStore


def list_stores(_url: str) -> Iterator[PresentStore]:
    """Yield none: what a file has is in its own tables, whose format is not stored here yet."""
    yield from ()
