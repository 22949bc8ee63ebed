"""Transactions that are retried where another session was faster or holds a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rowtide.merge.errors import NodeBusy
from rowtide.merge.nodes.node import Node

Result = TypeVar("Result")

MOST_TRIES = 5
"""SQL Server: -NumDeadlockRetries."""


def retry_busy(transaction: Callable[[], Result]) -> Result:
    """Run a transaction, and again after `NodeBusy`; raise that after the last try."""
    for _ in range(MOST_TRIES - 1):
        try:
            return transaction()
        except NodeBusy:
            continue
    return transaction()


def transact_at(node: Node, work: Callable[[], Result]) -> Result:
    """Apply the log, then run work in a transaction of a node, retried after `NodeBusy`; raise that after the last try.

    It does not wait for the disk: what came is noted when all has, and is asked for again where that is not.
    """

    def apply_and_work() -> Result:
        node.apply_log()
        with node.transaction(is_durable=False):
            return work()

    return retry_busy(apply_and_work)
