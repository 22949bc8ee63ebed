"""Marks of the transactions that delivery commits at a PostgreSQL subscriber; see `rowtide.log.membership`.

A logical message marks them for rowtide's log reader. A replication origin of the session marks them for PostgreSQL's
own subscriptions (`origin = none`) and in the commit timestamps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import psycopg
from psycopg import sql

from rowtide.core.errors import RowtideError
from rowtide.databases.postgres.errors import translated
from rowtide.databases.postgres.quoting import quote_literal
from rowtide.log.origin_marks import MESSAGE_PREFIX
from rowtide.replication.targets.postgres.calls.procedures import OWN_SETTINGS, SCHEMA
from rowtide.replication.targets.postgres.conflicts.former_values import COPYING
from rowtide.replication.targets.postgres.connecting import connect
from rowtide.replication.targets.subscriber_kind import UNKNOWN_ORIGINS, Originators, ReceivedOrigins

ORIGIN_PREFIX = "rowtide_"
"""The prefix of a session's replication origin, before the subscription's guid."""

OBJECTS = (
    f"""
create table if not exists {SCHEMA}."MSorigins" (
    subscription_guid text primary key,
    secret text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
    originator text not null, originators text[] not null, tables text[] not null, confirmed_at timestamptz)
""",
    f'revoke all on {SCHEMA}."MSorigins" from public',
    f"""
create or replace procedure {SCHEMA}."sp_MSmarkorigin"(guid text) language plpgsql {OWN_SETTINGS} as $body$
begin
    perform pg_logical_emit_message(true, '{MESSAGE_PREFIX}', json_build_object(
        'subscription', o.subscription_guid, 'originator', o.originator, 'secret', o.secret)::text)
    from {SCHEMA}."MSorigins" o where o.subscription_guid = guid;
end
$body$
""",
)
"""The statements that create what marks transactions, after the table of subscriptions.

`originator` is the publisher's database. `originators` are the databases whose changes arrive through the subscription,
`tables` those that it delivers to. The secret of a subscription that was dropped stays while its transactions may still
be in the log of a database that publishes. `confirmed_at`: by last commit time, everything that the publisher committed
before was delivered.
"""


def record(connection: psycopg.Connection, guid: str, originators: Originators) -> None:
    """Record where a subscription's changes come from, in the caller's transaction. Idempotent."""
    values = (guid, originators.publisher, sorted(originators.databases), sorted(originators.tables))
    with translated():
        connection.execute(_RECORD, values)
        connection.execute(_GRANT)


def attach(guid: str, joining: str) -> str:
    """Return the statement by which what arrived through a joining subscription arrives through another. Pure."""
    return _ATTACH.format(quote_literal(guid), quote_literal(joining))


def carry_onward(originators: Originators) -> None:
    """Record at the subscribers further on that changes of more databases arrive there. Idempotent.

    Raises `ConnectionFailed`.
    """
    for url, guid in originators.onward:
        with connect(url, application_name="rowtide subscription") as connection, translated():
            connection.execute(_CARRY_ONWARD, (sorted(originators.databases), guid))


def mark(connection: psycopg.Connection, guid: str) -> None:
    """Mark the connection's transaction, which copies rows, or empties tables for that, before it changes any."""
    with translated():
        connection.execute(_MARK, (guid,))
        connection.execute("select set_config(%s, 'on', true)", (COPYING,))


def read_received(connection: psycopg.Connection, guids: frozenset[str]) -> Mapping[str, ReceivedOrigins]:
    """Return what subscriptions deliver to this database, by their guids."""
    received = dict.fromkeys(guids, UNKNOWN_ORIGINS)
    with translated():
        if connection.execute(_IS_MADE).fetchone() == (True,):
            for guid, publisher, databases, tables in connection.execute(_RECEIVED):
                if guid in received:
                    received[guid] = ReceivedOrigins(publisher, frozenset(databases), frozenset(tables))
    return received


def create(connection: psycopg.Connection, guid: str) -> None:
    """Create a subscription's replication origin, if there is none, for sessions that use it one after the other."""
    with translated():
        connection.execute(_CREATE_ORIGIN, (ORIGIN_PREFIX + guid, ORIGIN_PREFIX + guid))


def mark_session(connection: psycopg.Connection, guid: str, part: str = "", *, patience_s: float = 0.0) -> str | None:
    """Give the session a replication origin of a part of the subscription, as a stream is one; return why it has none,
    if it cannot.

    Another session may still have it, for which it waits that long: an origin is of one session at a time.
    """
    name = ORIGIN_PREFIX + guid + (f"_{part}" if part else "")
    try:
        with translated():
            connection.execute(_CREATE_ORIGIN, (name, name))
            _set_up(connection, name, patience_s)
    except RowtideError as error:
        return error.filled_fact
    return None


