"""The order in which received changes are written: which of them have to wait for others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rowtide.merge.articles import Article
from rowtide.merge.session.receiver import ArticleChange
from rowtide.merge.versions.changes import Row, RowChange, find_children, layers_by_keys

BATCH_ROWS = 2000
Batch = tuple[int, list[RowChange]]
"""Changes of the article with a nickname: all write rows, or all delete them."""


@dataclass(slots=True)
class ChangeOrder:
    """The order of one direction of a synchronisation; `deferred` changes are written after all others."""

    articles: Mapping[int, Article]
    is_upload: bool
    deferred: dict[tuple[int, str], ArticleChange] = field(default_factory=dict)
    _coming: list[tuple[Article, Row]] = field(default_factory=list)
    """Rows that come to a subscriber after rows which may reference them: of articles in a circle."""

    def note_coming(self, batches: Iterable[Batch]) -> None:
        """Find the rows of the batches that come after rows which may reference them."""
        if self.is_upload:
            return
        articles = self.articles
        later = {
            reference.parent
            for article in articles.values()
            for reference in article.references
            if reference.parent in articles and articles[reference.parent].processing_order > article.processing_order
        }
        self._coming = [
            (articles[nickname], each.row)
            for nickname, changes in (batches if later else ())
            for each in (changes if nickname in later else ())
            if each.row is not None
        ]

    def join(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Join the batches of rows that may reference each other: those that they reference come before them."""
        for (nickname, is_deleting), several in groupby(batches, lambda each: (each[0], each[1][0].row is None)):
            if is_deleting or not self._has_layers(self.articles[nickname]):
                yield from several
            else:
                yield nickname, [change for _, changes in several for change in changes]

    def defer(self, article: Article, change: RowChange) -> None:
        """Write a change after all others, and after those deferred so far."""
        key = (article.nickname, change.rowguid)
        self.deferred.pop(key, None)
        self.deferred[key] = (article, change)

    def defer_children(self, article: Article, changes: Sequence[RowChange]) -> Sequence[RowChange]:
        """Defer rows whose parents are deferred or come later, and return the others.

        A subscriber's row may still have the parent's key. That row is about to be deleted, and a foreign key's action
        would reach what references the key. (The hub knows which row the parent is.)
        """
        if self.is_upload or not article.references:
            return changes
        left = changes
        coming = [each for each in self._coming if each[0].processing_order > article.processing_order]
        while coming or self.deferred:
            waiting = [(parent, each.row) for parent, each in self.deferred.values() if each.row is not None]
            held = find_children(article, left, [*coming, *waiting])
            if not held:
                break
            for change in left:
                if change.rowguid in held:
                    self.defer(article, change)
            left = [change for change in left if change.rowguid not in held]
        return left

    def in_layers(self, article: Article, changes: Sequence[RowChange]) -> list[Sequence[RowChange]]:
        """Return rows in layers of at most a batch, each after those that it references, as in `defer_children`.

        Rows that reference each other in a circle, and those that follow, wait: one of them without the other may
        reference a row that is about to get another key.
        """
        if not self._has_layers(article):
            return [changes]
        layers = [piece for layer in layers_by_keys(article, changes) for piece in batches_of(layer)]
        placed = {change.rowguid for layer in layers for change in layer}
        for change in changes:
            if change.rowguid not in placed:
                self.defer(article, change)
        return layers

    def _has_layers(self, article: Article) -> bool:
        """Whether rows of an article that come to a subscriber may reference each other."""
        refers_to_itself = any(reference.parent == article.nickname for reference in article.references)
        return refers_to_itself and not self.is_upload


def batches_of(changes: Sequence[RowChange]) -> Iterator[Sequence[RowChange]]:
    """Yield changes in batches."""
    for start in range(0, len(changes), BATCH_ROWS):
        yield changes[start : start + BATCH_ROWS]
