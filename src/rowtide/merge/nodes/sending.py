"""What a node sends: the request, and the interfaces that read the answer, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Protocol

from rowtide.core.values import frozen
from rowtide.merge.articles import Article
from rowtide.merge.partitions.candidates import Candidate
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Row, RowChange


@frozen
class ChangesRequest:
    """What a node is to send to another, which has everything up to generation `since`.

    `again` are rows that it requests once more, `filters` those of its partition, both by the article's nickname. With
    `names_parents`, each row comes with the rows that its foreign keys reference. `source` is the sender, which has
    everything of the destination up to generation `received`.
    """

    articles: Sequence[Article]
    since: int
    destination: int
    again: Mapping[int, Sequence[str]]
    filters: Mapping[int, RowFilter]
    names_parents: bool = field(default=False, kw_only=True)
    source: int = field(default=0, kw_only=True)
    received: int = field(default=0, kw_only=True)

    @property
    def parents(self) -> dict[int, Article]:
        """The articles whose rows foreign keys are resolved to, by nickname."""
        return {article.nickname: article for article in self.articles} if self.names_parents else {}


class Sending(Protocol):
    """What a node sends on a request, read in the snapshot of the generation closed for it; each part once.

    A tombstone counts only while the row is absent, a row's metadata only while it is present. Changes that came from
    the destination are omitted.
    """

    @property
    def generation(self) -> int:
        """The generation closed last: everything sent belongs to it or to an earlier one."""

    @property
    def blocks_writers(self) -> bool:
        """Whether the node's programs cannot write until everything is read."""

    def upserts(self, article: Article) -> Iterator[Sequence[RowChange]]:
        """Yield batches of the rows of an unfiltered article that were inserted or updated."""

    def deletes(self, article: Article) -> Iterator[Sequence[RowChange]]:
        """Yield batches of tombstones in the same way."""

    def asked(self, article: Article) -> Sequence[RowChange]:
        """Return the rows or tombstones of an unfiltered article that are requested again; unknown ones are omitted.

        A row without metadata has change number 0, which every node that has the row includes.
        """

    def entering(self, article: Article) -> Iterator[Sequence[tuple[Candidate, RowChange | None]]]:
        """Yield batches of rows of a filtered article that may have entered or left the destination's partition.

        Rows to be sent again are included. Each comes with its row or tombstone, None if nothing is known of it.
        """


class Enumeration(Protocol):
    """The changes that a node has to send, read in the snapshot of the generation closed for it.

    A tombstone counts only while the row is absent, a row's metadata only while it is present.
    """

    @property
    def generation(self) -> int:
        """The generation closed last: everything sent belongs to it or to an earlier one."""

    def naming_parents(self, parents: Mapping[int, Article]) -> Enumeration:
        """Return what reads the same with the rows that foreign keys to these articles, by nickname, reference."""

    def upserts(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        """Yield batches of the rows inserted or updated after a generation.

        Changes that came from the destination are omitted.
        """

    def deletes(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        """Yield batches of tombstones in the same way."""

    def again(self, article: Article, rowguids: Sequence[str]) -> Sequence[RowChange]:
        """Return rows or tombstones by their rowguids; unknown rowguids are omitted.

        A row without metadata has change number 0, which every node that has the row includes.
        """

    def candidates(
        self, row_filter: RowFilter, since: int, destination: int, asked: Sequence[str]
    ) -> Iterator[Sequence[Candidate]]:
        """Yield batches of rows of a filtered article that may have entered or left the destination's partition.

        Rows to be sent again are included.
        """

    def members(self, row_filter: RowFilter) -> Iterator[Sequence[tuple[str, tuple[str, ...]]]]:
        """Yield batches of the rowguids of all rows of an article in a partition, each with `Candidate.parents`."""

    def rows(
        self, article: Article, row_filter: RowFilter | None = None, where: str | None = None
    ) -> Iterator[Sequence[tuple[str, Row]]]:
        """Yield batches of all rows of an article, or of those in a partition, each with its rowguid; by rowguid.

        `where` is a condition of their columns in the database's SQL.
        """

    def included(self, article: Article) -> bytes:
        """Return the lineage of rows without metadata: what was purged, and all of this node's own changes."""


class ChangeSource(Protocol):
    """Reads the changes of a node by generation."""

    def enumerating(self) -> AbstractContextManager[Enumeration]:
        """Close the open generation, if it has changes, and yield its reader (SQL Server: sp_MSmakegeneration).

        Not within a transaction. Writers are not blocked; on SQLite they wait while the generation is closed.
        """

    def previewing(self) -> AbstractContextManager[Enumeration]:
        """Yield a reader as `enumerating` does, and write nothing: the number of the open generation is prospective.

        Not within a transaction.
        """

    def sending(self, request: ChangesRequest) -> AbstractContextManager[Sending]:
        """Close the open generation as `enumerating` does, and yield what is to be sent.

        Not within a transaction. A server does this on the node's own connection, in one round trip and one for each
        few thousand rows.
        """


@frozen
class EnumeratedSending:
    """See `Sending`."""

    enumeration: Enumeration
    request: ChangesRequest
    blocks_writers: bool = True

    @property
    def generation(self) -> int:
        return self.enumeration.generation

    def upserts(self, article: Article) -> Iterator[Sequence[RowChange]]:
        return self.enumeration.upserts(article, self.request.since, self.request.destination)

    def deletes(self, article: Article) -> Iterator[Sequence[RowChange]]:
        return self.enumeration.deletes(article, self.request.since, self.request.destination)

    def asked(self, article: Article) -> Sequence[RowChange]:
        return self.enumeration.again(article, self._asked(article))

    def entering(self, article: Article) -> Iterator[Sequence[tuple[Candidate, RowChange | None]]]:
        row_filter = self.request.filters[article.nickname]
        since, destination = self.request.since, self.request.destination
        for batch in self.enumeration.candidates(row_filter, since, destination, self._asked(article)):
            concerned = [each for each in batch if each.belongs or each.membership is not None or each.is_asked]
            found = self.enumeration.again(article, [each.rowguid for each in concerned])
            changes = {change.rowguid: change for change in found}
            yield [(each, changes.get(each.rowguid)) for each in concerned]

    def _asked(self, article: Article) -> Sequence[str]:
        return self.request.again.get(article.nickname, ())
