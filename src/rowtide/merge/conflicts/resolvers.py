"""Contests of two versions of a row, and the resolvers that decide them (SQL Server: sp_enumcustomresolvers). Pure.

A resolver, named by `--resolver`, decides about two versions of a row that both exist. Of a row that one side has
deleted, and where it has nothing to say, `by_priority` decides, as it does of two rows with one key for a resolver that
makes a third version.

The result is a change of the hub's own that includes both versions: no other node meets the conflict again, and the
loser receives the result like any other change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from enum import Enum
from functools import partial

from rowtide.core.values import frozen
from rowtide.databases.sqlite.values import OF_ANOTHER_CLASS
from rowtide.databases.types.registry import find_type, kind_of
from rowtide.databases.types.times import moment
from rowtide.databases.types.value_type import NUMBERS, TEXTS, TypeKind
from rowtide.merge.articles import (
    ADDITIVE,
    DOWNLOAD_ONLY,
    PROCEDURE,
    PUBLISHER_PRIORITY,
    UPLOAD_ONLY,
    Article,
    ArticleColumn,
)
from rowtide.merge.errors.publishing import ResolverRefused, ResolverUnknown
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, TombstoneType, Write
from rowtide.merge.versions.comparison import (
    NodeChange,
    Presence,
    changed_concurrently,
    concurrent_columns,
    encode_columns,
)
from rowtide.merge.versions.stored_metadata import add_up


class Winner(Enum):
    """The side whose version remains; the publisher is the hub."""

    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"


@frozen
class Contest:
    """A conflict at the hub: the subscriber's version and the hub's; a row of None is deleted.

    `priority` is the subscription's: 0 for clients. `is_of_keys`: they are two rows with one key.
    """

    article: Article
    sent: RowChange
    known: KnownVersion
    publisher_row: Row | None
    priority: float
    is_of_keys: bool = False

    @property
    def subscriber_row(self) -> Row | None:
        return self.sent.row


@frozen
class Custom:
    """A row that neither side had wins; the loser is recorded as with any other resolution."""

    winner: Winner
    row: Row


Verdict = Winner | Custom
Resolver = Callable[[Contest], Verdict]


def winner_of(verdict: Verdict) -> Winner:
    """Return the side whose version is not recorded as the loser."""
    return verdict.winner if isinstance(verdict, Custom) else verdict


def resolve(contest: Contest, verdict: Verdict) -> Write:
    """Return the outcome as a change of the hub's; all columns that either side changed concurrently count as changed.

    The whole row is the winner's, even with column tracking.
    """
    is_sent = winner_of(verdict) is Winner.SUBSCRIBER
    row = contest.subscriber_row if is_sent else contest.publisher_row
    renewed: frozenset[int] = frozenset()
    if isinstance(verdict, Custom):
        row = verdict.row
        renewed = indexes_unlike(row, contest.subscriber_row, contest.publisher_row)
    tombstone = contest.sent.tombstone if is_sent else None
    priority = weight_of(contest.sent, contest.priority) or None if is_sent else contest.known.priority
    return decide(contest.sent, contest.known, row, priority=priority, tombstone=tombstone, renewed=renewed)


def indexes_unlike(row: Row, *others: Row | None) -> frozenset[int]:
    """Return the positions at which a row has a value of its own: all, if one of the others is gone."""
    is_gone = None in others
    return frozenset(
        index for index, value in enumerate(row) if is_gone or value not in (other[index] for other in others if other)
    )


def weight_of(sent: RowChange, priority: float) -> float:
    """Return the weight of a subscriber's version: its own, or the subscription's if the subscriber made it."""
    return priority if sent.priority is None else sent.priority


def decide(
    sent: RowChange,
    known: KnownVersion,
    row: Row | None,
    *,
    priority: float | None = None,
    tombstone: TombstoneType | None = None,
    renewed: frozenset[int] = frozenset(),
) -> Write:
    """Return a row as the hub's own change that includes both versions; columns `renewed` have a value of neither."""
    version, base = sent.version, known.version
    columns = None
    if base.columns is not None or version.columns is not None:
        columns = encode_columns({**(version.columns or {}), **(base.columns or {})})
    return Write(
        rowguid=sent.rowguid,
        row=row,
        is_live=base.presence is Presence.LIVE,
        lineage=base.lineage.joined(version.lineage).encode(),
        last=None,
        columns=columns,
        origin=None,
        own_columns=concurrent_columns(version, base) | renewed if columns is not None else frozenset(),
        tombstone=tombstone or TombstoneType.USER,
        priority=priority,
    )


