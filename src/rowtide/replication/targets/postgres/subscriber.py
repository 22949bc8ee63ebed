"""A PostgreSQL subscriber: its identity, and its preparation for delivery and for articles that join or leave.

All of it is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import product

import psycopg
from psycopg import sql

from rowtide.core.failpoints import failpoint
from rowtide.databases.postgres.clock import INCARNATION
from rowtide.databases.postgres.errors import ConnectionFailed, translated
from rowtide.databases.postgres.functions import close_all
from rowtide.databases.postgres.quoting import quote_literal, quote_qualified
from rowtide.databases.postgres.typed_values import can_encode, find_codec, server_encoding
from rowtide.databases.urls import parse_url
from rowtide.log.catalogue import SCHEMA as LOG_SCHEMA
from rowtide.log.postgres.lease import describe_holder
from rowtide.replication.articles.articles import Article, encode_article
from rowtide.replication.conflicts import Resolver
from rowtide.replication.distribution.delivery_interface import JoiningArticle
from rowtide.replication.distributor.location import SCHEMA as DISTRIBUTION
from rowtide.replication.errors import subscribing as errors
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.subscription_settings import IfExists
from rowtide.replication.targets.postgres import delivery_marks, progress, restorations
from rowtide.replication.targets.postgres.calls import array_procedures, procedures
from rowtide.replication.targets.postgres.calls.custom_procedures import require_custom
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA, is_generated
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable
from rowtide.replication.targets.postgres.conflicts import former_values, released_values
from rowtide.replication.targets.postgres.conflicts.versions import require_commit_times
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.postgres.new_snapshot import make_tables, record_snapshot
from rowtide.replication.targets.postgres.recovery import recover, recover_unrecorded
from rowtide.replication.targets.postgres.restorations import Until
from rowtide.replication.targets.postgres.schema.needed_objects import provide
from rowtide.replication.targets.postgres.schema.own_cascades import require_none_acting, require_nothing_unsent
from rowtide.replication.targets.postgres.schema.own_objects import adapt
from rowtide.replication.targets.postgres.schema.tables import find_joining_keys
from rowtide.replication.targets.postgres.writing_rights import WrittenTables, open_written
from rowtide.replication.targets.subscriber_kind import (
    DatabaseIdentity,
    Delivered,
    NewSubscription,
    RecoveredTransaction,
)

_KINDS = (procedures, array_procedures)


def address(url: str) -> str:
    """Return the URL of a subscriber as it is stored: as given, a keyword string as a URL. Raises `PasswordGiven`."""
    parsed = parse_url(url)
    if parsed.has_secret:
        raise errors.PasswordGiven(str(parsed))
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
        # Not in the transaction below: `commit prepared` cannot run within one.
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
    delivery_marks.mark(connection, subscription.guid)
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
            former_values.make_triggers(connection, article)
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
        # Not in the transaction below: `commit prepared` cannot run within one.
        recover(connection, describe_holder(), guid)
        with connection.transaction():
            with translated():
                drop_procedures(connection, known)
            if progress.list_recorded(connection):
                progress.make_current(connection)
                for article in known:
                    former_values.drop_triggers(connection, guid, article)
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
                raise errors.NameNotHeld(server_encoding(connection), name, article.qualified_name)


def _require_columns(connection: psycopg.Connection, article: Article) -> None:
    with translated():
        rows = connection.execute(_COLUMNS, (quote_qualified(article.schema, article.table),)).fetchall()
    present = {row[0] for row in rows}
    missing = [column.name for column in article.columns if column.name not in present]
    if missing:
        raise errors.ArticleTableMissing(article.qualified_name, ", ".join(missing))


def _require_procedures(connection: psycopg.Connection, article: Article) -> None:
    for operation in procedures.OPERATIONS:
        if is_generated(article, operation):
            name = quote_qualified(procedures.SCHEMA, article.generated_procedure(operation))
            with translated():
                found = connection.execute("select to_regproc(%s)", (name,)).fetchone()
            if found is None or found[0] is None:
                raise errors.ProceduresMissing(name)


def _require_own_procedures(connection: psycopg.Connection, article: Article) -> None:
    for kind, operation in product(_KINDS, procedures.OPERATIONS):
        name = kind.name_of(article, operation)
        if _is_taken(connection, article, name):
            raise errors.ProcedureTaken(f"{procedures.SCHEMA}.{name}", article.qualified_name)


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


MOVED = "RT002"
"""The error that refuses a joining article whose agent has delivered more."""
CHECK_ALL = "set constraints all immediate"
"""Precedes what alters tables between calls: the server alters none with checks that wait."""
_NAME = "rowtide subscription"


def find_status(url: str, guid: str) -> SnapshotStatus | None:
    """Return how far the snapshot of a subscription is; None if the subscriber does not know it."""
    with connect(url, application_name=_NAME) as connection, translated():
        if not progress.is_made(connection):
            return None
        found = connection.execute(sql.SQL(_STATUS), [guid]).fetchone()
    return None if found is None else SnapshotStatus(found[0])


def has_joined(url: str, guid: str) -> bool:
    """Return whether the article of a joining subscription became one of its subscription's."""
    with connect(url, application_name=_NAME) as connection, translated():
        return progress.is_made(connection) and connection.execute(sql.SQL(_JOINED), [guid]).fetchone() is not None


