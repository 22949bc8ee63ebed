"""Where the stamps of a table's rows are stored, and the SQL that triggers and queries need for each place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sqlalchemy import Connection

from rowtide.tracking.options import Storage
from rowtide.tracking.postgres.row_stamps import RowStamps
from rowtide.tracking.postgres.side_stamps import SideStamps
from rowtide.tracking.postgres.subject import Subject


class Stamps(Protocol):
    """The SQL of one way to store stamps."""

    @property
    def source(self) -> str:
        """The `from` clause for the rows with their stamps."""

    @property
    def holder(self) -> tuple[str, str]:
        """The schema and name of the table that has the stamps as columns."""

    def is_there(self, connection: Connection) -> bool:
        """Whether the columns or the table of stamps exist; the index is not checked."""

    def creations(self) -> list[str]:
        """Return the statements that create the columns or the table of stamps, if missing."""

    def removals(self) -> list[str]:
        """Return the statements that remove them."""

    def trigger_creations(self) -> list[str]:
        """Return the statements that create the triggers and their functions."""


_STAMPS: Mapping[Storage, Callable[[Subject], Stamps]] = {Storage.ROW: RowStamps, Storage.SIDE: SideStamps}


def stamps_of(subject: Subject) -> Stamps:
    """Return how a table's stamps are stored."""
    return _STAMPS[subject.storage](subject)
