"""Identity ranges: which numbers each node gives to new rows (SQL Server: automatic identity range management). Pure.

A node has a primary range and an equal secondary one; both come from the publisher's pool, which only grows.

SQLite numbers a row above all keys that its table has or had; a trigger can change neither the number nor what
`last_insert_rowid()` returns. So a file's ranges follow each other above all its keys, and it gets new ones whenever it
has received rows with keys above them. With ranges of 100 a device that synchronises hourly uses 4,800 numbers a day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowtide.core.values import frozen
from rowtide.databases.types.registry import find_type
from rowtide.merge.articles import Article


@frozen
class IdentityRange:
    """A node's numbers of a table: the primary range, and the secondary one; both ends are included.

    `max_used` is the last number known to be used, None for none.
    """

    begin: int
    end: int
    next_begin: int
    next_end: int
    max_used: int | None = None

    @property
    def size(self) -> int:
        return self.end - self.begin + 1

    def has(self, number: int) -> bool:
        """Whether a number is in either range."""
        return self.begin <= number <= self.end or self.next_begin <= number <= self.next_end


@frozen
class Numbering:
    """What a node says of a table's numbers: the last one that it gave, if any, and the highest key of its rows.

    `follows_highest`: the next number is above all keys, regardless of the last one given.
    """

    last: int | None
    highest: int | None
    follows_highest: bool


def largest_number(article: Article) -> int:
    """Return the largest number that an article's key takes."""
    key = find_type(article.key_columns[0].type_text).value_type
    assert key.bits is not None, f"{key.name} is no integer"
    return (1 << key.bits - 1) - 1


def renew(
    owned: IdentityRange | None, numbering: Numbering, ahead: int | None, article: Article, take: Callable[[int], int]
) -> IdentityRange | None:
    """Return the ranges that a node gets at a synchronisation; None if those that it has suffice.

    `take` takes that number of values from the pool, and returns the first. `ahead` is the highest key that may
    come to the node: one that follows the highest key gets both ranges from above it.
    """
    size = article.identity_range
    if owned is None:
        return _both(take(2 * size), size)
    used = owned.begin - 1 if numbering.last is None else numbering.last
    is_low = _is_used(used, owned.begin, owned.end, article.threshold)
    if numbering.follows_highest:
        overtaken = ahead is not None and ahead > owned.next_end
        return _both(take(2 * size), size) if overtaken or is_low else None
    if not is_low:
        return None
    if used >= owned.next_begin and _is_used(used, owned.next_begin, owned.next_end, article.threshold):
        return replace(_both(take(2 * size), size), max_used=used)
    begin = take(size)
    return IdentityRange(owned.next_begin, owned.next_end, begin, begin + size - 1, used)


def _both(begin: int, size: int) -> IdentityRange:
    return IdentityRange(begin, begin + size - 1, begin + size, begin + 2 * size - 1)


def _is_used(last: int, begin: int, end: int, threshold: int) -> bool:
    """Whether a percentage of a range is used."""
    return (last - begin + 1) * 100 >= (end - begin + 1) * threshold
