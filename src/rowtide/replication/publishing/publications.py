"""Publications and their articles (SQL Server: sp_addpublication, sp_addarticle, and the drop procedures)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import nullcontext

from sqlalchemy import Connection, Engine, Executable, func, select
from sqlalchemy.schema import DropSchema

from rowtide.core.failpoints import failpoint
from rowtide.core.formats import removing
from rowtide.core.names import require_name
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations, Committing
from rowtide.databases.postgres.catalogue import find_by_id, find_table, find_table_id, require_table_owner
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import view_schema
from rowtide.databases.postgres.session_pool import keeping_sessions
from rowtide.log.catalogue import find_source, forget_feature
from rowtide.log.postgres import membership, partition_truncates
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.membership import run_membership_change
from rowtide.log.postgres.provenance import find_owner
from rowtide.log.postgres.provision import OpenedSource, remove_source, take_source
from rowtide.log.postgres.table_publications import read_publishing
from rowtide.log.source_definition import SourceDefinition
from rowtide.replication.articles.articles import FEATURE, Article, as_member, define_article
from rowtide.replication.articles.requests import ArticleRequest, NewPublication
from rowtide.replication.distributor import definitions, joining, publication_records, retention, subscription_records
from rowtide.replication.distributor.location import distributor, is_elsewhere, record_place, schema_of
from rowtide.replication.distributor.publication_records import begin_changing, begin_dropping, keep_publication
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.errors.publishing import (
    ArticleExists,
    ArticleUnknown,
    PublicationExists,
    PublicationSubscribed,
)
from rowtide.replication.publishing import publisher_log
from rowtide.replication.publishing.changing import RecordedChange, list_unrecorded, run_recorded_change
from rowtide.replication.publishing.distribution_place import choose_place, make_tables
from rowtide.replication.publishing.publisher_log import ensure_source, find_own_source
from rowtide.replication.subscription_settings import IfExists


@keeping_sessions()
def add_publication(engine: Engine, database: str, request: NewPublication) -> OpenedSource:
    """Create a publication without articles; the first one of a database without capture also creates the log source.

    With `distribution_db`, the first one also creates the distribution database there.

    The server waits for open transactions then. Raises `NameUnfit`, `PublicationExists`,
    `NothingReadsLog`, `LogStoreElsewhere`, `DistributionElsewhere`, `DistributorUnreachable`, and what creating the
    source raises. A repeat after a crash completes it.
    """
    name = request.name
    require_name("publication", name)
    with translated(), take_source(engine):
        with engine.connect() as connection:
            find_source(connection)
            place = choose_place(connection, request.distribution_db)
            if definitions.is_there(connection) and publication_records.find_publication(connection, name) is not None:
                raise PublicationExists(name)
        opened = ensure_source(
            engine, database, request.lake, request.log_store, request.on_wait, for_group=request.for_group
        )
        if place is not None:
            with engine.begin() as connection:
                record_place(connection, place)
            failpoint("distributor_record.after")
        with engine.begin() as connection:
            _make_distribution_database(connection)
            publisher_db = connection.scalar(select(func.current_database())) or ""
            added = publication_records.add_publication_step(name, publisher_db, replicate_ddl=request.replicate_ddl)
            distributor(connection).execute(added)
    return opened


def _make_distribution_database(connection: Connection) -> None:
    """Create the missing tables of the distribution database."""
    definitions.require_writable(connection)
    make_tables(distributor(connection), schema_of(connection))
    retention.record_defaults(connection)


def drop_publication(engine: Engine, database: str, name: str) -> None:
    """Drop a publication and its articles; with the last one, also the distribution database's tables.

    Without capture it also removes the log source. Raises `PublicationUnknown`, `PublicationSubscribed`,
    `SubscriptionBeingAdded`, `LockNotObtained`, and `LeaseHeld` if a process reads the log to be removed. A repeat
    after a crash completes it.
    """
    with removing(), translated(), take_source(engine), begin_dropping(engine, name):
        with engine.connect() as connection:
            find_source(connection)
            was_forgotten = _is_forgotten(connection)
            if not was_forgotten and subscription_records.list_subscriptions(connection, name):
                raise PublicationSubscribed(name)
            publication_id = None if was_forgotten else publication_records.get_publication(connection, name)
            articles = () if publication_id is None else publication_records.list_articles(connection, publication_id)
            is_last = was_forgotten or list(publication_records.list_publications(connection)) == [name]
            ending = find_own_source(connection) if is_last else None
            has_distributor = is_elsewhere(connection)
        with AdvisoryLease.take(engine, "log") if ending is not None else nullcontext():
            for article in articles:
                drop_article(Committing(engine), database, name, article.qualified_name)
            if is_last and has_distributor and not was_forgotten:
                _drop_unrecorded(engine, database)
            if has_distributor:
                # First: afterwards it could not be found.
                _forget_publication(engine, publication_id, keeps_source=ending is not None)
            if ending is not None:
                remove_source(engine, ending)
            if not has_distributor:
                _forget_publication(engine, publication_id)


@frozen
class LogEnding:
    """What dropping the last publication removes in a database without capture; `owner` owns the log store."""

    source: SourceDefinition
    owner: str | None

    def __str__(self) -> str:
        store = f"log store {self.source.log_store}"
        what = f"{store}, with all that is not delivered" if self.owner is None else "nothing is delivered any more"
        kept = "" if self.owner is None else f"; {store} belongs to {self.owner}, and stays as it is"
        return f"slot and publication {self.source.slot}, {what}{kept}"


def find_ending(engine: Engine, name: str) -> LogEnding | None:
    """Return what dropping a publication removes besides itself; None if the log is still read. Raises as that does."""
    with translated(), engine.connect() as connection:
        source = find_own_source(connection)
        if not _is_forgotten(connection):
            publication_records.get_publication(connection, name)
            if list(publication_records.list_publications(connection)) != [name]:
                return None
        return None if source is None else LogEnding(source, find_owner(connection, source))


def _is_forgotten(connection: Connection) -> bool:
    """Return whether dropping the last publication was interrupted behind the distribution database's end."""
    return is_elsewhere(connection) and not definitions.is_there(connection)


