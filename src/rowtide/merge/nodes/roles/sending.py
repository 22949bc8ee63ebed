"""The changes that a node has to send."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rowtide.merge.articles import DeviceLimits
from rowtide.merge.nodes.roles.transactions import TransactionalNode
from rowtide.merge.nodes.sending import ChangesRequest, Enumeration, Sending


class ChangeSource(TransactionalNode, Protocol):
    """A node whose changes are enumerated by generation."""

    @property
    def limits(self) -> DeviceLimits | None:
        """What is taken of the node at most; None for a node that is trusted."""

    def enumerating(self) -> AbstractContextManager[Enumeration]:
        """Close the open generation, if it has changes, and yield its reader (SQL Server: sp_MSmakegeneration).

        Not within a transaction. Writers are not blocked; on SQLite they wait while the generation is closed.
        """

    def previewing(self) -> AbstractContextManager[Enumeration]:
        """Yield a reader as `enumerating` does, and write nothing: the number of the open generation is prospective.

        Not within a transaction.
        """

    def sending(self, request: ChangesRequest) -> AbstractContextManager[Sending]:
        """Close the open generation as `enumerating` does, and yield what is to be sent.

        Not within a transaction. A server does this on the node's own connection, in one round trip and one for each
        few thousand rows.
        """
