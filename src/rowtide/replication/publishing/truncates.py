"""Truncates of one partition of an article's table: the log has none of them, so the table's owner refuses them."""

from __future__ import annotations

from sqlalchemy import Connection, Executable

from rowtide.core.operations import Operation
from rowtide.databases.source_table import SourceTable
from rowtide.log.postgres import partition_truncates
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat


def refusal_steps(connection: Connection, table: SourceTable, article: Article) -> list[Executable]:
    """Refuse such truncates where the article delivers deletes, allow them where it does not; the table is locked."""
    allowing = partition_truncates.allow_steps(connection, article.article_id)
    if article.command(Operation.DELETE).call_format is CallFormat.NONE:
        return allowing
    way_out = f"drop article {article.qualified_name} of publication {article.publication}"
    return [*allowing, *partition_truncates.refuse_steps(table, article.article_id, way_out)]
