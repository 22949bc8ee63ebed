"""What merging asks of a database: one class per database, and one connection per synchronisation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from rowtide.merge.articles import Article, ArticleColumn, JoinFilter
from rowtide.merge.nodes.unique_swap import TemporaryValues
from rowtide.merge.partitions.candidates import Candidate
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.versions.changes import Known, Row, RowChange, Write


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: which columns refer to which of another table, named as a node's catalogue names it."""

    columns: tuple[str, ...]
    referenced_table: str
    referenced_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableDescription:
    """A table as a node's catalogue describes it, for publishing it.

    `name` is schema and table as they are; `unique_keys` are the names of each one's columns, without the primary key;
    `references` point to tables by their `name`.
    """

    name: str
    schema: str
    table: str
    columns: tuple[ArticleColumn, ...]
    unique_keys: tuple[tuple[str, ...], ...]
    references: tuple[Reference, ...]


def say_damage(columns: Sequence[str], triggers: Sequence[str], partitions: Sequence[str] = ()) -> str | None:
    """Return in words that columns and triggers of a table are missing, those of partitions too; None where none is."""
    missing = [f"column {name} is missing" for name in columns] + [f"trigger {name} is missing" for name in triggers]
    return ", ".join(missing + [f"triggers of partition {name} are missing" for name in partitions]) or None


