"""Transactions that are begun again where others were faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from rowtide.merge.errors import NodeBusy

Result = TypeVar("Result")

MOST_TRIES = 5
"""SQL Server: -NumDeadlockRetries."""


def insist(transaction: Callable[[], Result]) -> Result:
    """Run a transaction, again where it raises `NodeBusy`; raise that after the last try."""
    for _ in range(MOST_TRIES - 1):
        try:
            return transaction()
        except NodeBusy:
            continue
    return transaction()
