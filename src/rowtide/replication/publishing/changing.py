"""Change published articles while they are delivered.

(SQL Server: sp_changearticle, sp_articlefilter, sp_articlecolumn.) Other articles are not touched. Subscribers that
lack rows or values afterwards copy the article again.

A change is one transaction in the log's database and the distribution database, or two where these are two databases.
Scripts that run at subscribers after schema changes are registered here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sqlalchemy import Connection, Engine, Executable, select, text

from rowtide.core.failpoints import failpoint
from rowtide.core.lsn import CommitLsn, Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import MEMBERS
from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.catalogue import find_by_id
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.databases.source_table import SourceTable
from rowtide.log.catalogue import members_table
from rowtide.log.postgres import membership
from rowtide.log.postgres.control_table import mark_log
from rowtide.log.postgres.membership import run_membership_change
from rowtide.log.postgres.table_publications import read_publishing
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store.location import open_own_manifest
from rowtide.replication.articles.articles import FEATURE, Article, as_member
from rowtide.replication.articles.changes import call_change, changed, needs_copy
from rowtide.replication.articles.requests import ArticleChange
from rowtide.replication.distributor import (
    definitions,
    joining,
    publication_records,
    script_records,
    subscription_records,
)
from rowtide.replication.distributor.location import distributor, is_elsewhere
from rowtide.replication.distributor.publication_records import begin_changing
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.distributor.script_records import CustomScript
from rowtide.replication.distributor.subscription_records import Subscription
from rowtide.replication.errors.publishing import ArticleExists, ArticleUnknown
from rowtide.replication.publishing import publisher_log
from rowtide.replication.subscription_settings import IfExists


@frozen
class RecordedChange:
    """What a change of an article does to the log's members, to its records, and last, to announce it in the log."""

    article: Article
    members: Sequence[Executable]
    records: Sequence[Executable]
    announcing: Sequence[Executable]


@keeping_sessions()
def run_recorded_change(
    alterations: Alterations, table: str, plan: Callable[[Connection], RecordedChange | None]
) -> RecordedChange | None:
    """Plan and run a change; retry if a lock was not obtained in time. Raises `LockNotObtained`, and as `plan`."""
    planned: list[RecordedChange | None] = []

    def plan_members(connection: Connection) -> Sequence[Executable]:
        change = plan(connection)
        planned[:] = [change]
        if change is None:
            return []
        records = () if is_elsewhere(connection) else change.records
        return [*change.members, *records, *change.announcing]

    run_membership_change(alterations, table, plan_members)
    (change,) = planned
    if change is not None:
        alterations.transact(partial(_record_elsewhere, change))
    return change


def list_unrecorded(connection: Connection) -> dict[str, int]:
    """Return the members that are articles without a record, with their tables: what a killed command left."""
    if not is_elsewhere(connection):
        return {}
    recorded = {article.article_id for article in publication_records.list_all_articles(connection)}
    return {member: table for member, table in _list_members(connection).items() if member not in recorded}


def _record_elsewhere(change: RecordedChange, connection: Connection) -> None:
    if not is_elsewhere(connection):
        return
    failpoint("article_record.before")
    # A process that publishes the same table meanwhile has removed the member, or finds the record.
    connection.execute(text("select pg_advisory_xact_lock(:class, :key)"), MEMBERS)
    article = change.article
    if article.article_id not in _list_members(connection):
        raise ArticleExists(article.qualified_name, article.publication)
    for step in change.records:
        distributor(connection).execute(step)


def _list_members(connection: Connection) -> dict[str, int]:
    columns = members_table.c
    query = select(columns.member_id, columns.source_table_id).where(columns.feature == FEATURE)
    return {row.member_id: row.source_table_id for row in connection.execute(query)}


def find_copying(engine: Engine, database: str, change: ArticleChange) -> tuple[str, ...]:
    """Return the subscribers that copy an article again if it is changed so. Raises as `change_article`."""
    with translated(), engine.connect() as connection:
        read_source(connection, database)
        planned = _find(connection, change)
        return tuple(one.subscriber for one in planned.subscriptions if planned.is_copied)


