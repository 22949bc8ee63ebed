"""Changes that a node sends, read part by part from an enumeration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rowtide.merge.articles import Article
from rowtide.merge.nodes.sending import Enumeration, Request
from rowtide.merge.partitions.candidates import Candidate
from rowtide.merge.versions.changes import RowChange


@dataclass(frozen=True, slots=True)
class EnumeratedSending:
    """See `Sending`."""

    enumeration: Enumeration
    request: Request
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
