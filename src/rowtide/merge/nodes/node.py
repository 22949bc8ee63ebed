"""The interface of a database to merge: one class per database, one connection per synchronisation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from sqlalchemy import Connection, Select

from rowtide.merge.articles import Article, Subscription
from rowtide.merge.errors.rows import RowsRefused
from rowtide.merge.nodes.node_tables import NodeTables, RebuiltTables
from rowtide.merge.nodes.sending import Enumeration, Request, Sending
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.links import Link
from rowtide.merge.versions.changes import Known, Row, Write
from rowtide.merge.versions.identity_ranges import IdentityRange, Numbering


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a row was not written: `holder` is the local row with its primary key, `is_locked`: it may be taken later."""

    error: RowsRefused
    holder: str | None
    is_locked: bool = field(default=False, kw_only=True)


class Node(Protocol):
    """A database that takes part in a merge, over its own connection.

    Outside of `transaction` each statement is its own transaction. `connection` is for the tables of `definitions`,
    which are the same on every database.
    """

    @property
    def connection(self) -> Connection: ...

    @property
    def tables(self) -> NodeTables:
        """Creates, alters and describes tables on this node."""

    @property
    def tries_together(self) -> bool:
        """Whether a retry by `write_each` tries rows together first; else that takes a transaction of its own."""

    @property
    def rebuilt(self) -> RebuiltTables:
        """Works on tables that a program made or rebuilt."""

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

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""

    def failing(self) -> AbstractContextManager[None]:
        """Raise our errors for the database's, whatever the statement."""

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        """Within, take steps of other work while a server is waited for; a step returns whether there is another one.

        A step does not use this node, and does not raise.
        """

    def transaction(self, *, is_durable: bool = True) -> AbstractContextManager[None]:
        """Write in one transaction, committed at the end, rolled back on an error.

        Isolation is snapshot: raises `NodeBusy` if another session changed the same rows first, or holds a lock too
        long. If it is not durable, a machine failure may undo it until the next durable transaction commits.
        """

    def rehearsing(self, statements: list[str]) -> AbstractContextManager[None]:
        """Roll back at the end; the statements that would alter tables are appended to a list."""

    def trying(self) -> AbstractContextManager[None]:
        """Open a transaction, with the log applied, that is rolled back at the end; `transaction` is a part of it."""

    def enumerating(self) -> AbstractContextManager[Enumeration]:
        """Close the open generation, if it has changes, and yield its reader (SQL Server: sp_MSmakegeneration).

        Not within a transaction. Writers are not blocked; on SQLite they wait while the generation is closed.
        """

    def previewing(self) -> AbstractContextManager[Enumeration]:
        """Yield a reader as `enumerating` does, and write nothing: the number of the open generation is prospective.

        Not within a transaction.
        """

    def sending(self, request: Request) -> AbstractContextManager[Sending]:
        """Close the open generation as `enumerating` does, and yield what is to be sent.

        Not within a transaction. A server does this on the node's own connection, in one round trip and one for each
        few thousand rows.
        """

    def apply_log(self) -> None:
        """Apply the log of users' changes to the metadata of rows, in its own transaction.

        Not within a transaction; `read_known` applies what is logged later. Raises `NodeBusy`.
        """

    def read_known(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Known]:
        """Return the metadata of rows (SQL Server: sp_MSgetmetadata), within a transaction.

        A row that this node never had is left out.
        """

    def read_known_of(self, asked: Sequence[tuple[Article, Sequence[str]]]) -> list[Mapping[str, Known]]:
        """Return what `read_known` does for rows of several articles, in one round trip."""

    def read_known_and_rows(
        self, asked: Sequence[tuple[Article, Sequence[str]]], rows: Sequence[tuple[Article, Sequence[str]]]
    ) -> tuple[list[Mapping[str, Known]], list[Mapping[str, Row]]]:
        """Return what `read_known_of` does, and of other articles' rows what `read_rows` does, in one round trip."""

    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        """Return those of the rows that exist."""

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        """Return an article's rows that have one of some keys, none of them with NULL, in these columns."""

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
        """Let programs get numbers of ranges, within a transaction; one that is in the primary one goes on there."""

    def renumber(self, article: Article, keys: Mapping[str, str]) -> None:
        """Give rows new values of a key of one column, with the rows that reference them, within a transaction.

        They are logged as changes of this node. Raises `RowsRefused`; the transaction continues.
        """

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        """Return the function's rows, for rows by rowguid and the subscriber's versions of them; None where it is NULL.

        The function is that of the article's resolver. Within a transaction. Raises `HandlerFailed`.
        """

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        """Return the rowguid of the local row with the same primary key as a received row."""

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
        alone, again for as long as others are taken; with `tries_together`, after all were tried as by
        `write_together`, and each removal with the row that takes its key. With `commits`, nothing follows in the
        transaction, and a server commits it in the same round trip.
        """

    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguid of each row's parent as the tables have it now; rows without one are left out."""

    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguids of the rows that have any of some parents, each with its parent's."""

    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        """Return for each row, as it travels, the rowguid of the local row that its foreign key references, if any."""

    def read_buried(self, article: Article, since: int, source: int) -> Sequence[str]:
        """Return the rowguids of tombstones after a generation that came not from a node.

        Not within a transaction; the log is to be applied before.
        """

    def lineages(self, nickname: int, generation: int) -> Iterable[bytes]:
        """Return the distinct lineages of a table's metadata up to a generation, without this node's own changes."""

    def forget(self, article: Article, generation: int, most: int) -> int:
        """Remove metadata of rows up to a generation, within a transaction; return how many."""

    def redefine(self, before: Article, after: Article) -> None:
        """Apply the log by one definition of an article, and move the metadata of rows to another's columns.

        Within a transaction. Where column tracking begins, all columns of changed rows count as changed.
        """

    def forget_tables(self) -> None:
        """Forget what this session knows of articles' tables; not within a transaction."""

    def altering(self) -> AbstractContextManager[None]:
        """Write in one transaction in which tables may be altered; see `transaction`."""

    def log_own(self, article: Article, columns: Sequence[str], without: Collection[str]) -> None:
        """Log as this node's changes the rows that have values in any of some columns, within a transaction.

        Rows in `without` are left out.
        """

    def log_update(self, article: Article, rowguid: str) -> bool:
        """Log a row as updated by this node, within a transaction; return whether the row exists."""

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        """Write values into columns of rows that exist, within `altering`; nothing is logged.

        `article` has these columns alone.
        """

    def keep_bases(self, article: Article, bases: Mapping[str, str]) -> None:
        """Store the values that an additive column was sent with, by rowguid, within a transaction; see `bases`."""

    def defer_constraints(self) -> None:
        """Defer constraint checks to the end of the transaction, where constraints allow that."""
