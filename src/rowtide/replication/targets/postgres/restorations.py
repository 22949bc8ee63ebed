"""What was switched off or altered in a PostgreSQL subscriber's own tables, and the statements that restore it.

They are recorded in the transaction that alters, and run in the one that ends what they wait for. A subscription that
never came to its end leaves its own to the next of the same tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from enum import StrEnum

import psycopg
from psycopg import sql

from rowtide.core.values import frozen
from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.databases.postgres.quoting import quote_literal
from rowtide.replication.errors.subscribing import RestorationRefused
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA

_TABLE = f'{SCHEMA}."MSrestorations"'


class Until(StrEnum):
    """What a restoration waits for."""

    COPIED = "copied"
    """The snapshot is delivered."""
    JOINED = "joined"
    """The article has joined its subscription: its table holds what those that refer to it do."""
    DROPPED = "dropped"
    """The subscription is dropped."""


@frozen
class PostgresRestoration:
    """A statement that restores something of an article's table, and when."""

    article_id: str
    until: Until
    statement: str


CREATION = f"""
create table if not exists {_TABLE} (
    subscription_guid text references {SCHEMA}."MSreplication_subscriptions" on delete cascade,
    place bigint generated always as identity, article_id text not null, until text not null, statement text not null,
    primary key (subscription_guid, place))
"""
"""The statement that creates the table of restorations."""


def restored_statement(statement: str, lookup: str) -> str:
    """Return a statement that runs another one, whose names are looked up at that time; with its present text. Pure."""
    return f"{_RESTORED}{' '.join(statement.split())}\n{lookup}"


def record(connection: psycopg.Connection, guid: str, restorations: Iterable[PostgresRestoration]) -> None:
    """Record restorations, in the caller's transaction."""
    rows = [(guid, each.article_id, each.until, each.statement) for each in restorations]
    with translated():
        connection.cursor().executemany(sql.SQL(_ADD), rows)


def until_joined(restorations: Iterable[PostgresRestoration]) -> Iterator[PostgresRestoration]:
    """Let what waits for an article's copy wait until the article joins its subscription."""
    for each in restorations:
        yield replace(each, until=Until.JOINED) if each.until is Until.COPIED else each


def keep(connection: psycopg.Connection, guid: str, article_id: str) -> None:
    """Let what waits for an article's copy wait until it joins again, in the caller's transaction: it left before."""
    with translated():
        connection.execute(sql.SQL(_KEEP), [Until.JOINED, guid, article_id, Until.COPIED])


def take_over(guid: str, joining: str) -> str:
    """Return the statement that makes a joining subscription's restorations another's. Pure."""
    return _TAKE_OVER.format(quote_literal(guid), quote_literal(joining))


def restore_joined(guid: str, article_id: str) -> str:
    """Return the statement that restores what waited until an article joined. Pure."""
    rows = _JOINED.format(quote_literal(guid), quote_literal(article_id))
    return f"do {quote_literal(_RESTORE_JOINED.format(rows=rows))}"


def adopt(connection: psycopg.Connection, guid: str, article_ids: Collection[str]) -> None:
    """Take over what earlier subscriptions to the same articles left, in the caller's transaction.

    They were interrupted while they were added or copied, or dropped without contacting the subscriber.
    """
    given = {"guid": guid, "articles": list(article_ids)}
    with translated():
        connection.execute(sql.SQL(_ADOPT), given)
        connection.execute(sql.SQL(_ADOPT_STATEMENTS), given)
        connection.execute(sql.SQL(_DELETE_UNFINISHED), given)


def discard(connection: psycopg.Connection, guid: str) -> None:
    """Forget a subscription's restorations, because its tables are created."""
    with translated():
        connection.execute(sql.SQL(f"delete from {_TABLE} where subscription_guid = %s"), [guid])


def restore(connection: psycopg.Connection, guid: str, until: Until) -> None:
    """Run what waits for an event, in the caller's transaction. Raises `RestorationRefused`."""
    with translated():
        statements = connection.execute(sql.SQL(_LIST), [guid, until]).fetchall()
    for (statement,) in statements:
        _run(connection, statement)
    with translated():
        connection.execute(sql.SQL(_DELETE), [guid, until])


def _run(connection: psycopg.Connection, statement: str) -> None:
    try:
        with translated():
            connection.execute(sql.SQL(statement))
    except UnexpectedSqlError as error:
        shown = statement.partition("\n")[0].removeprefix(_RESTORED) if statement.startswith(_RESTORED) else statement
        raise RestorationRefused(shown, error.sqlstate, error.reason) from error


_RESTORED = "-- "
_KEEP = f"update {_TABLE} set until = %s where subscription_guid = %s and article_id = %s and until = %s"
_TAKE_OVER = f"update {_TABLE} set subscription_guid = {{}} where subscription_guid = {{}}"
_JOINED = f"from {_TABLE} where subscription_guid = {{}} and article_id = {{}} and until = '{Until.JOINED}'"
_RESTORE_JOINED = """
declare one text;
begin
    for one in select statement {rows} order by place loop
        execute one;
    end loop;
    delete {rows};
end
"""
_ADD = f"insert into {_TABLE} (subscription_guid, article_id, until, statement) values (%s, %s, %s, %s)"
_LIST = f"select statement from {_TABLE} where subscription_guid = %s and until = %s order by place"
_DELETE = f"delete from {_TABLE} where subscription_guid = %s and until = %s"
_ADOPT = f"""
update {_TABLE} set subscription_guid = %(guid)s
where article_id = any(%(articles)s) and subscription_guid <> %(guid)s
"""
_ADOPT_STATEMENTS = f"""
insert into {_TABLE} (subscription_guid, article_id, until, statement)
select %(guid)s, (select min(c.article_id) from {SCHEMA}."MSsnapshot_chunks" c
                  where c.subscription_guid = s.subscription_guid and c.article_id = any(%(articles)s)),
       '{Until.COPIED}', s.statement
from {SCHEMA}."MSsnapshot_statements" s
where s.subscription_guid <> %(guid)s and exists (
    select from {SCHEMA}."MSsnapshot_chunks" c
    where c.subscription_guid = s.subscription_guid and c.article_id = any(%(articles)s))
order by s.place
"""
_DELETE_UNFINISHED = f"""
delete from {SCHEMA}."MSreplication_subscriptions" s
where s.subscription_guid <> %(guid)s and exists (
    select from {SCHEMA}."MSsnapshot_chunks" c
    where c.subscription_guid = s.subscription_guid and c.article_id = any(%(articles)s))
"""
