"""What is done about conflicts of a new subscription, and whether they can be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, text

from rowtide.core.operations import Operation
from rowtide.core.redaction import redact
from rowtide.core.tables import BeforeImages
from rowtide.databases.postgres.errors import translated
from rowtide.databases.urls import DatabaseKind, parse_url
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.conflicts import (
    CommitTimesNotKept,
    ConflictsFixed,
    ConflictsNotDetectable,
    ConflictsUndecided,
)
from rowtide.replication.subscribing.originators import Ends
from rowtide.replication.subscription_settings import SubscriptionSettings

_OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)


def choose_resolver(
    ends: Ends, subscriber: str, articles: Sequence[Article], settings: SubscriptionSettings, *, forwards: bool
) -> SubscriptionSettings:
    """Return the settings of a new subscription with its resolver: stop, unless given, where others write the tables.

    Raises `ConflictsUndecided`, `ConflictsNotDetectable`.
    """
    tables = {article.qualified_name for article in articles}
    if settings.conflicts is None and _is_written_by_others(ends, tables, forwards=forwards):
        settings = replace(settings, conflicts=Resolver.STOP)
    if not settings.detects_conflicts:
        return settings
    require_detectable(subscriber, articles, settings, forwards=forwards)
    for guid, delivered in ends.subscriber.delivers.items():
        if guid in ends.publisher.receives and delivered.conflicts is None:
            for table in sorted(tables & delivered.tables):
                raise ConflictsUndecided(table, subscriber)
    return settings


def require_detectable(
    subscriber: str, articles: Sequence[Article], settings: SubscriptionSettings, *, forwards: bool
) -> None:
    """Raise `ConflictsNotDetectable` unless conflicts of all articles can be found as the settings want it."""
    if not settings.detects_conflicts:
        return
    reason = None
    if parse_url(subscriber).kind is not DatabaseKind.POSTGRESQL:
        reason = "the subscriber is a file, to which nobody else delivers"
    elif settings.skip_errors:
        reason = "--skip-errors leaves commands out"
    elif settings.streams > 1:
        reason = "--streams divides a batch among connections"
    elif forwards and settings.conflicts is Resolver.LAST_COMMIT_TIME:
        reason = "with --forward it is not known where a change was made"
    for article in articles:
        found = reason or _find_constraint(article)
        if found is not None:
            raise ConflictsNotDetectable(article.qualified_name, found)


def require_commit_times(connection: Connection, database: str, settings: SubscriptionSettings) -> None:
    """Raise `CommitTimesNotKept` if the last commit time decides, and the publisher's server does not keep it."""
    if settings.conflicts is Resolver.LAST_COMMIT_TIME:
        with translated():
            setting = connection.execute(text("select current_setting('track_commit_timestamp')")).scalar_one()
        if setting != "on":
            raise CommitTimesNotKept(redact(database))


def require_kept(before: SubscriptionSettings, after: SubscriptionSettings) -> None:
    """Raise `ConflictsFixed` if a subscription that looks for conflicts is not to any more: it has no procedures."""
    if before.detects_conflicts and not after.detects_conflicts:
        raise ConflictsFixed


def _is_written_by_others(ends: Ends, tables: set[str], *, forwards: bool) -> bool:
    """Whether the subscriber delivers tables back to the publisher, or others deliver them to it."""
    if forwards:
        return False
    is_back = any(
        guid in ends.publisher.receives and tables & delivered.tables
        for guid, delivered in ends.subscriber.delivers.items()
    )
    others = (one for one in ends.subscriber.receives.values() if one.publisher != ends.publisher.database)
    return is_back or any(tables & one.tables for one in others if one.tables is not None)


def _find_constraint(article: Article) -> str | None:
    commands = [article.command(operation) for operation in _OPERATIONS]
    if not article.key_columns:
        return "it has no primary key"
    if article.before_images is not BeforeImages.FULL:
        return "the log has no whole old rows"
    if article.filter_clause is not None:
        return "it has a row filter"
    if article.is_partitioned:
        return "it is partitioned"
    if any(command.procedure is not None for command in commands):
        return "it has custom procedures"
    if any(command.call_format is CallFormat.NONE for command in commands):
        return "not all operations are delivered"
    return None
