"""The interface of a database to merge: one class per database, one connection per node."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from rowtide.merge.articles import Article, DeviceLimits
from rowtide.merge.nodes.node_tables import NodeTables, RebuiltTables
from rowtide.merge.nodes.roles.rows import (
    LinkedRows,
    MetadataUpkeep,
    ReachReader,
    RowReader,
    RowVersions,
    Sessions,
    TransactionalNode,
)
from rowtide.merge.nodes.roles.writing import NumberedKeys, RowWriter
from rowtide.merge.nodes.sending import ChangesRequest, Enumeration, Sending
from rowtide.merge.versions.changes import Row


class MergedTables(TransactionalNode, Protocol):
    """A node whose merged tables follow the hub's definitions of its articles."""

    @property
    def tables(self) -> NodeTables:
        """Creates, alters and describes tables on this node."""

    @property
    def rebuilt(self) -> RebuiltTables:
        """Works on tables that a program made or rebuilt."""

    def altering(self) -> AbstractContextManager[None]:
        """Write in one transaction in which tables may be altered; see `transaction`."""

    def redefine(self, before: Article, after: Article) -> None:
        """Apply the log by one definition of an article, and move the metadata of rows to another's columns.

        Within a transaction. Where column tracking begins, all columns of changed rows count as changed.
        """

    def forget_tables(self) -> None:
        """Forget what this session knows of articles' tables; not within a transaction."""

    def fill(self, article: Article, rows: Sequence[tuple[str, Row]]) -> None:
        """Write values into columns of rows that exist, within `altering`; nothing is logged.

        `article` has these columns alone.
        """


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


class Node(
    Sessions,
    ChangeSource,
    RowVersions,
    MetadataUpkeep,
    RowReader,
    LinkedRows,
    ReachReader,
    RowWriter,
    NumberedKeys,
    MergedTables,
    Protocol,
):
    """A database that takes part in a merge, over its own connection: all roles of a synchronisation's two ends."""
