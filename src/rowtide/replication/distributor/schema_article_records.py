"""Schema-only articles as recorded: views, functions and procedures, whose text is published and nothing else.

(SQL Server: sysschemaarticles, and sp_addarticle with a type "schema only".) The text is not stored: it is what the
publisher's catalogue has when a subscriber gets it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Executable,
    ForeignKey,
    Integer,
    Table,
    Text,
    delete,
    insert,
    select,
)

from rowtide.core.values import frozen
from rowtide.replication.articles.articles import ArticleType
from rowtide.replication.distributor.definitions import (
    metadata,
    publications,
)
from rowtide.replication.distributor.location import distributor


@frozen
class SchemaArticle:
    """An object whose text is published; `name` is quoted as SQL needs it, with schema and a function's parameters."""

    article_id: str
    type: ArticleType
    source_id: int
    schema: str
    name: str


schema_articles = Table(
    "MSschemaarticles",
    metadata,
    Column("article_id", Text, primary_key=True),
    Column("publication_id", Integer, ForeignKey(publications.c.publication_id, ondelete="cascade"), nullable=False),
    Column("type", Text, nullable=False),
    Column("source_object_id", BigInteger, nullable=False),
    Column("source_owner", Text, nullable=False),
    Column("source_object", Text, nullable=False, comment="as SQL needs it; of a function with its parameters"),
)


def list_schema_articles(connection: Connection, publication_id: int) -> tuple[SchemaArticle, ...]:
    """Return the schema-only articles of a publication, by name."""
    columns = schema_articles.c
    query = select(
        columns.article_id, columns.type, columns.source_object_id, columns.source_owner, columns.source_object
    )
    query = query.where(columns.publication_id == publication_id).order_by(columns.source_object)
    return tuple(
        SchemaArticle(article_id, ArticleType(kind), source_id, schema, name)
        for article_id, kind, source_id, schema, name in distributor(connection).execute(query)
    )


def add_step(publication_id: int, article: SchemaArticle) -> Executable:
    """Return the statement that records an article."""
    return insert(schema_articles).values(
        article_id=article.article_id,
        publication_id=publication_id,
        type=article.type.value,
        source_object_id=article.source_id,
        source_owner=article.schema,
        source_object=article.name,
    )


def drop_steps(articles: Sequence[SchemaArticle]) -> list[Executable]:
    """Return the statements that delete articles' records."""
    return [delete(schema_articles).where(schema_articles.c.article_id == each.article_id) for each in articles]
