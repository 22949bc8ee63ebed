"""The identity of the database in which a node's metadata was created, by which a copy is recognized.

A server is identified by its system identifier, a database on it by its oid (docs/decisions/0024).
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.databases.postgres.clock import INCARNATION
from rowtide.databases.postgres.quoting import quote_qualified
from rowtide.merge.definitions import SCHEMA
from rowtide.merge.nodes.node import Original

_INFO = quote_qualified(SCHEMA, "MSmerge_replinfo")


def read_place(connection: Connection) -> str | None:
    """Return this database's identity; None if the role may not read it."""
    if not connection.execute(text(_MAY_ASK)).scalar_one():
        return None
    return str(connection.execute(text(f"select {INCARNATION}")).scalar_one())


def find_original(connection: Connection) -> Original | None:
    """Return the database in which the metadata was created, if it is another one that may still exist."""
    recorded, here = connection.execute(text(_RECORDED)).scalar(), read_place(connection)
    if recorded is None or here is None or recorded == here:
        return None
    name = str(connection.execute(text("select current_database()")).scalar_one())
    system, _, database_id = str(recorded).partition("/")
    if system != here.partition("/")[0]:
        return Original(
            name, f"a database of another server (system {system}, database oid {database_id})", is_here=False
        )
    found = connection.execute(text(_NAME), {"id": int(database_id)}).scalar()
    return None if found is None else Original(name, f'database "{found}" of this server', is_here=True)


def record_place(connection: Connection) -> None:
    """Record this database's identity, unless it is recorded already."""
    here = read_place(connection)
    if here is None or connection.execute(text(_RECORDED)).scalar() == here:
        return
    if not connection.execute(text(_HAS_COLUMN)).scalar_one():
        if not connection.execute(text(_MAY_ALTER)).scalar_one():
            return
        connection.execute(text(f"alter table {_INFO} add column if not exists place text"))
    connection.execute(text(f"update {_INFO} set place = :here"), {"here": here})


_MAY_ASK = "select has_function_privilege('pg_control_system()', 'execute')"
# An earlier build's table has no such column.
_RECORDED = f"select to_jsonb(info) ->> 'place' from {_INFO} info"
_NAME = "select datname::text from pg_database where oid = :id"
_OF_INFO = f"'{_INFO}'::regclass"
_HAS_COLUMN = f"""
select exists (select 1 from pg_attribute where attrelid = {_OF_INFO} and attname = 'place' and not attisdropped)
"""
_MAY_ALTER = f"select pg_has_role(relowner, 'usage') from pg_class where oid = {_OF_INFO}"
