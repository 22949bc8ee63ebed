"""Where the stamps of a table's rows are kept, in the row or beside it: what triggers and queries need of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sqlalchemy import Connection

from rowtide.tracking.options import Storage
from rowtide.tracking.postgres.row_stamps import RowStamps
from rowtide.tracking.postgres.side_stamps import SideStamps
from rowtide.tracking.postgres.subject import Subject


class Stamps(Protocol):
    """The statements of one way to keep stamps."""

    @property
    def source(self) -> str:
        """What stands in a `from` clause for the rows with their stamps."""

    @property
    def holder(self) -> tuple[str, str]:
        """The schema and name of the table that the stamps are columns of."""

    def is_there(self, connection: Connection) -> bool:
        """Whether what keeps the stamps is there, but for its index."""

    def creations(self) -> list[str]:
        """Return the statements that make what keeps the stamps, where it is not there."""

    def removals(self) -> list[str]:
        """Return the statements that take it away again."""

    def trigger_creations(self) -> list[str]:
        """Return the statements that make the triggers and what they call."""


_STAMPS: Mapping[Storage, Callable[[Subject], Stamps]] = {Storage.ROW: RowStamps, Storage.SIDE: SideStamps}


def stamps_of(subject: Subject) -> Stamps:
    """Return how the stamps of a table are kept."""
    return _STAMPS[subject.storage](subject)
