"""The numbers of new rows at a node: automatic identity ranges, and keys that are changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rowtide.merge.articles import Article
from rowtide.merge.nodes.roles.transactions import Transactions
from rowtide.merge.versions.identity_ranges import IdentityRange, Numbering


class NumberedKeys(Transactions, Protocol):
    """A node with tables whose key is one integer column."""

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