def _forget_publication(engine: Engine, publication_id: int | None, *, keeps_source: bool = False) -> None:
    """Delete the publication's record; until then, or with `keeps_source`, a repeat finds what remains to be done."""
    with engine.begin() as connection:
        if publication_id is not None:
            distributor(connection).execute(publication_records.drop_publication_step(publication_id))
        if publication_id is None or not publication_records.list_publications(connection):
            for schema in (schema_of(connection), view_schema(schema_of(connection))):
                distributor(connection).execute(DropSchema(schema, cascade=True, if_exists=True))
            if not keeps_source:
                if is_elsewhere(connection):
                    record_place(connection, None)
                forget_feature(connection, FEATURE)


def add_article(
    alterations: Alterations,
    database: str,
    publication: str,
    table: str,
    request: ArticleRequest,
    if_exists: IfExists = IfExists.FAIL,
) -> Article:
    """Publish a table; the publication's subscribers get a snapshot of it while everything else is delivered.

    `if_exists`: what happens to a table that a subscriber has already.

    Raises the errors of `define_article`, `PublicationUnknown`, `ArticleExists`, `TableNotFound`, `LockNotObtained`,
    `SubscriptionBeingAdded`, `PublicationBeingDropped`.
    """

    def plan(connection: Connection) -> RecordedChange:
        return _plan_add(connection, read_source(connection, database), publication, table, request, if_exists)

    added = run_recorded_change(alterations, table, plan)
    assert added is not None
    return added.article


def _forget_unrecorded(connection: Connection, source_id: int) -> list[Executable]:
    left = [member for member, table in list_unrecorded(connection).items() if table == source_id]
    return [step for one in left for step in (membership.unregister_step(one), membership.announce_disabled(one))]


def _drop_unrecorded(engine: Engine, database: str) -> None:
    with engine.connect() as connection:
        left = list_unrecorded(connection)
    for member_id, source_id in left.items():

        def plan(connection: Connection, member_id: str = member_id, source_id: int = source_id) -> list[Executable]:
            return _leave(connection, read_source(connection, database), member_id, source_id)

        run_membership_change(Committing(engine), member_id, plan)


