"""Which stream a call of a batch goes to, as soon as it is read, where its row alone decides. Pure.

All calls about a row go to the same stream, in log order. Where a table has other unique indexes, or foreign keys that
are enforced, a batch has to be known as a whole; see `division`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import itemgetter

from rowtide.core.operations import Operation
from rowtide.replication.articles.articles import Article
from rowtide.replication.distribution.calls.batches import Call
from rowtide.replication.distribution.calls.encoding import Arguments, places_of_keys


class Routes:
    """Finds calls' streams by the hashes of their keys."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._finders: dict[tuple[str, Operation], Callable[[Arguments], int | None]] = {}

    def find(self, call: Call) -> int | None:
        """Return the number of a call's stream; None for an update of a key whose two rows have different ones."""
        known = (call.article.article_id, call.operation)
        finder = self._finders.get(known)
        if finder is None:
            finder = self._finders[known] = self._make_finder(call.article, call.operation)
        return finder(call.arguments)

    def divide(self, calls: Iterable[Call]) -> Sequence[Sequence[Call]] | None:
        """Return each stream's calls, in log order; None if the stream of one is not found."""
        shares: list[list[Call]] = [[] for _ in range(self._streams)]
        for call in calls:
            number = self.find(call)
            if number is None:
                return None
            shares[number].append(call)
        return shares

    def _make_finder(self, article: Article, operation: Operation) -> Callable[[Arguments], int | None]:
        streams = self._streams
        if not article.key_columns:
            # Rows without key are only inserted.
            numbers = count()
            return lambda _arguments: next(numbers) % streams
        places = places_of_keys(article, operation)
        if not places.old or not places.new:
            row = itemgetter(*(places.old or places.new))
            return lambda arguments: hash(row(arguments)) % streams
        old, new = itemgetter(*places.old), itemgetter(*places.new)
        is_single = len(places.old) == 1

        def find(arguments: Arguments) -> int | None:
            before, after = old(arguments), new(arguments)
            found = hash(before) % streams
            if after == before or after is None:
                return found
            if not is_single:
                # None stands for a value that did not change.
                after = tuple(was if now is None else now for was, now in zip(before, after, strict=True))
            return found if hash(after) % streams == found else None

        return find
