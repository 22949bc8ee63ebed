"""Give nodes the numbers for their new rows (SQL Server: automatic identity range management).

The publisher's pool of a table's numbers only grows. A node gets its ranges when it subscribes, and further ones at
synchronisations, once it has used those that it has. A crash between both ends leaves the publisher's row newer, which
the next synchronisation takes over. Ranges of a subscriber above the pool mean that the publisher was restored: the
pool follows, but for a device that only sends requests.

SQL Server enforces ranges by a check constraint that rows of other nodes pass (`not for replication`). A check of
PostgreSQL or SQLite would refuse those rows, so a sequence's bounds do it there, and in files ranges above all keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Publication, SubscriberType, Subscription
from rowtide.merge.definitions import identity_ranges, publications
from rowtide.merge.errors.rows import IdentityRangeDoubtful, IdentityRangeExhausted, IdentityRangeMissing
from rowtide.merge.errors.subscribing import IdentityRangeUnfit
from rowtide.merge.identity_range_policy import IdentityRange, Numbering, largest_number, renew
from rowtide.merge.nodes.node import Node, transact_at
from rowtide.merge.session.messages import DeviceNumbering, GivenRanges

_columns = identity_ranges.c
_BOUNDS = ("range_begin", "range_end", "next_range_begin", "next_range_end")


@frozen
class _StoredRange:
    """A row of MSmerge_identity_range."""

    subid: str
    owned: IdentityRange
    is_own: bool


def begin_pool(hub: Node, publication: Publication, article: Article) -> None:
    """Make the pool of an article's numbers, above all that the hub has used, in the caller's transaction.

    The hub gets its own ranges, unless it has those of another publisher, which also gave it the pool. Raises
    `IdentityRangeMissing`, `IdentityRangeExhausted`.
    """
    numbering = hub.keys.read_numbering([article])[article.nickname]
    own = _find_own(hub.connection, article, is_pub_range=False)
    if own is None:
        used = max(numbering.last or 0, numbering.highest or 0)
        first = IdentityRange(used + 1, used, used + 1, used, used)
        _put(hub.connection, publication.pubid, article, first, is_own=True)
        _renew_publisher(hub, publication.pubid, article, numbering, is_new=True)
        return
    given = _find_own(hub.connection, article, is_pub_range=True)
    if given is None:
        raise IdentityRangeMissing(article.qualified_name)
    pool = replace(given.owned, max_used=given.owned.begin - 1)
    _put(hub.connection, publication.pubid, article, pool, is_own=False)


def require_fit(hub: Node, subscriber: Node, publication: Publication, articles: Sequence[Article]) -> None:
    """Raise `IdentityRangeUnfit` if a subscriber could not number rows from the ranges that the hub has for it."""
    for article in articles:
        if article.identity_range and subscriber.keys.numbers_above_all:
            pool = _find(hub.connection, publication.pubid, article)
            if pool is not None and not pool.is_own:
                raise IdentityRangeUnfit(article.qualified_name)


def give_ranges(
    hub: Node,
    subscriber: Node,
    publication: Publication,
    articles: Sequence[Article],
    subscription: Subscription,
) -> None:
    """Give both nodes new ranges where they have used theirs; the subscriber, those that it lost, too.

    Raises `IdentityRangeExhausted`, `NodeBusy`.
    """
    numbered = read_numberings(subscriber, subscription, articles)
    take_ranges(subscriber, subscription, articles, renew_ranges(hub, publication, articles, subscription, numbered))


def read_numberings(
    subscriber: Node, subscription: Subscription, articles: Sequence[Article]
) -> dict[int, DeviceNumbering]:
    """Return how far a subscriber has numbered articles with ranges, by nickname."""
    numbered = [article for article in articles if article.identity_range]
    there = subscriber.keys.read_numbering(numbered) if numbered else {}
    return {each.nickname: _numbering(subscriber, subscription, each, there[each.nickname]) for each in numbered}


def _numbering(subscriber: Node, subscription: Subscription, article: Article, numbering: Numbering) -> DeviceNumbering:
    has = _find(subscriber.connection, subscription.subid, article)
    owned = None if has is None else has.owned
    if not _publishes(subscription, article):
        return DeviceNumbering(numbering, owned)
    given = _find(subscriber.connection, subscription.subid, article, is_pub_range=True)
    pool = _find_pool(subscriber.connection, article)
    used = None if pool is None else pool.owned.max_used
    return DeviceNumbering(numbering, owned, None if given is None else given.owned, used)


def _publishes(subscription: Subscription, article: Article) -> bool:
    return subscription.subscriber_type is SubscriberType.SERVER and bool(article.publisher_identity_range)


def renew_ranges(
    hub: Node,
    publication: Publication,
    articles: Sequence[Article],
    subscription: Subscription,
    there: Mapping[int, DeviceNumbering],
) -> dict[int, GivenRanges]:
    """Give the hub new ranges where it has used its own; return those of the subscriber, by the article's nickname.

    Raises `IdentityRangeExhausted`, `NodeBusy`.
    """
    numbered = [article for article in articles if article.identity_range and article.nickname in there]
    at_hub = hub.keys.read_numbering(numbered) if numbered else {}
    given: dict[int, GivenRanges] = {}
    for article in numbered:
        numbering = at_hub[article.nickname]
        if _is_due(hub, publication.pubid, article, numbering):
            transact_at(hub, partial(_renew_publisher, hub, publication.pubid, article, numbering))
        given[article.nickname] = _give(hub, publication, article, subscription, there[article.nickname], numbering)
    return given


def require_given(
    hub: Node,
    publication: Publication,
    articles: Sequence[Article],
    subscriber: str,
    there: Mapping[int, DeviceNumbering],
) -> None:
    """Raise `IdentityRangeDoubtful` if a device says that it has numbers which the publisher never gave.

    A device that only sends requests is not believed: the pool would follow, and be used up at once.
    """
    for article in articles:
        claimed = there.get(article.nickname)
        if not article.identity_range or claimed is None or claimed.owned is None:
            continue
        pool = _find(hub.connection, publication.pubid, article)
        if pool is not None and pool.is_own and (pool.owned.max_used or 0) < claimed.owned.next_end:
            raise IdentityRangeDoubtful(subscriber, article.qualified_name, claimed.owned.next_end)


def take_ranges(
    subscriber: Node, subscription: Subscription, articles: Sequence[Article], given: Mapping[int, GivenRanges]
) -> None:
    """Store at a subscriber the ranges that the hub has given."""
    for article in articles:
        ranges = given.get(article.nickname, GivenRanges())
        if ranges.owned is not None:
            with subscriber.transaction():
                _put(subscriber.connection, subscription.subid, article, ranges.owned, is_own=True)
                subscriber.keys.set_numbering(article, ranges.owned)
        if ranges.given is not None:
            with subscriber.transaction():
                _put(subscriber.connection, subscription.subid, article, ranges.given, is_own=True, is_pub_range=True)


def are_overtaken(subscriber: Node, articles: Sequence[Article], subscription: Subscription) -> bool:
    """Whether a subscriber has received keys above its ranges, so that its programs would get no numbers."""
    numbered = [article for article in articles if article.identity_range]
    for article in numbered:
        numbering = subscriber.keys.read_numbering([article])[article.nickname]
        has = _find(subscriber.connection, subscription.subid, article)
        if numbering.follows_highest and has is not None and (numbering.highest or 0) > has.owned.next_end:
            return True
    return False


def adjust_publisher(hub: Node, publication: Publication, article: Article) -> bool:
    """Give the publisher new ranges if it has used its own (SQL Server: sp_adjustpublisheridentityrange).

    Return whether it got any. Raises `IdentityRangeExhausted`, `NodeBusy`.
    """
    numbering = hub.keys.read_numbering([article])[article.nickname]
    if not _is_due(hub, publication.pubid, article, numbering):
        return False
    transact_at(hub, partial(_renew_publisher, hub, publication.pubid, article, numbering))
    return True


def restore_pool(hub: Node, publication: Publication, article: Article, subscriptions: int) -> int:
    """Move the pool behind all numbers that may have been given since a backup that the hub was restored from.

    (SQL Server: sp_restoremergeidentityrange.) That is behind all keys of the hub, and behind one renewal for each
    subscription. Return the last number given. Raises `NodeBusy`.
    """
    numbering = hub.keys.read_numbering([article])[article.nickname]

    def restore() -> int:
        pool = _find(hub.connection, publication.pubid, article)
        assert pool is not None
        used = max(pool.owned.max_used or 0, numbering.highest or 0, numbering.last or 0)
        used += 2 * article.identity_range * subscriptions
        _set(hub.connection, publication.pubid, article, max_used=used)
        return used

    return transact_at(hub, restore)


def forget_ranges(connection: Connection, subid: str) -> None:
    """Remove the ranges of a subscription, or of a publication's publisher, in the caller's transaction."""
    connection.execute(delete(identity_ranges).where(_columns.subid == subid))


def _give(
    hub: Node,
    publication: Publication,
    article: Article,
    subscription: Subscription,
    there: DeviceNumbering,
    at_hub: Numbering,
) -> GivenRanges:
    has = there.owned

    def give() -> IdentityRange:
        known = _find(hub.connection, subscription.subid, article)
        if has is not None:
            _raise_pool(hub.connection, publication.pubid, article, has)
        ahead = max(at_hub.highest or 0, there.numbering.highest or 0)
        at_publisher = None if known is None else known.owned
        current = at_publisher if has is None or at_publisher is None or at_publisher.next_end > has.next_end else has
        take = partial(_take, hub, publication.pubid, article)
        got = renew(current, there.numbering, ahead, article, take)
        if got is not None:
            _put(hub.connection, subscription.subid, article, got, is_own=False)
            _stay_above(hub, publication.pubid, article, at_hub)
        given = got if got is not None else current
        assert given is not None
        return given

    given = transact_at(hub, give) if _may_need(has, there.numbering, at_hub, article) else None
    owned = given if given != has else None
    if not _publishes(subscription, article):
        return GivenRanges(owned)
    return GivenRanges(owned, _give_publisher_range(hub, publication, article, subscription, there, at_hub))


def _stay_above(hub: Node, pubid: str, article: Article, numbering: Numbering) -> None:
    """Give a publisher whose numbers follow its highest key new ranges, above those that it has just given away."""
    pool = _find(hub.connection, pubid, article)
    if numbering.follows_highest and pool is not None:
        _renew_publisher(hub, pubid, article, replace(numbering, highest=pool.owned.max_used))


def _may_need(has: IdentityRange | None, numbering: Numbering, at_hub: Numbering, article: Article) -> bool:
    if has is None:
        return True
    ahead = max(at_hub.highest or 0, numbering.highest or 0)
    return renew(has, numbering, ahead, article, lambda _count: 1) is not None


def _give_publisher_range(
    hub: Node,
    publication: Publication,
    article: Article,
    subscription: Subscription,
    there: DeviceNumbering,
    at_hub: Numbering,
) -> IdentityRange | None:
    """Give a subscriber that publishes the numbers for its own subscribers (SQL Server: @pub_identity_range)."""
    has, size = there.given, article.publisher_identity_range
    if has is not None and (there.used is None or there.used < has.end):
        return None

    def give() -> IdentityRange:
        count = size if has is not None else 2 * size
        begin = _take(hub, publication.pubid, article, count)
        given = (
            IdentityRange(begin, begin + size - 1, begin + size, begin + 2 * size - 1)
            if has is None
            else IdentityRange(has.next_begin, has.next_end, begin, begin + size - 1)
        )
        _put(hub.connection, subscription.subid, article, given, is_own=False, is_pub_range=True)
        _stay_above(hub, publication.pubid, article, at_hub)
        return given

    return transact_at(hub, give)


def _renew_publisher(hub: Node, pubid: str, article: Article, numbering: Numbering, *, is_new: bool = False) -> None:
    """Give the publisher ranges from its own pool, in the caller's transaction."""
    own = _find_own(hub.connection, article, is_pub_range=False)
    assert own is not None
    known = None if is_new else own.owned
    got = renew(known, numbering, numbering.highest, article, partial(_take, hub, pubid, article))
    if got is not None:
        bounds = dict(zip(_BOUNDS, (got.begin, got.end, got.next_begin, got.next_end), strict=True))
        _set(hub.connection, own.subid, article, **bounds)
        hub.keys.set_numbering(article, got)


