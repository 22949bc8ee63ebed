"""The interface of a subscriber to repairs, one implementation per database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.targets.compared_rows import SubscribedRows
from rowtide.replication.targets.fingerprints import Row


@dataclass(frozen=True, slots=True)
class RowChange:
    """What brings a row to what is published: `row` has all its values, of which an update sets `columns`."""

    article: Article
    operation: Operation
    key: Row
    row: Row
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RepairRecord:
    """What a repair did to a row, as JSON; `repair_id` and `ordinal` are its identity."""

    repair_id: str
    ordinal: int
    record: str


class RepairTransaction(Protocol):
    """A transaction at a subscriber that repairs rows at the position that it has; delivery waits for its end.

    It is a batch under the epoch of the subscription's agent, who goes on after it: neither epoch nor position change.
    """

    @property
    def subscribed(self) -> SubscribedRows:
        """The subscriber's rows, which nobody else writes once they are read."""

    def try_change(self, change: RowChange) -> str | None:
        """Make a change; return why the subscriber refuses it, and then it is undone."""

    def try_together(self, changes: Sequence[RowChange]) -> Mapping[RowChange, str]:
        """Make changes that need each other, all or none; return why the subscriber refuses some.

        Deferrable constraints are checked at their end. Rows that are updated first give up the unique values that
        they lose, for others of them.
        """

    def commit(self, records: Sequence[RepairRecord]) -> None:
        """Commit the changes, with what they were."""


class RepairOutbox(Protocol):
    """What repairs did at a subscriber and the publisher does not have yet."""

    def read(self) -> Sequence[RepairRecord]:
        """Return the records, in the order of their identities."""

    def forget(self, records: Sequence[RepairRecord]) -> None:
        """Delete records that the publisher has. Idempotent."""
