"""Adopting a moved database: articles are bound to their tables' new oids, and announced again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, Executable

from rowtide.databases.postgres.alterations import Alterations
from rowtide.log.postgres.rebinding import NOWHERE, Rebound
from rowtide.log.source_definition import SourceDefinition
from rowtide.replication.articles.articles import Article
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.location import distributor, is_elsewhere
from rowtide.replication.publishing.restarting import announce_articles, list_all_articles


def rebind_steps(connection: Connection, rebound: Sequence[Rebound]) -> list[Executable]:
    """Return the statements that record the tables' oids, and the columns' numbers and types.

    In a distribution database that is elsewhere they run at once, and are committed before the caller's transaction.
    """
    members = {member.member_id: member for member in rebound}
    newest = [
        publication_records.rebind_article_step(_rebind(article, members[article.article_id]))
        for article in list_all_articles(connection)
        if article.article_id in members
    ]
    held = [
        subscription_records.hold_article_step(agent_id, _rebind(article, members[article.article_id]))
        for agent_id, article in subscription_records.list_held(connection)
        if article.article_id in members
    ]
    if not is_elsewhere(connection):
        return newest + held
    for step in (*newest, *held):
        distributor(connection).execute(step)
    return []


def announce_again(alterations: Alterations, source: SourceDefinition) -> None:
    """Announce all articles again, each in its own transaction."""
    announce_articles(alterations, source)


def _rebind(article: Article, member: Rebound) -> Article:
    """Return an article with its new oids.

    Without one of its columns it counts as without its table, and is not announced.
    """
    present = {column.name: column for column in member.table.columns} if member.table is not None else {}
    if not all(column.name in present for column in article.columns):
        return replace(article, source_id=NOWHERE)
    columns = tuple(
        replace(
            column,
            number=present[column.name].number,
            type_code=present[column.name].type_code,
            type_modifier=present[column.name].type_modifier,
        )
        for column in article.columns
    )
    return replace(article, source_id=member.source_id, columns=columns)
