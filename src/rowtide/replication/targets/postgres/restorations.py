"""What was switched off or altered in a PostgreSQL subscriber's own tables, and the statements that restore it.

They are recorded in the transaction that alters, and run in the one that ends what they wait for. A subscription that
never came to its end leaves its own to the next of the same tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

import psycopg
from psycopg import sql

from rowtide.databases.postgres.errors import UnexpectedSqlError, translated
from rowtide.replication.errors import RestorationRefused
from rowtide.replication.targets.postgres.calls.procedures import SCHEMA

_TABLE = f'{SCHEMA}."MSrestorations"'


class Until(StrEnum):
    """What a restoration waits for."""

    COPIED = "copied"
    """The snapshot is delivered."""
    DROPPED = "dropped"
    """The subscription is dropped."""


@dataclass(frozen=True, slots=True)
class Restoration:
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


def record(connection: psycopg.Connection, guid: str, restorations: Iterable[Restoration]) -> None:
    """Record restorations, in the caller's transaction."""
    rows = [(guid, each.article_id, each.until, each.statement) for each in restorations]
    with translated():
        connection.cursor().executemany(sql.SQL(_ADD), rows)


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
        found = connection.execute("select to_regclass(%s)", [_TABLE]).fetchone()
        if found is None or found[0] is None:
            # Prepared by an earlier build.
            return
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
        raise RestorationRefused(statement, error.sqlstate, error.reason) from error


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
