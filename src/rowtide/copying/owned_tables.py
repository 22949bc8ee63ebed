"""Tables that are read with the rights of their owner.

To plan a query of a table, the server evaluates what is constant in the expressions of its indexes, checks and
statistics, and a partitioned table's bounds: functions that a role defined are called with the reader's rights.
Where they are another, less privileged role's, the table is read through a function of the owner's (see
`databases.postgres.owners`), whose rows COPY passes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from rowtide.copying.errors import CopiedTableNotOwned
from rowtide.copying.tables import CopiedTable, TableOwner
from rowtide.databases.postgres import owners
from rowtide.databases.postgres.catalogue import COLUMN_TYPE_TEXT
from rowtide.databases.postgres.owners import called_by_plans
from rowtide.databases.postgres.quoting import quote
from rowtide.databases.postgres.search_path import PIN_PATH
from rowtide.databases.postgres.text_queries import running


def find_reader(connection: psycopg.Connection[Any], source_id: int) -> str | None:
    """Return the function by which a table is to be read as its owner; None: it is read directly.

    The function is created where it is not there, which a read-only transaction cannot. Raises `CopiedTableNotOwned`.
    """
    found = connection.execute(sql.SQL(_READ_BY), {"table": source_id}).fetchone()
    if found is None:
        return None
    name, author, called = found
    owner = owners.read_owners(running(connection), [name])[name]
    if not owner.is_held:
        raise CopiedTableNotOwned(name, quote(owner.name), called, author, quote(connection.info.user))
    if owner.is_ready:
        return owner.reading
    with connection.transaction():
        for statement in owners.creations(owner):
            connection.execute(statement.encode())
    return owner.reading


def with_reader(connection: psycopg.Connection[Any], table: CopiedTable, reader: str | None) -> CopiedTable:
    """Return a table that is read by a function of `find_reader`."""
    if reader is None:
        return table
    # An owner's code that ran in the session before may have set another.
    connection.execute(PIN_PATH)
    types = {row.name: row.type_text for row in running(connection)(_TYPES, table=table.source_id)}
    return replace(table, owner=TableOwner(reader, tuple(types.get(column, "text") for column in table.columns)))


_READ_BY = f"""
select format('%%I.%%I', n.nspname, c.relname), called.author, called.what
from pg_class c join pg_namespace n on n.oid = c.relnamespace
cross join lateral ({called_by_plans("c.oid").replace("%", "%%")} limit 1) called
where c.oid = %(table)s::oid
"""  # noqa: S608 - of constants
_TYPES = f"""
select a.attname::text as name, {COLUMN_TYPE_TEXT} as type_text
from pg_attribute a where a.attrelid = :table and a.attnum > 0 and not a.attisdropped
"""  # noqa: S608 - of constants