def combine(sent: RowChange, known: KnownVersion, publisher_row: Row, columns: frozenset[int]) -> Write:
    """Return the hub's row with the sender's values in some columns."""
    assert sent.row is not None
    pairs = enumerate(zip(sent.row, publisher_row, strict=True))
    row = tuple(theirs if place in columns else ours for place, (theirs, ours) in pairs)
    return decide(sent, known, row, priority=known.priority)


def withdrawal(rowguid: str, lineage: bytes, *, is_live: bool) -> Write:
    """Return the hub's own deletion of a row that cannot be kept."""
    return Write(
        rowguid=rowguid,
        row=None,
        is_live=is_live,
        lineage=lineage,
        last=None,
        columns=None,
        origin=None,
        tombstone=TombstoneType.SYSTEM,
    )


Order = tuple[int, Decimal, str]
"""The sort key of a value; values with the same key are equal."""

_NUMBER, _NOT_A_NUMBER, _TIME, _TEXT = range(4)
_DIGITS = 400
"""Of a sum: more than a double precision number has in decimal form."""


def is_number(column: ArticleColumn) -> bool:
    """Whether a column's values are numbers."""
    return kind_of(column.type_text) in NUMBERS


def order(column: ArticleColumn, text: str) -> Order:
    """Return the sort key of a value, in its column's type where that has an order of its own, else as a text.

    Times with a zone are compared by the moment; those without one count as UTC, as in PostgreSQL with that time zone.
    """
    read = find_type(column.type_text).value_type.order
    return _plain_order(text) if read is None else _order_by(read, text)


def average(column: ArticleColumn, one: str, other: str) -> str | None:
    """Return the mean of two numbers, rounded to what the column's type holds; None if there is none."""
    numbers = _number(one), _number(other)
    if numbers[0] is None or numbers[1] is None or not all(each is not None and each.is_finite() for each in numbers):
        return None
    with localcontext(prec=_DIGITS):
        mean = (numbers[0] + numbers[1]) / 2
        found, modifiers = find_type(column.type_text)
        if found.kind is TypeKind.FLOAT:
            return repr(float(mean))
        if found.kind is TypeKind.WHOLE_NUMBER or modifiers:
            _, scale, *_ = (*modifiers, 0, 0)
            mean = mean.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return format(mean, "f")


def merge_texts(column: ArticleColumn, publisher: str, subscriber: str, delimiter: str) -> str | None:
    """Return the common beginning, what the publisher has beyond it, the delimiter, and what the subscriber has.

    Without the delimiter if one of them has nothing more; None if the type is too short for the result, or one is no
    text but a file's value of another class.
    """
    if OF_ANOTHER_CLASS in (publisher[:1], subscriber[:1]):
        return None
    shared = 0
    for mine, theirs in zip(publisher, subscriber, strict=False):
        if mine != theirs:
            break
        shared += 1
    rests = [rest for rest in (publisher[shared:], subscriber[shared:]) if rest]
    merged = publisher[:shared] + delimiter.join(rests)
    length = find_type(column.type_text).modifiers
    return merged if not length or len(merged) <= length[0] else None


def is_text(column: ArticleColumn) -> bool:
    """Whether a column's values are texts."""
    return kind_of(column.type_text) in TEXTS


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _plain_order(text: str) -> Order:
    """Return the order of a value of a type without one: of a number, a time, or a text."""
    number = _number(text)
    if number is not None:
        # NaN is above all numbers, as in PostgreSQL.
        return (_NOT_A_NUMBER, Decimal(0), "") if number.is_nan() else (_NUMBER, number, "")
    return _order_by(moment, text)