def detach(url: str, guid: str, articles: Sequence[Article]) -> None:
    """Remove the procedures of articles that left a subscription, and what is to be done for a copy of them.

    Their rows stay. Idempotent.
    """
    with connect(url, application_name=_NAME) as connection:
        with connection.transaction(), translated():
            is_made = progress.is_made(connection)
            if is_made:
                progress.make_current(connection)
            drop_procedures(connection, articles)
            for article in articles if is_made else ():
                restorations.keep(connection, guid, article.article_id)
                for forgetting in _FORGET_ARTICLE:
                    connection.execute(sql.SQL(forgetting), [guid, article.article_id])
                name = quote_qualified(article.schema, article.table)
                connection.execute(sql.SQL(_FORGET_STATEMENTS), [guid, f" {name} "])
            failpoint("article_detachment.before")
        failpoint("article_detachment.after")


def is_used(url: str, article: Article) -> bool:
    """See `SubscriberKind`. Foreign keys count not: they are released."""
    name = quote_qualified(article.schema, article.table)
    with connect(url, application_name="rowtide subscription") as connection, translated():
        return connection.execute(_IS_USED, {"table": name}).fetchone() == (True,)


def attach(joining: JoiningArticle, guid: str) -> Iterator[str]:
    """Yield the statements that make a joining article one of a subscription's, with its foreign keys. Pure."""
    article = joining.article
    yield restorations.take_over(guid, joining.guid)
    yield f"do {quote_literal(_END.format(quote_literal(joining.guid), joining.since.value))}"
    values = (guid, article.article_id, encode_article(article), joining.guid)
    yield progress.RECORD_JOINED.format(*map(quote_literal, values))
    yield delivery_marks.attach(guid, joining.guid)
    yield restorations.restore_joined(guid, article.article_id)
    if joining.details is not None:
        for referring, key, statement in find_joining_keys((article, joining.details), joining.others):
            yield f"do {quote_literal(_unless_there(referring, key.name, statement))}"


def _unless_there(article: Article, name: str, statement: str) -> str:
    table = quote_literal(quote_qualified(article.schema, article.table))
    return _UNLESS.format(table=table, name=quote_literal(name), statement=statement)


_IS_USED = """
select exists (
    select from pg_class c join pg_type t on t.oid = c.reltype
    join pg_depend d on d.deptype = 'n' and (
        d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
        or d.refclassid = 'pg_type'::regclass and d.refobjid in (t.oid, t.typarray))
    where c.oid = to_regclass(%(table)s) and d.classid <> 'pg_constraint'::regclass
        and not (d.classid = 'pg_class'::regclass and d.objid = c.oid)
        and not exists (
            select from pg_rewrite r
            where d.classid = 'pg_rewrite'::regclass and r.oid = d.objid and r.ev_class = c.oid)
        and not exists (
            select from pg_policy p where d.classid = 'pg_policy'::regclass and p.oid = d.objid and p.polrelid = c.oid))
"""
_SUBSCRIPTIONS = f'{SCHEMA}."MSreplication_subscriptions"'
_ARTICLES = f'{SCHEMA}."MSreplication_articles"'