class Enumeration(Protocol):
    """What a node has to send, read in the snapshot of the generation that was closed for it.

    A tombstone counts only while its row is not there, and the metadata of a row only while it is.
    """

    @property
    def generation(self) -> int:
        """The generation that was closed last: all that is sent is in it or in one before."""

    def upserts(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        """Yield batches of the rows that were inserted or changed after a generation, by rowguid.

        Those are left out that came from the destination.
        """

    def deletes(self, article: Article, since: int, destination: int) -> Iterator[Sequence[RowChange]]:
        """Yield batches of tombstones in the same way."""

    def again(self, article: Article, rowguids: Sequence[str]) -> Sequence[RowChange]:
        """Return rows or tombstones by their rowguids; those of which nothing is known are left out.

        A row without metadata has a change of number 0: whoever knows the row knows that.
        """

    def candidates(
        self, row_filter: RowFilter, since: int, destination: int, asked: Sequence[str]
    ) -> Iterator[Sequence[Candidate]]:
        """Yield batches of the rows of a filtered article that may have come into the destination's partition or left.

        Those too that are asked for once more.
        """

    def members(self, row_filter: RowFilter) -> Iterator[Sequence[tuple[str, str | None]]]:
        """Yield batches of the rowguids of all of a partition's rows of an article, each with its parent's."""

    def rows(self, article: Article, row_filter: RowFilter | None = None) -> Iterator[Sequence[tuple[str, Row]]]:
        """Yield batches of all rows of an article, or of a partition's, each with its rowguid; by rowguid."""

    def included(self, article: Article) -> bytes:
        """Return what rows without metadata include: what was purged, and all that this node has changed."""


class Node(Protocol):
    """A database that takes part in a merge, over one connection of its own.

    Outside of `transaction` each statement is a transaction of its own. `connection` is for the tables of
    `definitions`, which are the same everywhere.
    """

    @property
    def connection(self) -> Connection: ...

    @property
    def tables(self) -> NodeTables:
        """What makes, alters and describes tables here."""

    def close(self) -> None:
        """Close the connection; a transaction that was not committed is undone."""

    def failing(self) -> AbstractContextManager[None]:
        """Raise our errors for those of the database, whatever is done with it."""

    def transaction(self, *, is_durable: bool = True) -> AbstractContextManager[None]:
        """Write in one transaction, committed at the end, undone by an error.

        What was read in it stays as it was read: raises `NodeBusy` where others were faster, or hold a lock too long.
        Where it is not durable, a machine that fails may undo it; the next one that is makes it last.
        """

    def rehearsing(self, statements: list[str]) -> AbstractContextManager[None]:
        """Undo at the end all that is done; the statements that alter tables are appended to a list."""

    def enumerating(self) -> AbstractContextManager[Enumeration]:
        """Close the open generation, if anything is in it, and yield what reads it (SQL Server: sp_MSmakegeneration).

        Not within a transaction. Writers are not kept waiting, but for the moment of closing on SQLite.
        """

    def apply_log(self) -> None:
        """Bring what is known of rows up to date with what users have changed, in a transaction of its own.

        Not within a transaction; `read_known` applies what came after that. Raises `NodeBusy`.
        """

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Known]:
        """Return what is known of rows (SQL Server: sp_MSgetmetadata), within a transaction.

        A row that was never here is left out.
        """

    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        """Return those of the rows that are there."""

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        """Return the rowguid of the row that has the primary key of a row that came from elsewhere."""

    def write(self, article: Article, writes: Sequence[Write]) -> None:
        """Write rows and what is known of them, all or none; our own triggers count them not as changes of users.

        Raises `RowsRefused` where the database does not take them as they are; the transaction goes on.
        """

    def write_temporary(self, article: Article, values: Mapping[str, TemporaryValues]) -> None:
        """Give rows temporary values, before `write` gives them theirs in the same transaction.

        What is known of the rows stays as it is. Raises `RowsRefused`.
        """

    def outside(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Sequence[str]:
        """Return those rows that are there, and do not belong to a partition."""

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        """Return the distinct lineages of a table's metadata up to a generation, but for own changes in them."""

    def forget(self, article: Article, generation: int, most: int) -> int:
        """Remove some metadata of rows up to a generation, within a transaction; return how many."""

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        """Write what an additive column's values were, by rowguid, within a transaction; see `bases`."""

    def defer_constraints(self) -> None:
        """Let what can be checked at the end of the transaction be checked then."""


@dataclass(frozen=True, slots=True)
class Original:
    """The database that a node is a copy of, or was before it was moved; `is_here`: on the same server."""

    copy: str
    description: str
    is_here: bool


class NodeTables(Protocol):
    """Tables of a node: its own metadata, and those that are merged."""

    def prepare(self) -> None:
        """Make the metadata tables where they are not there."""

    def is_prepared(self) -> bool:
        """Whether the metadata tables are there."""

    def find_original(self) -> Original | None:
        """Return in which database the metadata were made, where it is another that may still be there."""

    def record_place(self) -> None:
        """Record that the metadata belong to this database; not within a transaction."""

    def remove(self) -> None:
        """Remove the metadata tables; no table is merged here any more."""

    def describe(self, name: str) -> TableDescription:
        """Return a table by the name that a user writes. Raises `ArticleTableNotFound`."""

    def find_damage(self, article: Article) -> str | None:
        """Say which columns or triggers of an article's table are not there any more; None where all are."""

    def take_in_partitions(self, article: Article) -> bool:
        """Track the partitions that an article's table got since, their rows as inserted; tell whether there were any.

        Not within a transaction. Raises `LockNotObtained`.
        """

    def is_there(self, article: Article) -> bool:
        """Whether an article's table is here."""

    def make(self, tables: Sequence[tuple[Article, TableDescription]]) -> None:
        """Make the tables of articles, parents first, with their keys and the foreign keys between them.

        Raises `UnsupportedColumnType`.
        Within a transaction; `load` fills them in it, and foreign keys may be checked, or made, at its end.
        """

    def load(self, article: Article, rows: Iterable[Sequence[tuple[str, Row]]]) -> int:
        """Fill a table that was just made, within a transaction; return the number of rows."""

    def clear(self, article: Article) -> None:
        """Take all rows of a table away, within a transaction."""

    def check_filter(self, article: Article, condition: str) -> None:
        """Raise `FilterRefused` where the database does not judge an article's row filter, given as SQL."""

    def check_join(self, child: Article, join: JoinFilter, parent: Article, condition: str) -> None:
        """Raise `FilterRefused` where the database does not judge a join filter, given as SQL."""

    def has_rowguid(self, article: Article) -> bool:
        """Whether a table has a column `rowguid` that serves: without nulls, and with a unique key of its own."""

    def add_rowguid(self, article: Article) -> None:
        """Give a table the column `rowguid` where it has none; not within a transaction, goes on where interrupted."""

    def drop_rowguid(self, article: Article) -> None:
        """Take the column away that `add_rowguid` added, within a transaction."""

    def track(self, article: Article) -> None:
        """Make the triggers MSmerge_ins_, MSmerge_upd_, MSmerge_del_ of an article, within a transaction."""

    def untrack(self, article: Article) -> None:
        """Remove triggers and the metadata of rows, within a transaction."""