def _plan_add(
    connection: Connection,
    source: SourceDefinition,
    publication: str,
    table_name: str,
    request: ArticleRequest,
    if_exists: IfExists,
) -> RecordedChange:
    """Return a new article and the steps that publish it, in the log's order."""
    keep_publication(connection, publication)
    publication_id = publication_records.get_publication(connection, publication)
    begin_changing(connection, publication)
    table = find_table(connection, table_name)
    require_table_owner(connection, table)
    taken = publication_records.list_procedures(connection)
    article = define_article(table, publication, request, str(uuid.uuid4()), taken)
    if any(
        known.source_id == table.source_id for known in publication_records.list_articles(connection, publication_id)
    ):
        raise ArticleExists(table.qualified_name, publication)
    member = as_member(article)
    join = membership.join_steps(
        source,
        table,
        member,
        article.before_images,
        publishing=read_publishing(connection, source, table.source_id),
    )
    return RecordedChange(
        article,
        members=[
            *_forget_unrecorded(connection, table.source_id),
            *membership.lock_steps(table),
            *join,
            *publisher_log.refusal_steps(connection, table, article),
        ],
        records=[
            publication_records.add_article_step(publication_id, article),
            *_join_subscriptions(connection, publication, article, if_exists),
        ],
        announcing=[membership.announce_enabled(member)],
    )


def _join_subscriptions(
    connection: Connection, publication: str, article: Article, if_exists: IfExists
) -> list[Executable]:
    """Return the steps that let a new article join the publication's subscriptions."""
    known = [one for one in subscription_records.list_subscriptions(connection, publication) if one.joins is None]
    if known:
        definitions.require_writable(connection)
    return [step for one in known for step in joining.join_steps(one, article.article_id, if_exists)]


def find_child_tables(engine: Engine, table: str) -> tuple[str, ...]:
    """Return the qualified names of the tables that inherit from one, except partitions. Raises `TableNotFound`."""
    with translated(), engine.connect() as connection:
        return find_table(connection, table).child_tables


def drop_article(alterations: Alterations, database: str, publication: str, table: str) -> None:
    """Remove a table from a publication; subscribers keep their rows.

    Raises `ArticleUnknown`, `LockNotObtained`, `SubscriptionBeingAdded`.
    """

    def plan(connection: Connection) -> Sequence[Executable]:
        return _plan_drop(connection, read_source(connection, database), publication, table)

    run_membership_change(alterations, table, plan)


def _plan_drop(connection: Connection, source: SourceDefinition, publication: str, table_name: str) -> list[Executable]:
    try:
        article = publication_records.get_article(connection, publication, table_name)
    except ArticleUnknown:
        # An earlier command may have been killed between the two databases.
        left = list_unrecorded(connection)
        wanted = find_table_id(connection, table_name)
        member = next((member for member, source_id in left.items() if source_id == wanted), None)
        if member is None or wanted is None:
            raise
        return _leave(connection, source, member, wanted)
    recording = [
        *_leave_subscriptions(connection, publication, article),
        publication_records.drop_article_step(article.article_id),
    ]
    leaving = _leave(connection, source, article.article_id, article.source_id)
    if is_elsewhere(connection):
        for step in recording:
            distributor(connection).execute(step)
        return leaving
    return [*leaving[:-1], *recording, leaving[-1]]


def _leave(connection: Connection, source: SourceDefinition, member_id: str, source_id: int) -> list[Executable]:
    """Return the steps that end a member of the log; the last one announces it."""
    table = find_by_id(connection, source_id)
    steps = [
        *membership.lock_steps(table),
        membership.unregister_step(member_id),
        *partition_truncates.allow_steps(connection, member_id),
    ]
    if membership.count_members(connection, source_id) == 1:
        identities = membership.earlier_identities(connection, source_id)
        publishing = read_publishing(connection, source, source_id)
        # Others may have taken it out, or dropped the publication.
        leaving = table if publishing.with_others else None
        steps += membership.leave_steps(source, leaving, identities, source_id)
    return [*steps, membership.announce_disabled(member_id)]


def _leave_subscriptions(connection: Connection, publication: str, article: Article) -> list[Executable]:
    """Return the steps that take an article from the publication's subscriptions."""
    begin_changing(connection, publication)
    joining.lock_articles(connection, publication)
    known = {one.agent_id: one for one in subscription_records.list_subscriptions(connection, publication)}
    holders = [one for one in known.values() if article.article_id in one.starts]
    if holders:
        definitions.require_writable(connection)
    return [
        step
        for holder in holders
        for step in joining.detach_steps(
            known[holder.joins or holder.agent_id],
            holder,
            subscription_records.get_subscriber_article(connection, holder.agent_id, article.article_id),
        )
    ]