def change_article(alterations: Alterations, database: str, change: ArticleChange) -> None:
    """Change an article, for its subscribers too.

    Without `if_exists`, a table that is copied again is dropped, or emptied where the subscription kept what was there.
    Raises `PublicationUnknown`, `ArticleUnknown`, `LockNotObtained`, `SubscriptionBeingAdded`, and as `define_article`.
    """

    def plan(connection: Connection) -> RecordedChange | None:
        source = read_source(connection, database)
        publication_records.get_publication(connection, change.publication)
        begin_changing(connection, change.publication)
        joining.lock_articles(connection, change.publication)
        planned = _find(connection, change)
        return _plan(connection, source, planned, change.if_exists) if planned.after != planned.before else None

    run_recorded_change(alterations, change.table, plan)


@frozen
class _Planned:
    """An article before and after a change, and the subscriptions of its publication."""

    table: SourceTable
    before: Article
    after: Article
    subscriptions: Sequence[Subscription]
    joining: Sequence[Subscription]

    @property
    def is_copied(self) -> bool:
        return needs_copy(self.before, self.after)


def _find(connection: Connection, change: ArticleChange) -> _Planned:
    before = publication_records.get_article(connection, change.publication, change.table)
    table = find_by_id(connection, before.source_id)
    if table is None:
        raise ArticleUnknown.of(change.table, change.publication)
    known = subscription_records.list_subscriptions(connection, change.publication)
    return _Planned(
        table,
        before,
        changed(before, table, change),
        [one for one in known if one.joins is None],
        [one for one in known if one.joins is not None and before.article_id in one.starts],
    )


def _plan(
    connection: Connection, source: SourceDefinition, planned: _Planned, if_exists: IfExists | None
) -> RecordedChange:
    """Return the steps of a change, in the log's order."""
    before, after, table = planned.before, planned.after, planned.table
    members, announcing = membership.lock_steps(table), list[Executable]()
    members += publisher_log.refusal_steps(connection, table, after)
    # The log continues with columns that are no longer published: subscribers that are behind have them.
    if planned.is_copied or before.before_images is not after.before_images:
        publishing = read_publishing(connection, source, table.source_id)
        members.append(membership.unregister_step(after.article_id))
        members += membership.join_steps(source, table, as_member(after), after.before_images, publishing=publishing)
        announcing.append(membership.announce_enabled(as_member(after)))
    definitions.require_writable(connection)
    records = list(publication_records.change_article_steps(before, after))
    since = Position.of(open_own_manifest(source).state.epoch, mark_log(connection))
    for subscription in planned.subscriptions:
        records += _change_subscription(connection, planned, subscription, since, if_exists)
    return RecordedChange(after, members, records, announcing)


def _change_subscription(
    connection: Connection,
    planned: _Planned,
    subscription: Subscription,
    since: Position,
    if_exists: IfExists | None,
) -> Iterator[Executable]:
    article_id = planned.after.article_id
    copying = [one for one in planned.joining if one.joins == subscription.agent_id]
    if not planned.is_copied and not copying:
        change = call_change(planned.before, planned.after)
        yield joining.change_step(subscription.agent_id, article_id, since, change)
        yield joining.resume_step(subscription.agent_id)
        return
    held = None
    for holder in (subscription, *copying):
        if article_id in holder.starts:
            held = subscription_records.get_subscriber_article(connection, holder.agent_id, article_id)
            yield from joining.detach_steps(subscription, holder, held)
    usual = IfExists.TRUNCATE if subscription.settings.keeps_tables else IfExists.DROP
    yield from joining.join_steps(subscription, article_id, if_exists or usual, held)


def register_script(
    engine: Engine,
    database: str,
    publication: str,
    table: str,
    script: CustomScript | None,
    from_lsn: CommitLsn | None = None,
) -> Position:
    """Register an article's script, or that it has none any more, from an LSN or from now on; return from where.

    Raises `DatabaseNotPublished`, `PublicationUnknown`, `ArticleUnknown`.
    """
    with translated(), engine.begin() as connection:
        source = read_source(connection, database)
        article = publication_records.get_article(connection, publication, table)
        if from_lsn is not None:
            start = Position(from_lsn.value)
        else:
            start = Position.of(open_own_manifest(source).state.epoch, mark_log(connection))
        script_records.register(connection, article.article_id, script, start)
    return start
