"""Rows of merged tables at a node, read and written with their metadata: the interface, one implementation per kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import field
from types import MappingProxyType
from typing import Protocol, TypeAlias

from rowtide.core.values import frozen
from rowtide.merge.articles import Article, Partition
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.identity_range_policy import IdentityRange, Numbering
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.logical_records import Link
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write


class Rows(Protocol):
    """Reads rows by rowguid, by values, and by the links of logical records."""

    def read(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        """Return those of the rows that exist."""

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        """Return an article's rows that have one of some keys, none of them with NULL, in these columns."""

    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        """Return those of an article's rows that are in a partition."""

    def find_partitions(
        self, row_filter: RowFilter, rowguids: Sequence[str], partitions: Sequence[Partition]
    ) -> Set[int]:
        """Return the places of the partitions that have any of an article's rows; the filter is one of each."""

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        """Return the rowguid of the local row with the same primary key as a received row."""

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        """Return the function's rows, for rows by rowguid and the subscriber's versions of them; None where it is NULL.

        The function is that of the article's resolver. Within a transaction. Raises `HandlerFailed`.
        """

    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguid of each row's parent as the tables have it now; rows without one are omitted."""

    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguids of the rows that have any of some parents, each with its parent's."""

    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        """Return for each row, as it travels, the rowguid of the local row that its foreign key references, if any."""


def read_all(rows: Rows, asked: Iterable[tuple[Article, str]]) -> dict[int, Mapping[str, Row]]:
    """Return those of some articles' rows, given by rowguid, that exist, by the articles' nicknames."""
    listed: dict[int, tuple[Article, list[str]]] = {}
    for article, rowguid in asked:
        listed.setdefault(article.nickname, (article, []))[1].append(rowguid)
    return {nickname: rows.read(article, rowguids) for nickname, (article, rowguids) in listed.items()}


Place = tuple[int, str]
"""A row of an article: its nickname, and its rowguid."""
OtherPlace = tuple[str, str]
"""A row of another table: its name, and what identifies the row in it."""
AnyPlace = tuple[int | str, str]


def by_nickname(places: Iterable[AnyPlace]) -> dict[int, list[str]]:
    """Return the rowguids of rows, by their articles' nicknames; rows of other tables are omitted."""
    found: dict[int, list[str]] = {}
    for key, rowguid in places:
        if isinstance(key, int):
            found.setdefault(key, []).append(rowguid)
    return found


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


class ForeignKeyActions(Protocol):
    """Finds what foreign keys' actions would change, before rows are deleted or get other keys."""

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


@frozen
class Holder:
    """A subscriber that has some of the rows of the articles with some nicknames, and all of others."""

    subscriber: int
    filtered: Collection[int]

    def of(self, article: Article) -> int | None:
        """Return the subscriber if it has some rows only of an article."""
        return self.subscriber if article.nickname in self.filtered else None


class RowVersions(Protocol):
    """Reads and writes what a node knows of rows, by which it decides about received ones."""

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, KnownVersion]:
        """Return the metadata of rows (SQL Server: sp_MSgetmetadata), within a transaction.

        A row that this node never had is omitted.
        """

    def read_known_and_rows(
        self,
        asked: Sequence[tuple[Article, Sequence[str]]],
        rows: Sequence[tuple[Article, Sequence[str]]],
        holder: Holder | None = None,
    ) -> tuple[list[Mapping[str, KnownVersion]], list[Mapping[str, Row]]]:
        """Return what `read_known` does, for each article, and of other articles' rows what `Rows.read` does.

        In one round trip. With a holder, the metadata say whether it has the rows.
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

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        """Return the distinct lineages of a table's metadata up to a generation, without this node's own changes."""

    def forget(self, article: Article, generation: int, most: int) -> int:
        """Remove metadata of rows up to a generation, within a transaction; return how many."""

    def redefine(self, before: Article, after: Article) -> None:
        """Apply the log by one definition of an article, and move the metadata of rows to another's columns.

        Within a transaction. Where column tracking begins, all columns of changed rows count as changed.
        """


Reading: TypeAlias = Callable[[Sequence[tuple[Article, Sequence[str]]]], Sequence[Mapping[str, KnownVersion]]]
"""Reads what a node knows of rows of articles."""


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
class Refusal:
    """Why a row was not written: `holder` is the local row with its primary key, `is_locked`: it may be taken later."""

    error: RowsRefused
    holder: str | None
    is_locked: bool = field(default=False, kw_only=True)


class RowWriter(Protocol):
    """Writes received rows and their metadata to a node."""

    def spare(self, articles: Collection[Article]) -> None:
        """Let no delete reach rows of these articles by foreign keys' actions from now on.

        Rows that were deleted with another one at their publisher arrive as deletes of their own. Otherwise a node that
        publishes acts as its programs' deletes do.
        """

    def find_ignoring(self, article: Article) -> Sequence[str]:
        """Return the triggers and rules of programs that may leave a row of an article unwritten, without an error."""

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
        alone, again while others are written; with `tries_together`, after all were tried as by
        `write_together`, and each removal with the row that takes its key. With `commits`, nothing follows in the
        transaction, and a server commits it in the same round trip.
        """

    @property
    def tries_together(self) -> bool:
        """Whether a retry by `write_each` tries rows together first; else that takes a transaction of its own."""

    def defer_constraints(self) -> None:
        """Defer constraint checks to the end of the transaction, where constraints allow that."""

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        """Write values into columns of rows that exist, within `altering`; nothing is logged.

        `article` has these columns alone.
        """


class NumberedKeys(Protocol):
    """The numbers of new rows of tables whose key is one integer column."""

    def next_keys(self, article: Article, count: int) -> Sequence[str]:
        """Return values for a primary key of one integer column that no row has, within a transaction.

        They are the next ones that the table's own sequence gives, where it has one.
        """

    @property
    def numbers_above_all(self) -> bool:
        """Whether a new row's number is above all keys of its table, whatever number was given last."""

    def read_numbering(self, articles: Sequence[Article]) -> Mapping[int, Numbering]:
        """Return how far articles' keys of one integer column are numbered here, by nickname, in one round trip."""

    def set_numbering(self, article: Article, owned: IdentityRange) -> None:
        """Let programs get numbers of ranges, within a transaction; one that is in the primary one resumes there."""

    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        """Give rows new values of a key of one column, with the rows that reference them, within a transaction.

        They are logged as changes of this node. Raises `RowsRefused`; the transaction continues.
        """