def _order_by(read: Callable[[str], Decimal | None], text: str) -> Order:
    value = read(text)
    if value is not None:
        return (_TIME, value, "")
    number = _number(text)
    return (_TEXT, Decimal(0), text) if number is None or number.is_nan() else (_NUMBER, number, "")


PYTHON = "python"
"""What is written before the name of a handler's class."""
_DELIMITER = " "


def by_priority(contest: Contest) -> Winner:
    """The higher priority wins; between equal priorities, the change of the node with the lower nickname."""
    weight, known = weight_of(contest.sent, contest.priority), priority_of(contest.known)
    if weight != known:
        return Winner.SUBSCRIBER if weight > known else Winner.PUBLISHER
    sent, last = NodeChange.decode(contest.sent.last), contest.known.version.last
    assert last is not None
    return Winner.SUBSCRIBER if sent.nickname < last.nickname else Winner.PUBLISHER


def priority_of(known: KnownVersion) -> float:
    """Return the weight of the hub's version of a row."""
    return PUBLISHER_PRIORITY if known.priority is None else known.priority


def find_resolver(article: Article) -> Resolver:
    """Return the resolver that an article names. Raises `ResolverUnknown`."""
    name, _, argument = article.resolver.partition(":")
    if name in _PLAIN and not argument:
        return _PLAIN[name]
    if name in _OF_COLUMN:
        column, _, option = argument.partition(":")
        index = article.index_of(column)
        if index is not None and (not option or _OF_COLUMN[name].takes_option):
            return _OF_COLUMN[name].make(article.columns[index], index, option)
    if article.procedure is not None:
        # The function is asked about all rows of a batch together.
        return by_priority
    known = [
        *_PLAIN,
        *(f"{name}:COLUMN{'[:DELIMITER]' * each.takes_option}" for name, each in _OF_COLUMN.items()),
        f"{PROCEDURE}:schema.function",
        f"{PYTHON}:module.Class",
    ]
    raise ResolverUnknown(article.resolver, article.name, ", ".join(known))


def is_for_records(article: Article) -> bool:
    """Whether an article's resolver decides between sides, whatever the rows are, as for logical records."""
    return article.resolver in _PLAIN and not (article.is_upload_only or article.is_download_only)


def require_resolver(article: Article) -> None:
    """Raise `ResolverUnknown` or `ResolverRefused` unless an article can have the resolver that it names."""
    find_resolver(article)
    name, _, argument = article.resolver.partition(":")
    if name not in _OF_COLUMN:
        return
    resolver, column = _OF_COLUMN[name], argument.partition(":")[0]
    found = article.columns[article.index_of(column) or 0]
    if not resolver.takes(found):
        raise ResolverRefused(article.resolver, article.name, f"column {column} has type {found.type_text}")
    if resolver.needs_tracking and not article.column_tracking:
        raise ResolverRefused(article.resolver, article.name, "it needs --column-tracking")


@frozen
class _OfColumn:
    """A resolver that looks at a column: what makes it from the column, its index, and the text after it.

    `needs_tracking`: without column tracking it could not distinguish a value that was changed from one that was not.
    """

    make: Callable[[ArticleColumn, int, str], Resolver]
    takes: Callable[[ArticleColumn], bool] = lambda _column: True
    needs_tracking: bool = False
    takes_option: bool = False


def _compares(column: ArticleColumn, index: int, _option: str, *, higher: bool) -> Resolver:
    """Return the resolver by which the row with the higher, or the lower, value wins, and any value against NULL."""

    def decide(contest: Contest) -> Winner:
        rows = contest.subscriber_row, contest.publisher_row
        if rows[0] is None or rows[1] is None:
            return by_priority(contest)
        sent, known = rows[0][index], rows[1][index]
        if sent is None or known is None:
            if sent == known:
                return by_priority(contest)
            return Winner.PUBLISHER if sent is None else Winner.SUBSCRIBER
        theirs, ours = order(column, sent), order(column, known)
        if theirs == ours:
            return by_priority(contest)
        return Winner.SUBSCRIBER if (theirs > ours) is higher else Winner.PUBLISHER

    return decide


