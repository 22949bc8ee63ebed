"""The lake of a database, for commands that it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowtide.cdc.lake_functions import LakeFunctions


def open_lake_of(db: str) -> LakeFunctions:
    """Return the functions that a database's lake answers: a part of `rowtide.connect(db).cdc` that starts faster."""
    from rowtide.cdc.lake_functions import LakeFunctions

    return LakeFunctions(db)
