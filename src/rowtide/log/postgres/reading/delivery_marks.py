"""The secrets of the subscriptions that deliver to a database, by which its log reader verifies their marks.

Delivery keeps them at the subscriber, in a table of its own; see `rowtide.log.origins`.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.databases.postgres.errors import translated

TABLE = 'rowtide_subscriber."MSorigins"'


def find_secret(connection: Connection, subscription: str) -> str | None:
    """Return a subscription's secret by its guid; None if there is no such subscription, or this role may not read."""
    with translated():
        if not connection.execute(text(_IS_READABLE)).scalar_one():
            return None
        return connection.execute(text(_SECRET), {"guid": subscription}).scalar()


_IS_READABLE = f"""
select coalesce(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select'), false)
from (select to_regclass('{TABLE}')) found (oid)
left join pg_class c on c.oid = found.oid
left join pg_namespace n on n.oid = c.relnamespace
"""  # noqa: S608 - of constants

_SECRET = f"select secret from {TABLE} where subscription_guid = :guid"  # noqa: S608 - of constants
