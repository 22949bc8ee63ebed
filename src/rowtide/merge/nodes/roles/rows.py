"""Rows of merged tables at a node, and the transactions in which they are read and written.

The metadata of rows at a node. The rows that foreign keys' actions change with deleted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection, Select

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Subscription
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.partitions.belonging import Link
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import KnownVersion, Row

# Transactions of a node, and what is done within and around them. Retry transactions that failed because another
# session was faster or holds a lock.


class ToRepeat(Exception):
    """Nothing was written: a transaction is to be repeated, now that the node has received what is long in it."""


class TransactionalNode(Protocol):
    """A node whose tables of `definitions` are read and written over one connection, in transactions.

    Outside of `transaction` each statement is its own transaction. `connection` is for the tables of `definitions`,
    which are the same on every database.
    """

    @property
    def connection(self) -> Connection: ...

    def transaction(self, *, is_durable: bool = True, is_repeatable: bool = False) -> AbstractContextManager[None]:
        """Write in one transaction, committed at the end, rolled back on an error.

        One that is repeatable may raise `ToRepeat`: a server receives what is long without locks, and then again.

        Isolation is snapshot: raises `NodeBusy` if another session changed the same rows first, or holds a lock too
        long. If it is not durable, a machine failure may undo it until the next durable transaction commits.
        """

    def apply_log(self) -> None:
        """Apply the log of users' changes to the metadata of rows, in its own transaction.

        Not within a transaction; `read_known` applies what is logged later. Raises `NodeBusy`.
        """

    def failing(self) -> AbstractContextManager[None]:
        """Raise our errors for the database's, whatever the statement."""

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        """Within, take steps of other work while a server is waited for; a step returns whether there is another one.

        A step does not use this node, and does not raise.
        """

    def trying(self) -> AbstractContextManager[None]:
        """Open a transaction, with the log applied, that is rolled back at the end; `transaction` is a part of it."""

    def rehearsing(self, statements: list[str]) -> AbstractContextManager[None]:
        """Roll back at the end; the statements that would alter tables are appended to a list."""

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""


class Sessions(TransactionalNode, Protocol):
    """A node that takes part in sessions: what its tables of `definitions` say is read in few round trips."""

    def read_together(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        """Return the rows of queries of the tables of `definitions`, in one round trip; none without such tables.

        `values` are those of their parameters, by name. A query that is made once is compiled once; none has a list of
        values that is expanded. Columns have the types of Python that the driver gives.
        """

    def read_ahead(
        self, *statements: Select[Any], values: Mapping[str, object] = MappingProxyType({})
    ) -> Sequence[Sequence[Mapping[str, Any]]]:
        """Return the rows of queries as `read_together` does.

        A server is asked, in the same round trip, what the exchange that follows needs to know of all tables, and of
        its generations from the one that the other end has, the value `since_generation`.
        """

    def require_session(self, subscription: Subscription) -> None:
        """Raise `SessionReplaced` if another synchronisation of a subscription has begun, within a transaction.

        A server's answer comes with the next one that is waited for.
        """


Result = TypeVar("Result")

MOST_TRIES = 5
"""Number of attempts (SQL Server: -NumDeadlockRetries)."""


def retry_busy(transaction: Callable[[], Result]) -> Result:
    """Run a transaction, retried after `NodeBusy`; raise that after the last attempt."""
    for _ in range(MOST_TRIES - 1):
        try:
            return transaction()
        except NodeBusy:
            continue
    return transaction()


def transact_at(
    node: TransactionalNode,
    work: Callable[[], Result],
    *,
    is_durable: bool = False,
    first: Callable[[], None] = lambda: None,
) -> Result:
    """Apply the log and run work in a transaction of a node, retried after `NodeBusy`; raise that after the last one.

    Unless it is durable, the commit is not flushed to disk: progress is stored durably only at the end, and lost
    changes are sent again. `first` runs in each transaction before the work.
    """
    busy = repeated = 0
    while True:
        try:
            node.apply_log()
            with node.transaction(is_durable=is_durable, is_repeatable=repeated < MOST_TRIES - 1):
                first()
                return work()
        except ToRepeat:
            repeated += 1
        except NodeBusy:
            busy, repeated = busy + 1, 0
            if busy == MOST_TRIES:
                raise


class RowReader(Protocol):
    """A node whose rows are read by rowguid, and by values."""

    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        """Return those of the rows that exist."""

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        """Return an article's rows that have one of some keys, none of them with NULL, in these columns."""

    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        """Return those of an article's rows that are in a partition."""

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        """Return the rowguid of the local row with the same primary key as a received row."""

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        """Return the function's rows, for rows by rowguid and the subscriber's versions of them; None where it is NULL.

        The function is that of the article's resolver. Within a transaction. Raises `HandlerFailed`.
        """


def read_all(node: RowReader, asked: Iterable[tuple[Article, str]]) -> dict[int, Mapping[str, Row]]:
    """Return those of some articles' rows, given by rowguid, that exist, by the articles' nicknames."""
    listed: dict[int, tuple[Article, list[str]]] = {}
    for article, rowguid in asked:
        listed.setdefault(article.nickname, (article, []))[1].append(rowguid)
    return {nickname: node.read_rows(article, rowguids) for nickname, (article, rowguids) in listed.items()}


class LinkedRows(Protocol):
    """A node whose rows have parents and children, by the links of logical records."""

    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguid of each row's parent as the tables have it now; rows without one are omitted."""

    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguids of the rows that have any of some parents, each with its parent's."""

    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        """Return for each row, as it travels, the rowguid of the local row that its foreign key references, if any."""


@frozen
class Holder:
    """A subscriber that has some of the rows of the articles with some nicknames, and all of others."""

    subscriber: int
    filtered: Collection[int]

    def of(self, article: Article) -> int | None:
        """Return the subscriber if it has some rows only of an article."""
        return self.subscriber if article.nickname in self.filtered else None


class RowVersions(TransactionalNode, Protocol):
    """A node that keeps versions of rows, by which it decides about received ones."""

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, KnownVersion]:
        """Return the metadata of rows (SQL Server: sp_MSgetmetadata), within a transaction.

        A row that this node never had is omitted.
        """

    def read_known_of(self, asked: Sequence[tuple[Article, Sequence[str]]]) -> list[Mapping[str, KnownVersion]]:
        """Return what `read_known` does for rows of several articles, in one round trip."""

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        rows: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        """Return what `read_known_of` does, and of other articles' rows what `read_rows` does, in one round trip.

        With a holder, the metadata say whether it has the rows.
        """

    def read_buried(self, article: Article, since: int, source: int) -> Sequence[str]:
        """Return the rowguids of tombstones after a generation that came not from a node.

        Not within a transaction; the log is to be applied before.
        """

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        """Store the values that an additive column was sent with, by rowguid, within a transaction."""

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        """Log as this node's changes the rows that have values in any of some columns, within a transaction.

        Rows in `without` are omitted.
        """

    def log_update(self, article: Article, rowguid: str) -> bool:
        """Log a row as updated by this node, within a transaction; return whether the row exists."""


