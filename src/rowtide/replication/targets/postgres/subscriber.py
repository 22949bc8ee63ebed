"""Prepare a PostgreSQL subscriber for delivery. Idempotent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import product

import psycopg
from psycopg import sql

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.encodings import can_encode, find_codec, server_encoding
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import close_all
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.databases.urls import parse_url
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles.articles import Article
from rowtide.replication.conflicts import Resolver
from rowtide.replication.errors.subscribers import ArticleTableMissing, NameNotHeld, ProceduresMissing, ProcedureTaken
from rowtide.replication.errors.subscribing import PasswordGiven
from rowtide.replication.sync_types import IfExists
from rowtide.replication.targets.postgres import origins, progress, restorations
from rowtide.replication.targets.postgres.calls import array_procedures, procedures
from rowtide.replication.targets.postgres.calls.procedures import is_generated
from rowtide.replication.targets.postgres.calls.statements import require_custom
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable
from rowtide.replication.targets.postgres.conflicts import deleted_keys, released_values
from rowtide.replication.targets.postgres.conflicts.versions import require_commit_times
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.new_snapshot import make_tables, record_snapshot
from rowtide.replication.targets.postgres.recovery import recover, recover_unrecorded
from rowtide.replication.targets.postgres.restorations import Until
from rowtide.replication.targets.postgres.schema.needed_objects import provide
from rowtide.replication.targets.postgres.schema.own_constraints import require_none_acting, require_nothing_unsent
from rowtide.replication.targets.postgres.schema.own_objects import adapt
from rowtide.replication.targets.postgres.written_tables import WrittenTables, open_written
from rowtide.replication.targets.subscriber_kind import NewSubscription, RecoveredTransaction

_KINDS = (procedures, array_procedures)


def address(url: str) -> str:
    """Return the URL of a subscriber as it is stored: as given, a keyword string as a URL. Raises `PasswordGiven`."""
    parsed = parse_url(url)
    if parsed.has_secret:
        raise PasswordGiven(str(parsed))
    return url if url.startswith(parsed.kind) else str(parsed)


def prepare(url: str, subscription: NewSubscription) -> Sequence[str]:
    """Create delivery's objects at a subscriber, and its tables for a snapshot, in one transaction.

    Returns the unique constraints that its tables do not get: none. Raises `ArticleTableMissing`,
    `SubscriberTableExists`, `SubscriberLacks`, `SubscriberTablesUnfit`, `SubscriberTableBusy`, `CopyRefused`,
    `ProcedureUnfit`, `ProcedureEndsTransaction`, `ProcedureTaken`, `ProceduresMissing`, `ConstraintsFound`,
    `TriggersUnsent`, `ReplicationRoleRefused`, `NameNotHeld`, `CommitTimesNotKept`, `TableOwnerNotHeld`,
    `OwnerTriggersDeferred`, `SchemaOfOthers`.
    """
    opened = connect(url, application_name="rowtide subscription", constraints=subscription.constraints)
    with opened as connection:
        if subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME:
            require_commit_times(connection, url)
        recover_unrecorded(connection)
        with connection.transaction():
            _require_names(connection, subscription.articles)
            _record(connection, subscription)
            written = open_written(connection, url, subscription.articles, subscription.settings.run_as)
            _make(connection, subscription, url, written)
            written.pin()
            written.end(connection)
            failpoint("subscriber_preparation.before")
        failpoint("subscriber_preparation.after")
    return ()


def _record(connection: psycopg.Connection, subscription: NewSubscription) -> None:
    """Record a subscription, and mark the transaction, in which a snapshot's tables may be emptied."""
    progress.make_current(connection)
    progress.record(
        connection,
        subscription.guid,
        subscription.publication,
        subscription.publisher_system,
        subscription.position,
        subscription.originators,
    )
    # A backup of now says what the subscriber has, however the tables are altered later.
    progress.record_articles(connection, subscription.guid, subscription.articles)
    origins.mark(connection, subscription.guid)
    restorations.adopt(connection, subscription.guid, [article.article_id for article in subscription.articles])


def _make(connection: psycopg.Connection, subscription: NewSubscription, url: str, written: WrittenTables) -> None:
    snapshot, articles, guid = subscription.snapshot, subscription.articles, subscription.guid
    creates_all = snapshot is not None and snapshot.if_exists in (IfExists.DROP, IfExists.FAIL)
    if creates_all:
        restorations.discard(connection, guid)
    else:
        if subscription.constraints is None:
            require_none_acting(connection, articles)
        require_nothing_unsent(connection, url, articles, subscription.constraints)
    if snapshot is None:
        provide(connection, () if subscription.has_procedures else subscription.needs)
        restorations.restore(connection, guid, Until.COPIED)
    else:
        made = make_tables(connection, subscription, snapshot, url, written)
        written.read(articles)
        joins = subscription.beside is not None
        restorations.record(
            connection, guid, restorations.until_joined(made.restorations) if joins else made.restorations
        )
        record_snapshot(connection, guid, snapshot, made)
        progress.record_articles(connection, guid, made.altered)
    detects = subscription.settings.detects_conflicts
    for article in articles:
        _require_columns(connection, article)
        if not detects:
            require_custom(connection, article)
            if not subscription.has_procedures:
                _require_own_procedures(connection, article)
            elif not written.of(article).is_others:
                _require_procedures(connection, article)
    if not subscription.has_procedures:
        restorations.record(connection, guid, adapt(connection, articles, subscription.constraints, url))
        with translated():
            for statement in () if detects else (*_creations(articles, written.of), close_all(procedures.SCHEMA)):
                connection.execute(sql.SQL(statement))
    if subscription.settings.conflicts is Resolver.LAST_COMMIT_TIME:
        for article in articles:
            deleted_keys.make_triggers(connection, article)
            released_values.make_trigger(connection, article)


