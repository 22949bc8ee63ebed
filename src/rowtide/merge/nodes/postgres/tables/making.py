"""Create merged tables in a PostgreSQL database, with their keys. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.rowguid import NEW_ROWGUID
from rowtide.merge.articles import ROWGUID, Article
from rowtide.merge.nodes.node_tables import TableDescription
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.postgres.tables.altering import collation_of, keys_of_parts
from rowtide.merge.nodes.untyped_values import server_type


def creation(article: Article, description: TableDescription) -> str:
    """Return the statement that creates a table with its keys, without the parts that are made afterwards."""
    lines = [
        f"{quote(column.name)} {server_type(column)}{collation_of(description, column.name)}"
        + " not null" * (not column.is_nullable)
        for column in article.columns
    ]
    lines += [
        f"{ROWGUID} uuid not null unique default {NEW_ROWGUID}",
        f"primary key ({_names(column.name for column in article.key_columns)})",
    ]
    later = keys_of_parts(article, description)
    lines += [f"unique ({_names(key)})" for key in description.unique_keys if key not in later]
    return f"create table {table_of(article)} (\n    " + ",\n    ".join(lines) + "\n)"


def foreign_keys(article: Article, description: TableDescription, names: Mapping[str, Article]) -> Iterator[str]:
    """Yield the statements that add foreign keys, deferrable to the end of the agent's transaction."""
    for reference in description.references:
        if reference.referenced_table in names:
            referenced = table_of(names[reference.referenced_table])
            yield (
                f"alter table {table_of(article)} add foreign key ({_names(reference.columns)}) "
                f"references {referenced} ({_names(reference.referenced_columns)}) "
                f"on delete {reference.on_delete} on update {reference.on_update} deferrable"
            )


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quote, names))