def _is_due(hub: Node, pubid: str, article: Article, numbering: Numbering) -> bool:
    """Whether the publisher is to get new ranges from its own pool.

    Where its ranges are another publisher's, that is only if its programs would get no numbers until it is there next.
    """
    own = _find_own(hub.connection, article, is_pub_range=False)
    if own is None or _find(hub.connection, pubid, article) is None:
        return False
    if own.subid != pubid:
        return numbering.follows_highest and (numbering.highest or 0) > own.owned.next_end
    return _needs(own.owned, numbering, article)


def _needs(owned: IdentityRange, numbering: Numbering, article: Article) -> bool:
    return renew(owned, numbering, numbering.highest, article, lambda _count: 1) is not None


def _take(hub: Node, pubid: str, article: Article, count: int) -> int:
    """Take numbers from a pool, in the caller's transaction, and return the first. Raises `IdentityRangeExhausted`."""
    _set(hub.connection, pubid, article, max_used=_columns.max_used + count)
    pool = _find(hub.connection, pubid, article)
    assert pool is not None
    assert pool.owned.max_used is not None
    last = pool.owned.max_used
    given = None if pool.is_own else _find_own(hub.connection, article, is_pub_range=True)
    if given is not None and last - count < given.owned.next_begin - 1 and last > given.owned.end:
        last = given.owned.next_begin - 1 + count
        _set(hub.connection, pubid, article, max_used=last)
    if last > (largest_number(article) if given is None else given.owned.next_end):
        raise IdentityRangeExhausted(article.qualified_name)
    return last - count + 1