def _combines(combine: Callable[[str, str], str | None], index: int) -> Resolver:
    """Return the resolver by which `by_priority` decides, but for one column's value, made of both rows' values.

    `combine` takes the publisher's value first. A value that one side alone changed is that side's; of a value and
    NULL, it is the value.
    """

    def choose(contest: Contest, sent: str | None, known: str | None) -> str | None:
        ahead, behind = changed_concurrently(contest.sent.version, contest.known.version)
        if index in ahead ^ behind:
            return sent if index in ahead else known
        if sent is None or known is None:
            return known if sent is None else sent
        return combine(known, sent)

    return partial(_with_value, index, choose)


def _adds_up(_column: ArticleColumn, index: int, _option: str) -> Resolver:
    def add(contest: Contest, sent: str | None, known: str | None) -> str | None:
        bases, sender = contest.sent.bases, NodeChange.decode(contest.sent.last).nickname
        return None if bases is None else add_up(bases, contest.known.version.lineage, sender, sent, known)

    return partial(_with_value, index, add)


def _with_value(
    index: int, choose: Callable[[Contest, str | None, str | None], str | None], contest: Contest
) -> Verdict:
    """Decide by priority, but for the value that is chosen of the subscriber's and the publisher's, unless it is None.

    So that nothing is added up of two rows with one key, that is decided by priority alone.
    """
    winner = by_priority(contest)
    sent, known = contest.subscriber_row, contest.publisher_row
    if sent is None or known is None or contest.is_of_keys:
        return winner
    row = list(sent if winner is Winner.SUBSCRIBER else known)
    value = choose(contest, sent[index], known[index])
    if value in (None, row[index]):
        return winner
    row[index] = value
    return Custom(winner, tuple(row))


def _averages(column: ArticleColumn, index: int, _option: str) -> Resolver:
    return _combines(partial(average, column), index)


def _merges_texts(column: ArticleColumn, index: int, option: str) -> Resolver:
    delimiter = option or _DELIMITER
    return _combines(lambda publisher, subscriber: merge_texts(column, publisher, subscriber, delimiter), index)


def _publisher_wins(_contest: Contest) -> Winner:
    return Winner.PUBLISHER


def _subscriber_wins(_contest: Contest) -> Winner:
    return Winner.SUBSCRIBER


def _uploads_win(contest: Contest) -> Winner:
    """A subscriber's changes win. Of two subscribers' rows with one key the first stays: no other node learns of it."""
    return Winner.PUBLISHER if contest.is_of_keys else Winner.SUBSCRIBER


_PLAIN: dict[str, Resolver] = {
    "priority": by_priority,
    "publisher-wins": _publisher_wins,
    "subscriber-wins": _subscriber_wins,
    UPLOAD_ONLY: _uploads_win,
    DOWNLOAD_ONLY: _publisher_wins,
}
_HIGHER, _LOWER = partial(_compares, higher=True), partial(_compares, higher=False)
_OF_COLUMN = {
    "later-wins": _OfColumn(_HIGHER),
    "earlier-wins": _OfColumn(_LOWER),
    "maximum": _OfColumn(_HIGHER, is_number),
    "minimum": _OfColumn(_LOWER, is_number),
    "priority-column": _OfColumn(_HIGHER, is_number),
    ADDITIVE: _OfColumn(_adds_up, is_number),
    "averaging": _OfColumn(_averages, is_number, needs_tracking=True),
    "merge-text": _OfColumn(_merges_texts, is_text, needs_tracking=True, takes_option=True),
}


@frozen
class Answered:
    """The function's rows, by rowguid; rows that it was not asked about, or left open, go by priority."""

    rows: Mapping[str, Row | None]

    def resolve(self, contest: Contest) -> Verdict:
        """Decide a conflict; the version that the row is not is the loser, by priority if it is neither."""
        row = None if contest.is_of_keys else self.rows.get(contest.sent.rowguid)
        if row is None:
            return by_priority(contest)
        if row == contest.subscriber_row:
            return Winner.SUBSCRIBER
        return Winner.PUBLISHER if row == contest.publisher_row else Custom(by_priority(contest), row)
