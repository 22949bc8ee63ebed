"""Progress of a PostgreSQL subscriber, written in the transactions that deliver changes, so that none is applied twice.

(SQL Server: MSreplication_subscriptions.) Each agent increments the epoch when it starts (`recovery`). A batch first
locks the progress row, and is refused unless epoch and position are those that its agent knows. The names of a batch's
prepared transactions, one for each stream, say which batch they belong to.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import psycopg
from psycopg import errors, sql

from rowtide.core.failpoints import failpoint
from rowtide.core.formats import Requirement, StoredFormat, StoreFormat, parse_definition, require
from rowtide.core.lsn import Position
from rowtide.core.values import frozen
from rowtide.databases.postgres.advisory_locks import SUBSCRIBER_TABLES
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.functions import (
    close_all,
    format_creation,
    guard_schema,
    own_schema,
    recorded_definition,
)
from rowtide.databases.postgres.quoting import quote_literal, quote_qualified
from rowtide.replication.articles.articles import Article, OmittedColumn, decode_article, encode_article
from rowtide.replication.articles.schema_changes import COLUMN_LACKING
from rowtide.replication.distribution.delivery_interface import DeliveryProgress
from rowtide.replication.errors.subscribing import SubscriberUnprepared
from rowtide.replication.snapshot.target import SnapshotStatus
from rowtide.replication.targets.postgres import delivery_marks, restorations
from rowtide.replication.targets.postgres.calls.procedures import OWN_SETTINGS, RAISE_ERROR, REQUIRE_ROWS, SCHEMA
from rowtide.replication.targets.postgres.conflicts import former_values, released_values, versions
from rowtide.replication.targets.subscriber_kind import Originators

_TABLE = sql.Identifier(SCHEMA, "MSreplication_subscriptions")

FORMAT = StoreFormat("subscriber's metadata in the database")
FENCED = "RT001"
"""SQLSTATE that refuses a batch after another agent has taken over: in a class that PostgreSQL does not use."""

_OBJECTS = (
    *own_schema(SCHEMA),
    f"""
create table if not exists {SCHEMA}."MSreplication_subscriptions" (
    subscription_guid text primary key, publication text not null, publisher_system text not null,
    transaction_timestamp bigint not null, batch bigint not null default 0, epoch bigint not null default 0, agent text,
    "time" timestamptz not null default now(),
    snapshot_status text not null default 'delivered', snapshot_end bigint,
    streams int not null default 1, decided text)
""",
    format_creation(SCHEMA, FORMAT),
    f"""
create table if not exists {SCHEMA}."MSsnapshot_chunks" (
    subscription_guid text references {SCHEMA}."MSreplication_subscriptions" on delete cascade,
    article_id text, chunk int, low text[], high text[],
    transaction_snapshot text, generation bigint,
    primary key (subscription_guid, article_id, chunk))
""",
    f"""
create table if not exists {SCHEMA}."MSsnapshot_statements" (
    subscription_guid text references {SCHEMA}."MSreplication_subscriptions" on delete cascade,
    place int, statement text not null, article_id text,
    primary key (subscription_guid, place))
""",
    f"""
create table if not exists {SCHEMA}."MSreplication_articles" (
    subscription_guid text references {SCHEMA}."MSreplication_subscriptions" on delete cascade,
    article_id text, definition text not null, joined_as text,
    primary key (subscription_guid, article_id))
""",
    f"""
create table if not exists {SCHEMA}."MSrepairs" (
    subscription_guid text references {SCHEMA}."MSreplication_subscriptions" on delete cascade,
    repair_id text, ordinal int, record text not null,
    primary key (subscription_guid, repair_id, ordinal))
""",
    *delivery_marks.OBJECTS,
    restorations.CREATION,
    *versions.OBJECTS,
    *former_values.DELETED_OBJECTS,
    *released_values.RELEASED_OBJECTS,
    RAISE_ERROR,
    REQUIRE_ROWS,
    f"""
create or replace procedure {SCHEMA}."sp_MSbeginbatch"(guid text, agent_epoch bigint, known bigint)
language plpgsql {OWN_SETTINGS} as $body$
begin
    perform from {SCHEMA}."MSreplication_subscriptions" s
    where s.subscription_guid = guid and s.epoch = agent_epoch and s.transaction_timestamp = known for no key update;
    if not found then
        raise exception using errcode = '{FENCED}', message = coalesce((
            select format('epoch %s, position %s, agent %s', s.epoch, s.transaction_timestamp, s.agent)
            from {SCHEMA}."MSreplication_subscriptions" s where s.subscription_guid = guid), 'no such subscription');
    end if;
    call {SCHEMA}."sp_MSmarkorigin"(guid);
