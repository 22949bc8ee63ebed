"""Where the distribution database is: a schema at the publisher, or one in another database.

Statements about schema `distribution` run on the connection that `distributor` returns for one to the publisher. If the
distribution database is elsewhere, that is a companion of the publisher's connection: it commits just before it, rolls
back with it, and is closed with it. Its schema there is the publisher's alone, named after the publisher's identity.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    Text,
    delete,
    event,
    insert,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from rowtide.core.failpoints import failpoint
from rowtide.core.values import frozen
from rowtide.databases.postgres.catalogue import has_table, read_server_identity
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import NOT_CONNECTED, UnexpectedSqlError, translated
from rowtide.databases.postgres.functions import PREFIX, map_schemas
from rowtide.databases.urls import parse_url
from rowtide.log.catalogue import SCHEMA as LOG_SCHEMA
from rowtide.replication.errors.delivery import DistributionMoved, DistributorUnreachable
from rowtide.replication.errors.subscribing import PasswordGiven

SCHEMA = "distribution"

_places = Table(
    "distributor",
    MetaData(schema=LOG_SCHEMA),
    Column("url", Text, primary_key=True, comment="of the distribution database, without a password"),
    Column("schema_name", Text, nullable=False, comment="the publisher's schema there"),
)
_COMPANION, _IS_FOLLOWED = "rowtide_distributor", "rowtide_distributor_follows"
_PLACE = "rowtide_distributor_place"
_NO_TABLE = "42P01"
_IN_SCHEMA = re.compile(rf'\b{SCHEMA}(_\d+_\d+)?\."?MS')


@frozen
class DistributorLocation:
    """A distribution database that is not the publisher, and the publisher's schema there."""

    url: str
    schema: str


def plan_place(connection: Connection, url: str) -> DistributorLocation:
    """Return the place for a publisher's distribution database. Raises `PasswordGiven`, `UrlNotRead`."""
    parsed = parse_url(url)
    if parsed.has_secret:
        raise PasswordGiven(str(parsed))
    server = read_server_identity(connection)
    return DistributorLocation(url, f"{SCHEMA}_{server.system_identifier}_{server.database_id}")


def find_place(connection: Connection) -> DistributorLocation | None:
    """Return where a publisher's distribution database is; None if it is a schema of its own."""
    if not has_table(connection, LOG_SCHEMA, _places.name):
        return None
    row = connection.execute(select(_places.c.url, _places.c.schema_name)).one_or_none()
    return DistributorLocation(*row) if row is not None else None


def record_place(connection: Connection, place: DistributorLocation | None) -> None:
    """Record where a publisher's distribution database is, in the caller's transaction."""
    _places.create(connection, checkfirst=True)
    connection.execute(delete(_places))
    if place is not None:
        connection.execute(insert(_places).values(url=place.url, schema_name=place.schema))


def distributor(connection: Connection) -> Connection:
    """Return the connection on which statements about the distribution database of a publisher run.

    Raises `DistributorUnreachable`.
    """
    if _COMPANION not in connection.info:
        if not event.contains(connection.engine, "checkin", _close_companion):
            event.listen(connection.engine, "checkin", _close_companion)
            event.listen(connection.engine, "invalidate", _leave_companion)
        connection.info[_PLACE] = place = find_place(connection)
        connection.info[_COMPANION] = None if place is None else _open_companion(connection, place)
    companion: Connection | None = connection.info[_COMPANION]
    return connection if companion is None else companion


def is_elsewhere(connection: Connection) -> bool:
    """Return whether the distribution database of a publisher is another database."""
    return distributor(connection) is not connection


def forget_companion(connection: Connection) -> bool:
    """Let a connection be opened to the distribution database again; return whether there was one to another database.

    For a connection to the publisher outside of a transaction.
    """
    return _let_go(connection.info)


def follow_move(connection: Connection) -> bool:
    """Let a connection lead to where the distribution database was moved since; return whether it was."""
    if _COMPANION not in connection.info or find_place(connection) == connection.info[_PLACE]:
        return False
    forget_companion(connection)
    return True


@contextmanager
def noticing_moves() -> Iterator[None]:
    """Raise `DistributionMoved` for a statement that has not found the distribution database where it was before.

    For connections of one transaction each: the next one leads to the new place.
    """
    try:
        yield
    except UnexpectedSqlError as error:
        if error.sqlstate == _NO_TABLE and _IN_SCHEMA.search(error.reason):
            raise DistributionMoved(error.reason) from error
        raise


def _let_go(info: MutableMapping[Any, Any]) -> bool:
    """Close a connection to the distribution database, whose server may be gone; return whether there was one."""
    companion: Connection | None = info.pop(_COMPANION, None)
    if companion is None:
        return False
    with suppress(SQLAlchemyError, *NOT_CONNECTED):
        companion.close()
    return True


def schema_of(connection: Connection) -> str:
    """Return the name of the schema that holds a publisher's distribution database, where `distributor` leads."""
    mapped = distributor(connection).get_execution_options().get("schema_translate_map") or {}
    return str(mapped.get(SCHEMA, SCHEMA)).removeprefix(PREFIX)


def connect_to(place: DistributorLocation, application_name: str) -> Connection:
    """Open a connection to a distribution database. Raises `DistributorUnreachable`."""
    engine = open_engine(place.url, application_name=application_name)
    try:
        with translated():
            opened = engine.connect()
            return opened.execution_options(schema_translate_map=map_schemas(opened, {SCHEMA: place.schema}))
    except NOT_CONNECTED as error:
        raise DistributorUnreachable(place.url, error.filled_fact) from error


def _open_companion(connection: Connection, place: DistributorLocation) -> Connection:
    # Named as the publisher's session: `subscription_records` reads from it which process delivers.
    name = connection.execute(text("select current_setting('application_name')")).scalar_one()
    companion = connect_to(place, name)
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        companion = companion.execution_options(isolation_level="AUTOCOMMIT")
    if not connection.info.get(_IS_FOLLOWED):
        connection.info[_IS_FOLLOWED] = True
        event.listen(connection, "commit", _commit)
        event.listen(connection, "rollback", _roll_back)
    return companion


def _commit(connection: Connection) -> None:
    companion = connection.info.get(_COMPANION)
    if companion is not None and companion.in_transaction():
        failpoint("distributor_commit.before")
        companion.commit()
        failpoint("distributor_commit.after")


def _roll_back(connection: Connection) -> None:
    # To ask a connection that was lost what it has would open another.
    companion = None if connection.invalidated else connection.info.get(_COMPANION)
    if companion is not None:
        companion.rollback()


def _leave_companion(_connection: object, record: ConnectionPoolEntry, _error: BaseException | None) -> None:
    _let_go(record.info)


def _close_companion(_connection: object, record: ConnectionPoolEntry) -> None:
    # Who gets the session next has a `Connection` of its own, which has to be followed, and may have to look elsewhere.
    record.info.pop(_IS_FOLLOWED, None)
    companion = record.info.pop(_COMPANION, None)
    if companion is not None:
        companion.close()
