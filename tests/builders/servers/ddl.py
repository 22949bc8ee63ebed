"""Databases whose DDL the log records, and those where the right for that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from builders.capture.captured_databases import LoggedDatabase
from rowtide.databases.postgres.connect import open_engine
from rowtide.log.postgres import ddl_triggers


def has_triggers(logged: LoggedDatabase) -> bool:
    """Return whether the log records DDL."""
    with open_engine(logged.url).connect() as connection:
        return ddl_triggers.has_triggers(connection)


def forget_triggers(logged: LoggedDatabase) -> None:
    """Leave a database as a role enables it that may not make event triggers."""
    for (name,) in logged.execute("select evtname from pg_event_trigger"):
        logged.execute(f"drop event trigger {name}")


@contextmanager
def opened_as(logged: LoggedDatabase, role: str) -> Iterator[LoggedDatabase]:
    """Open a database as another role."""
    url = logged.url.replace("postgres@", f"{role.replace(' ', '%20')}@")
    with psycopg.connect(url, autocommit=True) as session:
        yield LoggedDatabase(url, logged.lake, session)


@contextmanager
def opened_by_stranger(logged: LoggedDatabase) -> Iterator[LoggedDatabase]:
    """Open a database as a role that may do nothing but connect; the role goes in the end."""
    role = f"stranger_to_{logged.session.info.dbname}"
    logged.execute(f"create role {role} login")
    try:
        with opened_as(logged, role) as opened:
            yield opened
    finally:
        logged.execute(f"drop owned by {role} cascade", f"drop role {role}")


@contextmanager
def opened_by_owner(logged: LoggedDatabase) -> Iterator[LoggedDatabase]:
    """Open a database as a role that owns it and may replicate, and is no superuser; the role goes in the end."""
    role = f"owner_of_{logged.session.info.dbname}"
    logged.execute(f"create role {role} login replication")
    logged.execute(
        f"alter database {logged.session.info.dbname} owner to {role}", f"grant create on schema public to {role}"
    )
    try:
        with opened_as(logged, role) as opened:
            yield opened
    finally:
        logged.execute(f"reassign owned by {role} to current_user", f"drop owned by {role}", f"drop role {role}")
