"""Retry transactions that failed because another session was faster or holds a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rowtide.merge.errors.nodes import NodeBusy
from rowtide.merge.nodes.roles.transactions import ToRepeat, Transactions

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


def transact_at(node: Transactions, work: Callable[[], Result], *, is_durable: bool = False) -> Result:
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
