"""A database that takes part in a merge: its connection and transactions, and a part for each subject.

Each kind of database has a folder, whose `node.py` composes its parts. Transactions that fail because another session
changed the same rows or holds a lock are retried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Select

from rowtide.merge.articles import DeviceLimits, Subscription
from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.nodes.node_tables import NodeTables, RebuiltTables
from rowtide.merge.nodes.rows import ForeignKeyActions, NumberedKeys, Rows, RowVersions, RowWriter
from rowtide.merge.nodes.sending import ChangeSource


class ToRepeat(Exception):
    """Nothing was written: the transaction is to be repeated, now that the node has received its long rows."""


class Node(Protocol):
    """A database that takes part in a merge, over its own connection: its transactions, and its parts.

    Outside of `transaction` each statement is its own transaction. `connection` is for the tables of `definitions`,
    which are the same on every database.
    """

    @property
    def connection(self) -> Connection: ...

    @property
    def limits(self) -> DeviceLimits | None:
        """What is accepted from the node at most; None for a node that is trusted."""

    @property
    def tables(self) -> NodeTables:
        """The metadata tables and the merged tables: described, made, altered and tracked."""

    @property
    def rebuilt(self) -> RebuiltTables:
        """Works on tables that a program made or rebuilt."""

    @property
    def rows(self) -> Rows:
        """The rows of merged tables."""

    @property
    def actions(self) -> ForeignKeyActions:
        """What foreign keys' actions would change."""

    @property
    def versions(self) -> RowVersions:
        """The metadata of rows."""

    @property
    def writer(self) -> RowWriter:
        """Writes received rows."""

    @property
    def keys(self) -> NumberedKeys:
        """The numbers of new rows."""

    @property
    def changes(self) -> ChangeSource:
        """The changes that are sent."""

    def transaction(self, *, is_durable: bool = True, is_repeatable: bool = False) -> AbstractContextManager[None]:
        """Write in one transaction, committed at the end, rolled back on an error.

        A repeatable transaction may raise `ToRepeat`: a server receives long rows without locks first, and then runs it
        again.

        Isolation is snapshot: raises `NodeBusy` if another session changed the same rows first, or holds a lock too
        long. If it is not durable, a machine failure may undo it until the next durable transaction commits.
        """

    def apply_log(self) -> None:
        """Apply the log of users' changes to the metadata of rows, in its own transaction.

        Not within a transaction; `RowVersions.read_known` applies what is logged later. Raises `NodeBusy`.
        """

    def failing(self) -> AbstractContextManager[None]:
        """Raise our errors for the database's, whatever the statement."""

    def working(self, step: Callable[[], bool]) -> AbstractContextManager[None]:
        """Take steps of other work within the block, while a server is waited for; each returns whether there is more.

        A step does not use this node, and does not raise.
        """

    def trying(self) -> AbstractContextManager[None]:
        """Open a transaction, with the log applied, that is rolled back at the end; `transaction` is a part of it."""

    def rehearsing(self, statements: list[str]) -> AbstractContextManager[None]:
        """Roll back at the end; the statements that would alter tables are appended to a list."""

    def close(self) -> None:
        """Close the connection; an uncommitted transaction is rolled back."""

    def altering(self) -> AbstractContextManager[None]:
        """Write in one transaction in which tables may be altered; see `transaction`."""

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

        In the same round trip a server is asked what the following exchange needs to know of all tables, and of its
        generations from `since_generation` on, the one that the other end has.
        """

    def require_session(self, subscription: Subscription) -> None:
        """Raise `SessionReplaced` if another synchronisation of a subscription has begun, within a transaction.

        A server answers together with the next statement that is waited for.
        """

    def forget_tables(self) -> None:
        """Forget what this session knows of articles' tables; not within a transaction."""


Result = TypeVar("Result")

MOST_TRIES = 5
"""Number of attempts (SQL Server: -NumDeadlockRetries)."""


def retry_busy(transaction: Callable[[], Result]) -> Result:
    """Run a transaction, retried after `NodeBusy`; raise that after the last attempt."""
    for _ in range(MOST_TRIES - 1):
        try:
            return transaction()
        except NodeBusy:
            # Other sessions wrote the same rows, or held the database locked. Nothing of this attempt was kept: the
            # work runs from its start, and reads what the others have committed.
            continue
    return transaction()


def transact_at(
    node: Node,
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