def _raise_pool(connection: Connection, pubid: str, article: Article, known: IdentityRange) -> None:
    """Keep the pool above a node's ranges, which a publisher restored from a backup does not know."""
    pool = _find(connection, pubid, article)
    if pool is not None and pool.is_own and (pool.owned.max_used or 0) < known.next_end:
        _set(connection, pubid, article, max_used=known.next_end)


def _find(connection: Connection, subid: str, article: Article, *, is_pub_range: bool = False) -> _StoredRange | None:
    return _read(connection, _columns.subid == subid, article, is_pub_range=is_pub_range)


def _find_own(connection: Connection, article: Article, *, is_pub_range: bool) -> _StoredRange | None:
    return _read(connection, _columns.is_own, article, is_pub_range=is_pub_range)


def _find_pool(connection: Connection, article: Article) -> _StoredRange | None:
    """Return the pool of a node that has its own ranges from another publisher."""
    return _read(connection, _columns.subid.in_(select(publications.c.pubid)), article, is_pub_range=False)


def _read(connection: Connection, condition: Any, article: Article, *, is_pub_range: bool) -> _StoredRange | None:
    of_article = (_columns.artid == article.nickname) & (_columns.is_pub_range == int(is_pub_range))
    row = connection.execute(select(identity_ranges).where(condition & of_article)).mappings().first()
    if row is None:
        return None
    begin, end, next_begin, next_end = (row[name] for name in _BOUNDS)
    return _StoredRange(
        row["subid"], IdentityRange(begin, end, next_begin, next_end, row["max_used"]), bool(row["is_own"])
    )


def _put(
    connection: Connection,
    subid: str,
    article: Article,
    owned: IdentityRange,
    *,
    is_own: bool,
    is_pub_range: bool = False,
) -> None:
    """Write a row, in place of what is there."""
    mine = (
        (_columns.subid == subid) & (_columns.artid == article.nickname) & (_columns.is_pub_range == int(is_pub_range))
    )
    connection.execute(delete(identity_ranges).where(mine))
    connection.execute(
        insert(identity_ranges).values(
            subid=subid,
            artid=article.nickname,
            is_pub_range=int(is_pub_range),
            is_own=is_own,
            max_used=owned.max_used,
            **dict(zip(_BOUNDS, (owned.begin, owned.end, owned.next_begin, owned.next_end), strict=True)),
        )
    )


def _set(connection: Connection, pubid: str, article: Article, **values: Any) -> None:
    mine = (_columns.subid == pubid) & (_columns.artid == article.nickname) & (_columns.is_pub_range == 0)
    connection.execute(update(identity_ranges).where(mine).values(values))
