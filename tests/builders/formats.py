"""Stores of other formats than this build's: made by it, then given the record of another, or none."""

from __future__ import annotations

import re
from pathlib import Path

NEWER_READABLE, NEWER = (2, 1, 2), (2, 2, 2)
"""Formats of a newer build: this one may read the first."""


def forgetting(view: str) -> str:
    """Return the statement after which a store is as one that was made before formats had numbers."""
    return f"drop view {view}"


def recording(view: str, stored: tuple[int, int, int]) -> tuple[str, str]:
    """Return the statements that record another format than the present one."""
    number, least_reader, least_writer = stored
    numbers = f"{number} as number, {least_reader} as least_reader, {least_writer} as least_writer"
    return forgetting(view), f"create view {view} as select {numbers}"


def forget_format(table: Path) -> None:
    """Make a Delta table one that was made before formats had numbers."""
    for path in table.glob("_delta_log/*.json"):
        path.write_text(re.sub(r'"rowtide\.format":"[^"]*"', '"other":""', path.read_text()))