class MetadataUpkeep(TransactionalNode, Protocol):
    """A node whose metadata are removed when no synchronisation needs them any more."""

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        """Return the distinct lineages of a table's metadata up to a generation, without this node's own changes."""

    def forget(self, article: Article, generation: int, most: int) -> int:
        """Remove metadata of rows up to a generation, within a transaction; return how many."""


Place = tuple[int, str]
"""A row of an article: its nickname, and its rowguid."""
OtherPlace = tuple[str, str]
"""A row of another table: its name, and what identifies the row in it."""
AnyPlace = tuple[int | str, str]
Reading: TypeAlias = Callable[[Sequence[tuple[Article, Sequence[str]]]], Sequence[Mapping[str, KnownVersion]]]
"""Reads what a node knows of rows of articles: see `NodeMetadata.read_known_of`."""


def by_nickname(places: Iterable[AnyPlace]) -> dict[int, list[str]]:
    """Return the rowguids of rows, by their articles' nicknames; rows of other tables are omitted."""
    found: dict[int, list[str]] = {}
    for key, rowguid in places:
        if isinstance(key, int):
            found.setdefault(key, []).append(rowguid)
    return found


def read_known(
    reading: Reading, articles: Mapping[int, Article], places: Iterable[AnyPlace]
) -> dict[Place, KnownVersion]:
    """Return what a node knows of rows; those of other tables, and those that it never had, are omitted."""
    asked = by_nickname(places)
    found = reading([(articles[nickname], rowguids) for nickname, rowguids in asked.items()])
    return {
        (nickname, rowguid): here for nickname, each in zip(asked, found, strict=True) for rowguid, here in each.items()
    }


@frozen
class Reach:
    """Rows that reference others by foreign keys with an action on delete, as the tables have them.

    `below` are the rows that reference a row, `others` the values of rows of tables that are not articles, by column.
    """

    below: dict[AnyPlace, set[AnyPlace]] = field(default_factory=dict)
    others: dict[OtherPlace, Mapping[str, str | None]] = field(default_factory=dict)

    def add(self, other: Reach) -> None:
        """Add what is known of further rows."""
        for place, children in other.below.items():
            self.below.setdefault(place, set()).update(children)
        self.others.update(other.others)

    def under(self, places: Iterable[AnyPlace]) -> Set[AnyPlace]:
        """Return the rows below some rows, at any depth."""
        found: set[AnyPlace] = set()
        left = list(places)
        while left:
            new = self.below.get(left.pop(), set()) - found
            found |= new
            left += new
        return found


class ReachReader(Protocol):
    """A node whose foreign keys' actions are looked at before rows are deleted."""

    def find_acting(self, articles: Sequence[Article]) -> Set[int]:
        """Return the nicknames of those articles that foreign keys with an action on delete reference."""

    def find_clearing(self, article: Article) -> Set[str]:
        """Return the columns whose change sets what references them to NULL or a default, by a foreign key's action."""

    def find_reach(
        self, article: Article, rowguids: Sequence[str], merged: Mapping[int, Article], *, is_update: bool = False
    ) -> Reach:
        """Return what would be changed with an article's rows if these were deleted, at any depth.

        With `is_update`, what would be set to NULL or a default if their keys were changed. `merged` are the articles
        by nickname; of other tables the rows that this node may read are found.
        """