end
$body$
""",
    f"""
create or replace procedure {SCHEMA}."sp_MSbeginstream"(guid text, agent_epoch bigint, known bigint)
language plpgsql {OWN_SETTINGS} as $body$
begin
    -- Beside the stream that holds the row; an agent that takes over waits for both.
    perform from {SCHEMA}."MSreplication_subscriptions" s
    where s.subscription_guid = guid and s.epoch = agent_epoch and s.transaction_timestamp = known for key share;
    if not found then
        raise exception using errcode = '{FENCED}', message = 'another epoch or position';
    end if;
    call {SCHEMA}."sp_MSmarkorigin"(guid);
end
$body$
""",
    f"""
create or replace procedure {SCHEMA}."sp_MSendbatch"(guid text, reached bigint) language sql {OWN_SETTINGS}
begin atomic
    update {SCHEMA}."MSreplication_subscriptions" s
    set transaction_timestamp = reached, batch = batch + 1, "time" = clock_timestamp()
    where s.subscription_guid = guid;
end
""",
)
_VERSION = f"rowtide {sha256(''.join((*_OBJECTS, close_all(SCHEMA))).encode()).hexdigest()[:16]}"
"""What distinguishes the objects of this build from those of others."""

CREATIONS = (*_OBJECTS, f"comment on schema {SCHEMA} is '{_VERSION}'")
"""The statements that create delivery's objects at a subscriber, or give it this build's procedures. Idempotent."""

RECORD_ARTICLE = f"""
insert into {SCHEMA}."MSreplication_articles" values ({{}}, {{}}, {{}})
on conflict (subscription_guid, article_id) do update set definition = excluded.definition
"""

RECORD_JOINED = f"""
insert into {SCHEMA}."MSreplication_articles" (subscription_guid, article_id, definition, joined_as)
values ({{}}, {{}}, {{}}, {{}})
on conflict (subscription_guid, article_id)
do update set definition = excluded.definition, joined_as = excluded.joined_as
"""

BEGIN_BATCH = f'call {SCHEMA}."sp_MSbeginbatch"($1, $2, $3)'
BEGIN_STREAM = f'call {SCHEMA}."sp_MSbeginstream"($1, $2, $3)'
END_BATCH = f'call {SCHEMA}."sp_MSendbatch"($1, $2)'


DECIDE_BATCH = f"""
update {SCHEMA}."MSreplication_subscriptions"
set transaction_timestamp = $2, batch = batch + 1, "time" = clock_timestamp(), decided = $3
where subscription_guid = $1
"""
"""As `END_BATCH`, of a batch in streams: its commit decides that the batch's other streams are committed too."""


@frozen
class _FoundObjects:
    """What a database has of delivery's objects; `version` distinguishes the build whose procedures it has."""

    is_made: bool
    version: str | None
    stored: StoredFormat | None

    @property
    def is_current(self) -> bool:
        return self.version == _VERSION

    @property
    def is_only_removed(self) -> bool:
        """Whether it was made before formats had numbers: such objects can only be removed."""
        return self.is_made and self.stored is None


def _look(connection: psycopg.Connection, requirement: Requirement) -> _FoundObjects:
    """Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` as a requirement of the format does."""
    row = connection.execute(_STATE).fetchone()
    assert row is not None
    is_made, version, place, definition = row
    found = _FoundObjects(bool(is_made), version, parse_definition(definition))
    if found.is_made:
        require(requirement, FORMAT, place, found.stored)
    return found


def is_current(connection: psycopg.Connection) -> bool:
    """Return whether the database has delivery's objects, as this build makes them.

    Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` unless this build may write to them.
    """
    with translated():
        return _look(connection, StoreFormat.require_writable).is_current


