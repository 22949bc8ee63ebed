"""The articles of a publisher: the part of `rowtide.connect(url).replication` that can be rehearsed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

from rowtide.core.options import member_or_none, takes
from rowtide.databases.postgres.alterations import Alterations, rehearsing
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.articles.requests import ArticleChange, NewArticle
from rowtide.replication.distributor.publisher import ReplicationHandle


class ArticlePublishing(ReplicationHandle, ABC):
    """What a PostgreSQL database publishes."""

    @abstractmethod
    def _altering(self) -> AbstractContextManager[Alterations]: ...

    @takes(NewArticle)
    def add_article(self, article: NewArticle) -> None:
        """Publish a table (SQL Server: sp_addarticle).

        The publication's subscribers get its rows while everything else is delivered. Raises `ArticleExists`,
        `TableNotFound`, `LockNotObtained`, and what refuses the table, columns, commands or filter: errors of
        `rowtide.errors`.
        """
        from rowtide.replication.publishing import publications

        with self._altering() as alterations:
            publications.add_article(
                alterations, self._url, article.publication, article.table, article, article.if_exists
            )

    @takes(ArticleChange)
    def change_article(self, change: ArticleChange) -> None:
        """Change an article, for its subscribers too.

        (SQL Server: sp_changearticle, sp_articlefilter, sp_articlecolumn.) Subscribers that lack rows or values
        afterwards copy the table again, while everything else is delivered; see `find_copying`. Raises
        `LockNotObtained`, and as `add_article` for what is changed.
        """
        from rowtide.replication.publishing import changing

        with self._altering() as alterations:
            changing.change_article(alterations, self._url, change)

    def add_schema_article(self, publication: str, name: str, article_type: ArticleType | None = None) -> bool:
        """Publish the text of a view, materialized view, function or procedure (SQL Server: types "schema only").

        Returns false for a table. Raises `ObjectNotFound`, `SchemaArticleUsesUnpublished`, `ExecutionsNotLogged`.
        """
        from rowtide.replication.publishing import schema_articles

        kind = member_or_none(ArticleType, article_type, "article_type")
        with self._altering() as alterations:
            return schema_articles.add(alterations, self._url, publication, name, kind)

    def drop_article(self, publication: str, table: str) -> None:
        """Remove a table from a publication, or an object whose text it has (SQL Server: sp_droparticle).

        Subscribers keep what they have. Raises `LockNotObtained`.
        """
        from rowtide.replication.publishing import publications, schema_articles

        with self._altering() as alterations:
            if schema_articles.drop(alterations, self._url, publication, table):
                return
            publications.drop_article(alterations, self._url, publication, table)


class ReplicationRehearsal(ArticlePublishing):
    """The same calls without effect; `statements` has what they would run."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.statements: list[str] = []

    def _altering(self) -> AbstractContextManager[Alterations]:
        return rehearsing(self._engine, self.statements)
