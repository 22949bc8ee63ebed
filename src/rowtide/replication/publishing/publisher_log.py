"""The log of a database without capture: created with the first publication, restarted after a gap.

Articles stay. A subscription cannot continue across the gap; `reinitialize` copies its tables again.

When a moved database is adopted, articles are bound to their tables' new oids, and announced again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, Engine, Executable

from rowtide.core.lsn import Position, format_log_position
from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations
from rowtide.databases.postgres.catalogue import find_by_id, read_server_identity
from rowtide.databases.postgres.errors import translated
from rowtide.databases.source_table import SourceTable
from rowtide.databases.urls import name_of
from rowtide.log.catalogue import find_source, list_features
from rowtide.log.postgres import log_restart, membership, partition_truncates, provision, slot
from rowtide.log.postgres.lease import AdvisoryLease
from rowtide.log.postgres.membership import run_membership_change
from rowtide.log.postgres.provenance import verify_provenance
from rowtide.log.postgres.provision import OpenedSource, StoragePlaces, absolute
from rowtide.log.postgres.rebinding import NOWHERE, Rebound
from rowtide.log.postgres.table_publications import read_publishing
from rowtide.log.source_definition import SourceDefinition
from rowtide.log.store import maintenance
from rowtide.log.store.location import find_own_manifest, require_timeline
from rowtide.log.store.manifest import Manifest
from rowtide.replication.articles.articles import FEATURE, Article, as_member
from rowtide.replication.articles.call_formats import CallFormat
from rowtide.replication.distributor import publication_records, subscription_records
from rowtide.replication.distributor.location import distributor, is_elsewhere
from rowtide.replication.distributor.publisher import read_source
from rowtide.replication.errors.publishing import CaptureReadsLog, LogStoreElsewhere, NothingReadsLog
from rowtide.storage.places import absolute_lake


def ensure_source(
    engine: Engine,
    database: str,
    lake: str | None,
    log_store: str | None,
    on_wait: Callable[[str], None],
    *,
    for_group: bool = False,
) -> OpenedSource:
    """Create a source if there is none; the caller holds its lease.

    Raises `NothingReadsLog` if no directory is given, `LogStoreElsewhere` if the source has another one.
    """

    def choose_place() -> StoragePlaces:
        # Capture, if it is enabled later, says where its lake is.
        folder = lake if lake is not None else log_store
        if folder is None:
            raise NothingReadsLog(name_of(database))
        # Only here: they read Delta tables, which a run does not.
        from rowtide.lake.stores import prepare_lake, require_not_nested

        require_not_nested(folder, log_store)
        return StoragePlaces(prepare_lake(folder, for_group=for_group), log_store, for_group)

    with engine.connect() as connection:
        found = find_source(connection)
    if found is not None:
        _require_place(database, found, lake, log_store)
    return provision.ensure_source(engine, FEATURE, choose_place, on_wait)


def find_own_source(connection: Connection) -> SourceDefinition | None:
    """Return the source if only publications need it."""
    source = find_source(connection)
    return source if source is not None and list_features(connection) <= {FEATURE} else None


def advance_placeholder(engine: Engine, manifest: Manifest) -> None:
    """Advance the placeholder reader, so that the log store can remove what no subscription needs.

    Raises `LeaseHeld` if another process is creating or removing the source.
    """
    if maintenance.is_placeholder_behind(manifest):
        with provision.take_source(engine, patience_s=0):
            maintenance.advance_placeholder(manifest)


def _require_place(database: str, source: SourceDefinition, lake: str | None, log_store: str | None) -> None:
    """Raise `LogStoreElsewhere` unless the given directory is the recorded lake's, or its log store."""
    if log_store is not None:
        wanted = absolute(log_store)
    elif lake is None or absolute_lake(lake) == source.lake:
        return
    else:
        wanted = StoragePlaces(absolute_lake(lake), None).log_store_place
    if wanted != source.log_store:
        raise LogStoreElsewhere(name_of(database), source.log_store, wanted)


def refusal_steps(connection: Connection, table: SourceTable, article: Article) -> list[Executable]:
    """Refuse such truncates where the article delivers deletes, allow them where it does not; the table is locked."""
    allowing = partition_truncates.allow_steps(connection, article.article_id)
    if article.command(Operation.DELETE).call_format is CallFormat.NONE:
        return allowing
    way_out = f"drop article {article.qualified_name} of publication {article.publication}"
    return [*allowing, *partition_truncates.refuse_steps(table, article.article_id, way_out)]


