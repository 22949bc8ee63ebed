"""Changes of a published article: its row filter, columns and commands (SQL Server: sp_changearticle). Pure.

(SQL Server: sp_articlefilter, sp_articlecolumn.) Rows are copied again where the subscriber lacks some.
"""

from __future__ import annotations

from dataclasses import replace

from rowtide.core.json_records import JsonOf
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages
from rowtide.core.values import frozen
from rowtide.databases.source_table import SourceTable
from rowtide.replication.articles.articles import (
    Article,
    PublishedColumn,
    define_article,
    reasons_for_whole_rows,
)
from rowtide.replication.articles.call_formats import CallFormat, Command, KeyUpdates
from rowtide.replication.articles.requests import ArticleChange, ArticleRequest, MovedPartitions
from rowtide.replication.articles.schema_changes import Followed, NullsChanged
from rowtide.replication.errors.publishing import PublishedColumnListedTwice, PublishedColumnUnknown

_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)


@frozen
class CallChange:
    """The effect on an article of a change that needs no rows, whichever columns a subscriber has when it follows.

    `dropped` are the numbers of columns that are no longer published.
    """

    insert: Command
    update: Command
    delete: Command
    key_updates: KeyUpdates
    before_images: BeforeImages
    dropped: tuple[int, ...]
    moved_partitions: MovedPartitions = MovedPartitions.COPY


def changed(article: Article, table: SourceTable, change: ArticleChange) -> Article:
    """Return an article after a change. Raises as `define_article`."""
    commands = {**{operation: article.command(operation) for operation in _OPERATIONS}, **change.commands}
    where = None if change.without_filter else change.where or article.filter_clause
    key_updates = change.key_updates or article.key_updates
    may_have_keys = article.before_images is BeforeImages.KEY and not any(
        reasons_for_whole_rows(commands, where, key_updates)
    )
    request = ArticleRequest(
        columns=_choose_columns(article, table, change),
        commands=commands,
        before_images=BeforeImages.KEY if may_have_keys else None,
        where=where,
        key_updates=key_updates,
    )
    now = define_article(table, article.publication, request, article.article_id, ())
    images = article.before_images if article.before_images is BeforeImages.FULL else now.before_images
    after = replace(
        article,
        insert=now.insert,
        update=now.update,
        delete=now.delete,
        filter_clause=where,
        key_updates=key_updates,
        moved_partitions=change.moved_partitions or article.moved_partitions,
        before_images=images,
    )
    if change.add_columns:
        left_out = () if now.has_all_columns else article.left_out
        return replace(after, columns=now.columns, has_all_columns=now.has_all_columns, left_out=left_out)
    if change.drop_columns:
        kept = tuple(column for column in article.columns if column.name not in change.drop_columns)
        return replace(after, columns=kept, has_all_columns=False, left_out=())
    return after


def needs_copy(before: Article, after: Article) -> bool:
    """Return whether subscribers lack rows or values that the article has after a change."""
    numbers = {column.number for column in before.columns}
    is_more = any(
        before.command(operation).call_format is CallFormat.NONE
        and after.command(operation).call_format is not CallFormat.NONE
        for operation in _OPERATIONS
    )
    has_more = any(column.number not in numbers for column in after.columns)
    return is_more or has_more or before.filter_clause != after.filter_clause


def call_change(before: Article, after: Article) -> CallChange:
    """Return what a change that needs no copy is for a subscriber."""
    kept = {column.number for column in after.columns}
    dropped = tuple(column.number for column in before.columns if column.number not in kept)
    return CallChange(
        after.insert,
        after.update,
        after.delete,
        after.key_updates,
        after.before_images,
        dropped,
        after.moved_partitions,
    )


def follow_change(held: Article, change: CallChange) -> Followed:
    """Return what a change makes of an article as a subscriber has it. The table keeps columns that are dropped."""
    dropped = [column for column in held.columns if column.number in change.dropped]
    after = replace(
        held,
        insert=change.insert,
        update=change.update,
        delete=change.delete,
        key_updates=change.key_updates,
        moved_partitions=change.moved_partitions,
        before_images=change.before_images,
        columns=tuple(column for column in held.columns if column not in dropped),
        has_all_columns=held.has_all_columns and not change.dropped,
    )
    return Followed(held, after, tuple(_freed(column) for column in dropped if not column.is_nullable))


_CALL_CHANGE = JsonOf[CallChange](CallChange)


def encode_change(change: CallChange) -> str:
    """Return a change as JSON."""
    return _CALL_CHANGE.encode(change)


def decode_change(text: str) -> CallChange:
    """Read a change written by `encode_change`."""
    return _CALL_CHANGE.decode(text)


def _freed(column: PublishedColumn) -> NullsChanged:
    """Return the change by which later rows may lack a column."""
    return NullsChanged(replace(column, is_nullable=True))


def _choose_columns(article: Article, table: SourceTable, change: ArticleChange) -> tuple[str, ...] | None:
    """Return the names of the columns, as the table calls them now; None for all."""
    known = {column.name for column in article.columns}
    for name in change.drop_columns:
        if name not in known:
            raise PublishedColumnUnknown(table.qualified_name, name)
    for name in change.add_columns:
        if name in known:
            raise PublishedColumnListedTwice(table.qualified_name, name)
        if name not in {column.name for column in table.columns if not column.is_generated}:
            raise PublishedColumnUnknown(table.qualified_name, name)
    if article.has_all_columns and not change.drop_columns:
        return None
    numbers = {column.number for column in article.columns if column.name not in change.drop_columns}
    return tuple(
        column.name for column in table.columns if column.number in numbers or column.name in change.add_columns
    )
