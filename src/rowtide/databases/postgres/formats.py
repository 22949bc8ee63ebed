"""The formats of rowtide's schemas in a PostgreSQL database: a view `rowtide_format` in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.formats import StoredFormat, StoreFormat
from rowtide.databases.format_views import format_row
from rowtide.databases.postgres.quoting import quote_body, quote_literal, quote_qualified

if TYPE_CHECKING:
    from sqlalchemy import Connection

VIEW = "rowtide_format"


def format_creation(schema: str, own: StoreFormat) -> str:
    """Return the statement that records the format of a schema that has none: of one that is made, or is required."""
    view = quote_qualified(schema, VIEW)
    creation = f"create view {view} as {format_row(own.recorded)}"
    return f"do {quote_body(f'begin if not exists {_found(schema)} then {creation}; end if; end')}"


def recorded_definition(schema: str) -> str:
    """Return the expression for the definition of a schema's format; null without one."""
    return f"(select pg_get_viewdef(oid) from {_found(schema)} f)"


def raise_format(connection: Connection, schema: str, recorded: StoredFormat) -> None:
    """Record a later format in the transaction of the migration's step."""
    view = quote_qualified(schema, VIEW)
    connection.exec_driver_sql(f"create or replace view {view} as {format_row(recorded)}")


def _found(schema: str) -> str:
    return (
        "(select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.relkind = 'v' "
        f"and n.nspname = {quote_literal(schema)} and c.relname = '{VIEW}')"
    )
