"""Rows and their metadata written to a node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from rowtide.merge.articles import Article
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import RowChange, Write


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row was not written: `holder` is the local row with its primary key, `is_locked`: it may be taken later."""

    error: RowsRefused
    holder: str | None
    is_locked: bool = field(default=False, kw_only=True)


class RowWriter(Protocol):
    """A node that received rows are written to."""

    def spare(self, articles: Collection[Article]) -> None:
        """Let no delete take rows of these articles along by foreign keys' actions from now on.

        What was deleted with a row comes by itself. Otherwise a node that publishes acts as its programs' deletes do.
        """

    def receive(self, parts: Sequence[tuple[Article, Sequence[RowChange]]]) -> None:
        """Send rows that are about to be written to a server, before the transaction, if they are long."""

    def write(self, article: Article, writes: Sequence[Write]) -> None:
        """Write rows and their metadata, all or none; our triggers do not log them as users' changes.

        Raises `RowsRefused` if the database rejects them; the transaction continues.
        """

    def write_together(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
    ) -> None:
        """Write all rows or none, with deferred constraints and temporary values of unique columns.

        `bounds` are the partitions that the rows have to be in, by the article's nickname. Raises `RowsRefused`, also
        at the end of the transaction; it cannot continue.
        """

    def write_each(
        self,
        parts: Sequence[tuple[Article, Sequence[Write]]],
        *,
        bounds: Mapping[int, RowFilter] = MappingProxyType({}),
        late: Collection[str] | None = None,
        commits: bool = False,
    ) -> list[Mapping[str, Refusal]]:
        """Write those rows that the database takes, in the order given; return the others of each part, by rowguid.

        `bounds` are as in `write_together`. With `late`, these rows are only retried, with all that were refused: each
        alone, again for as long as others are taken; with `tries_together`, after all were tried as by
        `write_together`, and each removal with the row that takes its key. With `commits`, nothing follows in the
        transaction, and a server commits it in the same round trip.
        """

    @property
    def tries_together(self) -> bool:
        """Whether a retry by `write_each` tries rows together first; else that takes a transaction of its own."""

    def defer_constraints(self) -> None:
        """Defer constraint checks to the end of the transaction, where constraints allow that."""