_STATUS = f"select snapshot_status from {_SUBSCRIPTIONS} where subscription_guid = %s"
_JOINED = f"select from {_ARTICLES} where joined_as = %s"
_FORGET_ARTICLE = tuple(
    f"delete from {table} where subscription_guid = %s and article_id = %s"
    for table in (_ARTICLES, f'{SCHEMA}."MSsnapshot_chunks"')
)
_FORGET_STATEMENTS = f"""
delete from {SCHEMA}."MSsnapshot_statements" where subscription_guid = %s and strpos(statement, %s) > 0
"""
_END = f"""
begin
    delete from {_SUBSCRIPTIONS} where subscription_guid = {{}} and transaction_timestamp = {{}};
    if not found then
        raise exception using errcode = '{MOVED}', message = 'the joining article has another position';
    end if;
end
"""
_UNLESS = """
begin
    if not exists (select from pg_constraint where conrelid = {table}::regclass and conname = {name}) then
        {statement};
    end if;
end
"""


def identify(url: str) -> DatabaseIdentity:
    """Connect, and return the database's identity. Raises `ConnectionFailed`."""
    with connect(url, application_name="rowtide subscription") as connection:
        return read_identity(connection)


def read_identity(connection: psycopg.Connection) -> DatabaseIdentity:
    """Return the identity of a connection's database.

    What it delivers is omitted if the role may not read it.
    """
    with translated():
        (database,) = connection.execute(sql.SQL(f"select {INCARNATION}")).fetchall()[0]
        delivers = _read_delivers(connection)
    receives = delivery_marks.read_received(connection, progress.list_recorded(connection))
    return DatabaseIdentity(database, receives, delivers)


def _read_delivers(connection: psycopg.Connection) -> dict[str, Delivered]:
    """Return what a database delivers, from its distribution database; nothing if that cannot be reached."""
    if not _is_readable(connection, LOG_SCHEMA, "distributor"):
        return _read_subscriptions(connection, DISTRIBUTION)
    place = connection.execute(sql.SQL(f"select url, schema_name from {LOG_SCHEMA}.distributor")).fetchone()
    if place is None:
        return _read_subscriptions(connection, DISTRIBUTION)
    url, schema = place
    try:
        with connect(url, application_name="rowtide subscription") as other:
            return _read_subscriptions(other, schema)
    except ConnectionFailed:
        return {}


def _read_subscriptions(connection: psycopg.Connection, schema: str) -> dict[str, Delivered]:
    tables = ("MSdistribution_agents", "MSsubscriptions", "MSarticles")
    if not all(_is_readable(connection, schema, table) for table in tables):
        return {}
    rows = connection.execute(sql.SQL(_DELIVERS).format(schema=sql.Identifier(schema))).fetchall()
    return {
        guid: Delivered(subscriber, frozenset(tables), forwards=forwards, conflicts=conflicts)
        for guid, subscriber, forwards, conflicts, tables in rows
    }


def _is_readable(connection: psycopg.Connection, schema: str, table: str) -> bool:
    return connection.execute(_READABLE, (schema, table)).fetchone() is not None


_READABLE = """
select from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
      and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
"""

_DELIVERS = """
select g.subscription_guid, g.subscriber, coalesce((to_jsonb(g) ->> 'forwards')::boolean, true),
       (to_jsonb(g) ->> 'settings')::jsonb ->> 'conflicts', array_agg(a.source_owner || '.' || a.source_object)
from {schema}."MSdistribution_agents" g
join {schema}."MSsubscriptions" s on s.agent_id = g.id
join {schema}."MSarticles" a on a.article_id = s.article_id
group by 1, 2, 3, 4
"""
