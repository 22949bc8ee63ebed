"""Transactions of a node, and what is done within and around them.

Retry transactions that failed because another session was faster or holds a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Select

from rowtide.merge.articles import Subscription
from rowtide.merge.errors.nodes import NodeBusy


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


def transact_at(node: TransactionalNode, work: Callable[[], Result], *, is_durable: bool = False) -> Result:
    """Apply the log and run work in a transaction of a node, retried after `NodeBusy`; raise that after the last one.

    Unless it is durable, the commit is not flushed to disk: progress is stored durably only at the end, and lost
    changes are sent again.
    """

    def apply_and_work(*, is_repeatable: bool) -> Result:
        node.apply_log()
        with node.transaction(is_durable=is_durable, is_repeatable=is_repeatable):
            return work()

    def repeat() -> Result:
        for _ in range(MOST_TRIES - 1):
            try:
                return apply_and_work(is_repeatable=True)
            except ToRepeat:
                continue
        return apply_and_work(is_repeatable=False)

    return retry_busy(repeat)
