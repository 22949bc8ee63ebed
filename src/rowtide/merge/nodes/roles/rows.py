"""The rows of merged tables at a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Protocol

from rowtide.merge.articles import Article
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.links import Link
from rowtide.merge.versions.changes import Row


class RowReader(Protocol):
    """A node whose rows are read by rowguid, and by values."""

    @property
    def has_uuids(self) -> bool:
        """Whether rowguids are UUIDs here, and not texts."""

    def read_rows(self, article: Article, rowguids: Sequence[str]) -> Mapping[str, Row]:
        """Return those of the rows that exist."""

    def read_referencing(self, article: Article, columns: Sequence[str], keys: Sequence[Row]) -> Mapping[str, Row]:
        """Return an article's rows that have one of some keys, none of them with NULL, in these columns."""

    def find_belonging(self, row_filter: RowFilter, rowguids: Sequence[str]) -> Set[str]:
        """Return those of an article's rows that are in a partition."""

    def find_key_holder(self, article: Article, row: Row) -> str | None:
        """Return the rowguid of the local row with the same primary key as a received row."""

    def ask_procedure(self, article: Article, subscriber: str, pairs: Sequence[tuple[str, Row]]) -> list[Row | None]:
        """Return the function's rows, for rows by rowguid and the subscriber's versions of them; None where it is NULL.

        The function is that of the article's resolver. Within a transaction. Raises `HandlerFailed`.
        """


def read_all(node: RowReader, asked: Iterable[tuple[Article, str]]) -> dict[int, Mapping[str, Row]]:
    """Return those of some articles' rows, given by rowguid, that exist, by the articles' nicknames."""
    listed: dict[int, tuple[Article, list[str]]] = {}
    for article, rowguid in asked:
        listed.setdefault(article.nickname, (article, []))[1].append(rowguid)
    return {nickname: node.read_rows(article, rowguids) for nickname, (article, rowguids) in listed.items()}


class LinkedRows(Protocol):
    """A node whose rows have parents and children, by the links of logical records."""

    def read_parents(self, link: Link, children: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguid of each row's parent as the tables have it now; rows without one are left out."""

    def read_children(self, link: Link, parents: Sequence[str]) -> Mapping[str, str]:
        """Return the rowguids of the rows that have any of some parents, each with its parent's."""

    def find_parents(self, link: Link, rows: Sequence[Row]) -> Sequence[str | None]:
        """Return for each row, as it travels, the rowguid of the local row that its foreign key references, if any."""