def creations(articles: Iterable[Article]) -> Sequence[str]:
    """Return the statements that create delivery's objects; `script-procedures` prints them."""
    return [*progress.CREATIONS, *_creations(articles, lambda _: WrittenTable())]


def _creations(articles: Iterable[Article], written: Callable[[Article], WrittenTable]) -> Iterator[str]:
    """Yield the statements that create the articles' procedures."""
    for article, operation, kind in product(articles, procedures.OPERATIONS, _KINDS):
        yield from kind.creations(article, operation, written(article))


def forget(url: str, guid: str, articles: Iterable[Article], *, is_added_again: bool) -> None:
    """Remove a subscription's progress and procedures from a subscriber; its rows stay. Idempotent.

    A batch that an agent left prepared is completed or rolled back first. What was switched off or altered in its
    tables is restored; in the middle of a copy that `is_added_again`, it stays recorded for that. Raises
    `RestorationRefused`.
    """
    known = tuple(articles)
    with connect(url, application_name="rowtide subscription") as connection:
        recover(connection, describe_holder(), guid)
        with connection.transaction():
            with translated():
                drop_procedures(connection, known)
            if progress.list_recorded(connection):
                progress.make_current(connection)
                for article in known:
                    deleted_keys.drop_triggers(connection, guid, article)
            if _is_made(connection) and not (is_added_again and progress.is_unfinished(connection, guid)):
                for until in Until:
                    restorations.restore(connection, guid, until)
                progress.forget(connection, guid)
            failpoint("subscriber_removal.before")
        failpoint("subscriber_removal.after")


def _is_made(connection: psycopg.Connection) -> bool:
    with translated():
        return progress.is_made(connection)


def forget_copied(url: str, subscribed: Collection[str]) -> None:
    """Remove the records of subscriptions that a copied database has of its original; those in `subscribed` stay."""
    with connect(url, application_name="rowtide subscription") as connection, connection.transaction():
        for guid in progress.list_recorded(connection) - set(subscribed):
            progress.forget(connection, guid)


def drop_procedures(connection: psycopg.Connection, articles: Iterable[Article]) -> None:
    """Drop the generated procedures of articles, in the caller's transaction.

    Delivery that looks for conflicts has none, and another subscription may have one of the same name.
    """
    for article, operation, kind in product(articles, procedures.OPERATIONS, _KINDS):
        if not _is_taken(connection, article, kind.name_of(article, operation)):
            name = sql.Identifier(procedures.SCHEMA, kind.name_of(article, operation))
            connection.execute(sql.SQL("drop procedure if exists {}").format(name))


def recover_left(url: str) -> Sequence[RecoveredTransaction]:
    """Commit or roll back what agents left prepared at a subscriber; return that."""
    with connect(url, application_name="rowtide recovery") as connection:
        settled = recover(connection, describe_holder())
    return [RecoveredTransaction(str(one.name), "committed" if one.is_committed else "rolled back") for one in settled]


def _require_names(connection: psycopg.Connection, articles: Iterable[Article]) -> None:
    codec = find_codec(connection)
    for article in articles:
        for name in (article.schema, article.table, *(column.name for column in article.columns)):
            if not can_encode(codec, name):
                raise NameNotHeld(server_encoding(connection), name, article.qualified_name)


def _require_columns(connection: psycopg.Connection, article: Article) -> None:
    with translated():
        rows = connection.execute(_COLUMNS, (quote_qualified(article.schema, article.table),)).fetchall()
    present = {row[0] for row in rows}
    missing = [column.name for column in article.columns if column.name not in present]
    if missing:
        raise ArticleTableMissing(article.qualified_name, ", ".join(missing))


def _require_procedures(connection: psycopg.Connection, article: Article) -> None:
    for operation in procedures.OPERATIONS:
        if is_generated(article, operation):
            name = quote_qualified(procedures.SCHEMA, article.generated_procedure(operation))
            with translated():
                found = connection.execute("select to_regproc(%s)", (name,)).fetchone()
            if found is None or found[0] is None:
                raise ProceduresMissing(name)


def _require_own_procedures(connection: psycopg.Connection, article: Article) -> None:
    for kind, operation in product(_KINDS, procedures.OPERATIONS):
        name = kind.name_of(article, operation)
        if _is_taken(connection, article, name):
            raise ProcedureTaken(f"{procedures.SCHEMA}.{name}", article.qualified_name)


def _is_taken(connection: psycopg.Connection, article: Article, name: str) -> bool:
    """Whether a procedure of this name is not the article's."""
    with translated():
        return connection.execute(_TAKEN, (procedures.SCHEMA, name, procedures.mark(article))).fetchone() is not None


_TAKEN = """
select 1 from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = %s and p.proname = %s and obj_description(p.oid, 'pg_proc') is distinct from %s
"""

_COLUMNS = """
select attname::text from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped
"""
