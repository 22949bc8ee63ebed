"""The rows that differ between a subscriber and its publisher, by key, at the subscriber's position.

Buckets of keys are compared first; of those that differ, both sides list the hashes of their rows in one order; of keys
that differ, both rows are read. Where buckets are ranges, nothing else of the tables is read again. Memory is bounded
by what changed meanwhile in buckets that differ.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from sqlalchemy import Engine

from rowtide.core.lsn import Position
from rowtide.core.redaction import redact
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.requests import CompareOptions
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.inspection.comparing import SubscriberComparison, Wanted, compare_all
from rowtide.replication.inspection.rows_at_position import NotComparable, PositionMove, add_to_buckets, differing
from rowtide.replication.targets.compared_rows import HashedRow, Row, bucket_of, hash_row, key_of

_KEYS_READ = 200
"""The number of keys whose rows are in memory at once."""
MISSING, EXTRA, DIFFERENT, NOT_COMPARED = "missing", "extra", "different", "not compared"

Changes = Mapping[Row, Sequence[tuple[Row, int]]]
"""The rows that appear and disappear on a move, by key."""


@frozen
class RowDifference:
    """A row that the subscriber lacks (`missing`), has beside the published ones (`extra`), or has otherwise.

    `key`, `published` and `subscribed` are JSON objects of texts by column: of a row that is `different`, only of the
    `columns` that differ. `position` is that of both sides. An article that is `not compared` has a `reason` instead.
    """

    publication: str
    subscriber: str
    article: str
    difference: str
    key: str | None = None
    columns: tuple[str, ...] = ()
    published: str | None = None
    subscribed: str | None = None
    position: Position | None = None
    reason: str | None = None


@frozen
class DifferingRow:
    """Both rows of a key; None where there is none.

    `is_certain` unless the publisher has received changes of the row from the subscriber between its own ones: then
    what it was at the position is not known.
    """

    key: Row
    published: Row | None
    present: Row | None
    is_certain: bool = True


def find_differences(
    engine: Engine, url: str, wanted: Sequence[Wanted], options: CompareOptions
) -> Iterator[RowDifference]:
    """Yield the rows that differ, article by article, while they are found. Raises as `compare_all`."""
    return compare_all(engine, url, wanted, options, _compare, _not_compared)


def _compare(comparison: SubscriberComparison, article: Article) -> Iterator[RowDifference]:
    move = comparison.plan(article)
    for row in find_differing(comparison, move):
        yield _describe(comparison.subscription, move, row)


def find_differing(comparison: SubscriberComparison, move: PositionMove) -> Iterator[DifferingRow]:
    """Yield the rows of an article that differ. Raises `NotComparable`, before the first."""
    article = move.article
    if not article.key_columns:
        raise NotComparable("without a primary key, only its number of rows and its checksum are", may_pass=False)
    division = comparison.published.rows.divide(article)
    published, present = comparison.read_buckets(article, division, with_checksum=True)
    moved = comparison.list_changes(move, with_values=True)
    chosen = differing(add_to_buckets(article, published, moved, division, with_checksum=True), present)
    if not chosen:
        return
    in_buckets = lambda key: bucket_of(article, division, key) in chosen  # noqa: E731
    changes = changes_by_key(article, comparison.list_changes(move, with_values=True), in_buckets)
    theirs = comparison.published.rows.list_rows(article, division, chosen)
    ours = comparison.subscribed.rows.list_rows(article, division, chosen)
    found = differing_keys(article, theirs, ours, changes)
    while keys := tuple(islice(found, _KEYS_READ)):
        yield from read_differing(comparison, article, keys, changes)


def read_differing(
    comparison: SubscriberComparison, article: Article, keys: Sequence[Row], changes: Changes
) -> Iterator[DifferingRow]:
    """Yield both rows of keys."""
    present = {key_of(article, row): row for row in comparison.subscribed.rows.find_rows(article, keys)}
    counts = _move(comparison.published.rows.find_rows(article, keys), keys, changes)
    published = _present_rows(article, counts)
    uncertain = {key_of(article, row) for row, count in counts.items() if count not in (0, 1)}
    for key in keys:
        yield DifferingRow(key, published.get(key), present.get(key), is_certain=key not in uncertain)


def moved_rows(article: Article, rows: Iterable[Row], keys: Iterable[Row], changes: Changes) -> Mapping[Row, Row]:
    """Return the published rows of keys at the end of a move, by key. Pure."""
    return _present_rows(article, _move(rows, keys, changes))


def _move(rows: Iterable[Row], keys: Iterable[Row], changes: Changes) -> Counter[Row]:
    counts = Counter(rows)
    for key in keys:
        for row, sign in changes.get(key, ()):
            counts[row] += sign
    return counts


def _present_rows(article: Article, counts: Counter[Row]) -> Mapping[Row, Row]:
    return {key_of(article, row): row for row, count in counts.items() if count > 0}


def changes_by_key(article: Article, changes: Iterable[tuple[Row, int]], is_wanted: Callable[[Row], bool]) -> Changes:
    """Return the changes of some keys."""
    found: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, sign in changes:
        key = key_of(article, row)
        if is_wanted(key):
            found[key].append((row, sign))
    return found


def differing_keys(
    article: Article, published: Iterable[HashedRow], present: Iterable[HashedRow], changes: Changes
) -> Iterator[Row]:
    """Yield the keys whose rows differ; both sides are ordered by the hash of the key. Pure."""
    moved = sorted(
        (
            (HashedRow(hash_row(article.key_columns, key), hash_row(article.columns, row), key), sign)
            for key, of_key in changes.items()
            for row, sign in of_key
        ),
        key=itemgetter(0),
    )
    sides = (((row, 1) for row in published), ((row, -1) for row in present), moved)
    by_hash = lambda found: found[0].key_hash  # noqa: E731
    for _, group in groupby(merge(*sides, key=by_hash), key=by_hash):
        counts: Counter[HashedRow] = Counter()
        for row, sign in group:
            counts[row] += sign
        yield from dict.fromkeys(row.key for row, count in counts.items() if count)


def differing_columns(article: Article, row: DifferingRow) -> tuple[str, ...]:
    """Return the columns in which two rows differ; none if there are no two."""
    if row.published is None or row.present is None:
        return ()
    pairs = zip(article.columns, row.published, row.present, strict=True)
    return tuple(
        column.name for column, one, other in pairs if hash_row([column], (one,)) != hash_row([column], (other,))
    )


def as_json(article: Article, row: Row | None, names: Sequence[str] = ()) -> str | None:
    """Return a row's texts as a JSON object, of some columns or of all."""
    if row is None:
        return None
    values = {
        column.name: None if text is None else text.decode(errors="replace")
        for column, text in zip(article.columns, row, strict=True)
        if not names or column.name in names
    }
    return json.dumps(values, ensure_ascii=False)


def key_as_json(article: Article, key: Row) -> str:
    """Return a key's texts as a JSON object."""
    texts = (None if text is None else text.decode(errors="replace") for text in key)
    names = map(attrgetter("name"), article.key_columns)
    return json.dumps(dict(zip(names, texts, strict=True)), ensure_ascii=False)


def _describe(subscription: Subscription, move: PositionMove, row: DifferingRow) -> RowDifference:
    article = move.article
    columns = differing_columns(article, row)
    kind = MISSING if row.present is None else EXTRA if row.published is None else DIFFERENT
    return RowDifference(
        publication=subscription.publication,
        subscriber=redact(subscription.subscriber),
        article=article.name,
        difference=kind,
        key=key_as_json(article, row.key),
        columns=columns,
        published=as_json(article, row.published, columns),
        subscribed=as_json(article, row.present, columns),
        position=move.position,
    )


def _not_compared(subscription: Subscription, article: Article, reason: str) -> RowDifference:
    where = redact(subscription.subscriber)
    return RowDifference(subscription.publication, where, article.name, NOT_COMPARED, reason=reason)
