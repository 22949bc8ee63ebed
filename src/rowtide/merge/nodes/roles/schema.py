"""The merged tables of a node as they are created, altered and followed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from rowtide.merge.articles import Article
from rowtide.merge.nodes.node_tables import NodeTables, RebuiltTables
from rowtide.merge.nodes.roles.transactions import TransactionalNode
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