def make_current(connection: psycopg.Connection) -> None:
    """Create delivery's objects, or replace the procedures of another build; nothing if they are of this one.

    In one transaction, which excludes others that do the same. Raises `RightMissing`, `SchemaOfOthers`, and as
    `is_current`.
    """
    with translated():
        # First: a schema of this name that another role made could have its functions run with the rights of this one.
        connection.execute(guard_schema(SCHEMA).encode())
        found = _look(connection, StoreFormat.require_writable)
    if found.is_current or found.is_only_removed:
        return
    with translated(), connection.transaction():
        connection.execute(f"select pg_advisory_xact_lock({SUBSCRIBER_TABLES})")
        # Looked at again under the lock: another agent that started at the same time has made them.
        if not is_current(connection):
            for statement in (*CREATIONS, close_all(SCHEMA)):
                connection.execute(sql.SQL(statement))


def record(
    connection: psycopg.Connection,
    guid: str,
    publication: str,
    system: str,
    position: Position,
    originators: Originators,
) -> None:
    """Record a new subscription with its starting position and where its changes come from. Idempotent."""
    statement = sql.SQL(
        "insert into {} (subscription_guid, publication, publisher_system, transaction_timestamp) "
        "values (%s, %s, %s, %s) on conflict do nothing"
    ).format(_TABLE)
    with translated():
        connection.execute(statement, (guid, publication, system, position.value))
    delivery_marks.record(connection, guid, originators)


def list_recorded(connection: psycopg.Connection) -> frozenset[str]:
    """Return the guids of the recorded subscriptions."""
    with translated():
        if not is_made(connection):
            return frozenset()
        return frozenset(
            guid for (guid,) in connection.execute(sql.SQL("select subscription_guid from {}").format(_TABLE))
        )


def is_unfinished(connection: psycopg.Connection, guid: str) -> bool:
    """Return whether a subscription's snapshot is not delivered yet."""
    query = "select from {} where subscription_guid = %s and snapshot_status <> %s"
    with translated():
        if not is_made(connection):
            return False
        found = connection.execute(sql.SQL(query).format(_TABLE), (guid, SnapshotStatus.DELIVERED)).fetchone()
    return found is not None


def read(
    connection: psycopg.Connection, guid: str, *, for_update: bool = False
) -> tuple[DeliveryProgress, SnapshotStatus]:
    """Return a subscription's progress and that of its snapshot; `for_update`: no batch begins until the transaction
    ends. Raises `SubscriberUnprepared`.
    """
    statement = sql.SQL(
        "select transaction_timestamp, batch, epoch, snapshot_status from {} where subscription_guid = %s{}"
    ).format(_TABLE, sql.SQL(" for update" if for_update else ""))
    with translated():
        row = connection.execute(statement, (guid,)).fetchone() if is_made(connection) else None
    if row is None:
        raise SubscriberUnprepared(guid)
    return DeliveryProgress(Position(row[0]), int(row[1]), int(row[2])), SnapshotStatus(row[3])


def record_articles(connection: psycopg.Connection, guid: str, articles: Sequence[Article]) -> None:
    """Record articles as the subscriber has them, in the caller's transaction."""
    statement = RECORD_ARTICLE.format("%s", "%s", "%s")
    with translated():
        for article in articles:
            connection.execute(sql.SQL(statement), (guid, article.article_id, encode_article(article)))


def has_streams(connection: psycopg.Connection, guid: str) -> bool:
    """Return whether a subscription has ever had a batch in several streams."""
    statement = sql.SQL("select 1 from {} where subscription_guid = %s and decided is not null").format(_TABLE)
    with translated():
        return is_made(connection) and connection.execute(statement, (guid,)).fetchone() is not None


def read_articles(connection: psycopg.Connection, guid: str, articles: Sequence[Article]) -> tuple[Article, ...]:
    """Return articles as the subscriber has them, after the schema changes that it has applied."""
    with translated():
        statement = f'select article_id, definition from {SCHEMA}."MSreplication_articles" where subscription_guid = %s'
        rows = connection.execute(sql.SQL(statement), (guid,)).fetchall()
    altered = {article_id: decode_article(definition) for article_id, definition in rows}
    return tuple(_without_lacking(connection, altered.get(article.article_id, article)) for article in articles)


def _without_lacking(connection: psycopg.Connection, article: Article) -> Article:
    """Return an article that omits the generated columns which its table lacks: nothing that is delivered misses
    them.
    """
    left_out = tuple(each for each in article.left_out if each.reason != COLUMN_LACKING)
    known = {each.number for each in left_out}
    if article.has_all_columns and any(column.number not in known for column in article.generated):
        with translated():
            found = connection.execute(_COLUMNS, (quote_qualified(article.schema, article.table),)).fetchall()
        present = {name for (name,) in found}
        left_out += tuple(
            OmittedColumn(column.number, column.name, COLUMN_LACKING)
            for column in article.generated
            if present and column.name not in present and column.number not in known
        )
    return article if left_out == article.left_out else replace(article, left_out=left_out)


