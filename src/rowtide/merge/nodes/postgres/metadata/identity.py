"""The identity of the database in which a node's metadata was created, by which a copy is recognized.

A server is identified by its system identifier, a database on it by its oid (docs/decisions/0004).
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.databases.postgres.clock import INCARNATION
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.merge.definitions import SCHEMA
from rowtide.merge.nodes.node_tables import Original

_INFO = quote_qualified(SCHEMA, "MSmerge_replinfo")


def read_identity(connection: Connection) -> str | None:
    """Return this database's identity; None if the role may not read it."""
    if not connection.execute(text(_MAY_ASK)).scalar_one():
        return None
    return str(connection.execute(text(f"select {INCARNATION}")).scalar_one())


def find_original(connection: Connection) -> Original | None:
    """Return the database in which the metadata was created, if it is another one that may still exist."""
    if not connection.execute(text(_MAY_ASK)).scalar_one():
        return None
    found = connection.execute(text(REQUEST)).one_or_none()
    return None if found is None else compare_identity(*found)[0]


def compare_identity(
    recorded: str | None, here: str, name: str, recorded_name: str | None
) -> tuple[Original | None, bool]:
    """Return the original from the answer to `REQUEST`, and whether this database is recorded as the place."""
    if recorded is None or recorded == here:
        return None, recorded is not None
    system, _, database_id = recorded.partition("/")
    if system != here.partition("/")[0]:
        description = f"a database of another server (system {system}, database oid {database_id})"
        return Original(name, description, is_here=False), False
    if recorded_name is None:
        return None, False
    return Original(name, f'database "{recorded_name}" of this server', is_here=True), False


def record_identity(connection: Connection) -> None:
    """Record this database's identity, unless it is recorded already."""
    here = read_identity(connection)
    if here is None or connection.execute(text(_RECORDED)).scalar() == here:
        return
    connection.execute(text(f"update {_INFO} set place = :here"), {"here": here})


_MAY_ASK = "select has_function_privilege('pg_control_system()', 'execute')"
_RECORDED = f"select place from {_INFO}"
REQUEST = f"""
select recorded, {INCARNATION}, current_database()::text,
       (select datname::text from pg_database where oid::text = split_part(recorded, '/', 2))
from (select place as recorded from {_INFO}) place
"""
"""The recorded place, this one, this database's name, and the recorded one's on this server."""
