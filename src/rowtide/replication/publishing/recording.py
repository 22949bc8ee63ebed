"""Changes of articles in the log and the distribution database: one transaction, or two where they are two databases.

The log's comes first then: nothing is recorded that the log does not have. What is killed in between is completed by a
repeat; a member of the log without a record is removed when its table is published again or dropped, or with the last
publication.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection, Executable, select, text

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.kept_sessions import keeping_sessions
from rowtide.log.catalogue import members_table
from rowtide.log.postgres import membership
from rowtide.log.postgres.membership import run_membership_change
from rowtide.replication.articles.articles import FEATURE, Article
from rowtide.replication.distributor import publication_records
from rowtide.replication.distributor.location import distributor, is_elsewhere
from rowtide.replication.errors.publishing import ArticleExists


@dataclass(frozen=True, slots=True)
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
    connection.execute(text("select pg_advisory_xact_lock(:class, :key)"), membership.SERIALIZE)
    article = change.article
    if article.article_id not in _list_members(connection):
        raise ArticleExists(article.qualified_name, article.publication)
    for step in change.records:
        distributor(connection).execute(step)


def _list_members(connection: Connection) -> dict[str, int]:
    columns = members_table.c
    query = select(columns.member_id, columns.source_table_id).where(columns.feature == FEATURE)
    return {row.member_id: row.source_table_id for row in connection.execute(query)}