def is_made(connection: psycopg.Connection) -> bool:
    """Return whether the database has the tables of a subscriber.

    Raises `FormatNewer`, `FormatOutdated`, `FormatUnnumbered` unless this build may read them.
    """
    return _look(connection, StoreFormat.require_readable).is_made


def forget(connection: psycopg.Connection, guid: str) -> None:
    """Remove a subscription's record; with the last one, the schema, unless the database's log is read."""
    with translated():
        if not is_made(connection):
            return
        connection.execute(sql.SQL("delete from {} where subscription_guid = %s").format(_TABLE), (guid,))
    # Objects of another build may lack what `delivery_marks.forget` needs.
    make_current(connection)
    is_needed = delivery_marks.forget(connection, guid)
    with translated():
        if not is_needed and connection.execute(sql.SQL("select from {} limit 1").format(_TABLE)).fetchone() is None:
            connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(SCHEMA)))


_COLUMNS = """
select attname::text from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped
"""
_STATE = f"""
select to_regclass('{SCHEMA}."MSreplication_subscriptions"') is not null,
       obj_description(to_regnamespace('{SCHEMA}'), 'pg_namespace'), current_database()::text,
       {recorded_definition(SCHEMA)}
"""


PREFIX = "rowtide:"
_BUSY_PAUSE_S = 0.05


@frozen
class BatchName:
    """A batch of one subscription, by the epoch of its agent and its number."""

    guid: str
    epoch: int
    batch: int

    def __str__(self) -> str:
        return f"{PREFIX}{self.guid}:{self.epoch}:{self.batch}"


@frozen
class PreparedName:
    """The name of one stream's prepared transaction (PostgreSQL: gid); streams are numbered from 0."""

    batch: BatchName
    stream: int

    def __str__(self) -> str:
        return f"{self.batch}:{self.stream}"

    @classmethod
    def parse(cls, gid: str) -> PreparedName:
        """Parse a gid with our prefix."""
        guid, epoch, batch, stream = gid.removeprefix(PREFIX).split(":")
        return cls(BatchName(guid, int(epoch), int(batch)), int(stream))

    @property
    def commits(self) -> str:
        """The statement that commits it."""
        return f"commit prepared {quote_literal(str(self))}"

    @property
    def rolls_back(self) -> str:
        """The statement that rolls it back."""
        return f"rollback prepared {quote_literal(str(self))}"


@frozen
class Settled:
    """A prepared transaction that was left, and how it was ended."""

    name: PreparedName
    is_committed: bool


def list_prepared(connection: psycopg.Connection, guid: str | None = None) -> Sequence[PreparedName]:
    """Return what is prepared in this database for a subscription, or for all."""
    with translated():
        return parse_prepared(ask_prepared(connection, guid))


def ask_prepared(connection: psycopg.Connection, guid: str | None) -> psycopg.Cursor:
    """Ask what is prepared; the answer may wait for those of other statements."""
    wanted = f"^{PREFIX}{'[^:]+' if guid is None else re.escape(guid)}:[0-9]+:[0-9]+:[0-9]+$"
    return connection.execute(_PREPARED, (wanted,))


def parse_prepared(listing: psycopg.Cursor) -> Sequence[PreparedName]:
    """Return the names that were asked for."""
    return [PreparedName.parse(gid) for (gid,) in listing]


def settle(connection: psycopg.Connection, name: PreparedName, *, is_committed: bool) -> Settled:
    """Commit or roll back a prepared transaction; nothing if another session has done so."""
    failpoint("stream_settlement.before")
    while True:
        try:
            connection.execute(sql.SQL(name.commits if is_committed else name.rolls_back))
        # It was ended already: by a session that this one has overtaken, or by the agent that prepared it.
        except errors.UndefinedObject:
            break
        except errors.ObjectNotInPrerequisiteState:
            # Another session is about to end it.
            time.sleep(_BUSY_PAUSE_S)
        except psycopg.Error:
            with translated():
                raise
        else:
            break
    failpoint("stream_settlement.after")
    return Settled(name, is_committed)


_PREPARED = """
select gid from pg_prepared_xacts where database = current_database() and gid ~ %s order by gid
"""