@frozen
class DeliveryLoss:
    """What restarting the log loses: everything after `after`, for these subscriptions.

    `after` is None if the log store has no manifest: then it is all that was not delivered. `known_epoch` is the last
    epoch of the log that a subscription knows.
    """

    after: Position | None
    server: str
    subscribers: tuple[str, ...]
    known_epoch: int = 0

    def __str__(self) -> str:
        names = ", ".join(self.subscribers) or "no subscriber"
        if self.after is None:
            lost = f"the log store is lost: what is not delivered yet, and was committed before now ({self.server}), is"
        else:
            lost = f"changes that committed after {self.after} and before now ({self.server}) are"
        return f"{lost} not delivered to {names}: each has to be reinitialized"


def find_loss(engine: Engine, database: str) -> DeliveryLoss:
    """Return what `restart_log` would lose. Raises `DatabaseNotPublished`, `CaptureReadsLog`."""
    with translated(), engine.connect() as connection:
        source = _own_source(connection, database)
        manifest = find_own_manifest(source)
        if manifest is not None:
            require_timeline(manifest.state.source, read_server_identity(connection).timeline)
            verify_provenance(connection, manifest)
        subscriptions = subscription_records.list_subscriptions(connection)
        subscribers = dict.fromkeys(found.subscriber for found in subscriptions)
        epochs = [start.epoch for found in subscriptions for start in found.starts.values()]
        end = format_log_position(slot.read_log_end(connection))
        after = None if manifest is None else manifest.state.position
        return DeliveryLoss(after, end, tuple(subscribers), max(epochs, default=0))


def restart_log(engine: Engine, database: str, reason: str, on_wait: Callable[[str], None]) -> DeliveryLoss:
    """Create a new publication and slot, announce all articles again, and start the log's next epoch.

    The server waits for open transactions: `on_wait` is called with them. Raises as `find_loss`, and `LeaseHeld` while
    a process reads the log.
    """
    loss = find_loss(engine, database)
    with AdvisoryLease.take(engine, "log"):
        with translated(), engine.connect() as connection:
            source = _own_source(connection, database)
        # The next epoch is above each that a subscription knows, also where the log store is lost and does not say
        # which it had.
        log_restart.restart_log(engine, source, announce_articles, reason, on_wait, known_epoch=loss.known_epoch)
    return loss


def _own_source(connection: Connection, database: str) -> SourceDefinition:
    source = read_source(connection, database)
    if list_features(connection) - {FEATURE}:
        raise CaptureReadsLog
    return source


def announce_articles(alterations: Alterations, source: SourceDefinition) -> None:
    """Announce all articles in a new log, each in its own transaction."""
    for article in alterations.transact(list_all_articles):
        _announce_again(alterations, source, article)


def list_all_articles(connection: Connection) -> list[Article]:
    """Return the articles of all publications."""
    names = publication_records.list_publications(connection)
    ids = [publication_records.get_publication(connection, name) for name in names]
    return [article for found in ids for article in publication_records.list_articles(connection, found)]


def _announce_again(alterations: Alterations, source: SourceDefinition, article: Article) -> None:
    def plan(connection: Connection) -> Sequence[Executable]:
        return _plan_announcement(connection, source, article)

    run_membership_change(alterations, article.qualified_name, plan)


def _plan_announcement(connection: Connection, source: SourceDefinition, article: Article) -> list[Executable]:
    """Return the steps that announce an article. An article whose table was dropped is recorded without a member."""
    table, member = find_by_id(connection, article.source_id), as_member(article)
    steps = [*membership.lock_steps(table), membership.unregister_step(member.member_id)]
    if table is None:
        return steps
    publishing = read_publishing(connection, source, table.source_id)
    join = membership.join_steps(source, table, member, article.before_images, publishing=publishing)
    refusing = refusal_steps(connection, table, article)
    return [*steps, *join, *refusing, membership.announce_enabled(member)]


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
        subscription_records.record_article_step(agent_id, _rebind(article, members[article.article_id]))
        for agent_id, article in subscription_records.list_earlier_articles(connection)
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