def mark_as_old(connection: psycopg.Connection, guid: str) -> None:
    """Give the connection's transaction, which copies rows, a commit time before every change that follows.

    The origin exists. Waits for other sessions that copy. Raises what setting the origin raises.
    """
    with translated():
        _set_up(connection, ORIGIN_PREFIX + guid, _COPY_PATIENCE_S)
    give_old_time(connection)


def give_old_time(connection: psycopg.Connection) -> None:
    """Give the transaction of a session with an origin a commit time before every change that follows."""
    with translated():
        connection.execute("select pg_replication_origin_xact_setup('0/0', '1970-01-01 00:00:00Z')")


def _set_up(connection: psycopg.Connection, name: str, patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            with connection.transaction():
                connection.execute("select pg_replication_origin_session_setup(%s)", (name,))
        except psycopg.errors.ObjectInUse:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return


def read_originator(connection: psycopg.Connection, guid: str) -> str:
    """Return the publisher's database of a subscription."""
    with translated():
        found = connection.execute(_ORIGINATOR, (guid,)).fetchone()
    return "" if found is None else str(found[0])


def is_published(connection: psycopg.Connection) -> bool:
    """Return whether the database has a publication, so that others read its log."""
    with translated():
        return connection.execute("select exists (select from pg_publication)").fetchone() == (True,)


def forget(connection: psycopg.Connection, guid: str) -> bool:
    """Drop a subscription's replication origins, and its secret unless that is needed; return whether it is.

    Marked transactions may not have been read yet if the database's log is read.
    """
    with translated():
        names = [name for (name,) in connection.execute(_LIST_ORIGINS, (ORIGIN_PREFIX + guid,))]
    for name in names:
        _drop_origin(connection, name)
    with translated():
        is_needed = connection.execute(_IS_READ).fetchone() == (True,)
        if not is_needed:
            connection.execute(sql.SQL(f'delete from {SCHEMA}."MSorigins" where subscription_guid = %s'), (guid,))
    return is_needed


def _drop_origin(connection: psycopg.Connection, name: str) -> None:
    """Drop an origin, if there is one; wait for an agent that is about to end."""
    deadline = time.monotonic() + _PATIENCE_S
    with translated():
        # Only then: the function is not everybody's.
        while connection.execute(_HAS_ORIGIN, (name,)).fetchone() == (True,):
            try:
                with connection.transaction():
                    connection.execute("select pg_replication_origin_drop(%s)", (name,))
            except psycopg.errors.ObjectInUse:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_S)


_RECORD = f"""
insert into {SCHEMA}."MSorigins" (subscription_guid, originator, originators, tables) values (%s, %s, %s, %s)
on conflict (subscription_guid) do update
set originator = excluded.originator, originators = excluded.originators, tables = excluded.tables
"""

_ATTACH = f"""
update {SCHEMA}."MSorigins" o
set originators = array(select distinct unnest(o.originators || j.originators)),
    tables = array(select distinct unnest(o.tables || j.tables))
from {SCHEMA}."MSorigins" j where o.subscription_guid = {{}} and j.subscription_guid = {{}}
"""

_CARRY_ONWARD = f"""
update {SCHEMA}."MSorigins" set originators = array(select distinct unnest(originators || %s::text[]) order by 1)
where subscription_guid = %s
"""

# The log reader's role, which may be another than the subscriber's.
_GRANT = f"""
do $$
declare
    reader text := (select nspowner::regrole::text from pg_namespace where nspname = 'rowtide');
begin
    if reader is not null then
        execute format('grant usage on schema {SCHEMA} to %s', reader);
        execute format('grant select on {SCHEMA}."MSorigins", {SCHEMA}."MSreplication_subscriptions" to %s', reader);
    end if;
end $$
"""

_MARK = f'call {SCHEMA}."sp_MSmarkorigin"(%s)'
_ORIGINATOR = f'select originator from {SCHEMA}."MSorigins" where subscription_guid = %s'
_IS_MADE = f"select to_regclass('{SCHEMA}.\"MSorigins\"') is not null"
_RECEIVED = f"""
select subscription_guid, originator, originators, tables from {SCHEMA}."MSorigins"
"""
_IS_READ = "select to_regclass('rowtide.members') is not null"
_CREATE_ORIGIN = """
select pg_replication_origin_create(%s) where not exists (select from pg_replication_origin where roname = %s)
"""
_LIST_ORIGINS = "select roname from pg_replication_origin where starts_with(roname, %s)"
_HAS_ORIGIN = "select exists (select from pg_replication_origin where roname = %s)"
_PATIENCE_S, _PAUSE_S = 5.0, 0.1
_COPY_PATIENCE_S = 600.0
"""An origin is of one session at a time: a chunk waits until the other workers have committed theirs."""
