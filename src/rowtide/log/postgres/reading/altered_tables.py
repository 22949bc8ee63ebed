"""Tables as the catalogue has them, with what an event trigger would have reported of their columns."""

from __future__ import annotations

from sqlalchemy import Connection, text

from rowtide.core.json_records import JsonOf
from rowtide.databases.postgres.quoting import statement
from rowtide.log.alterations import AlteredColumn
from rowtide.log.postgres.ddl_triggers import ALTERED_COLUMNS

_COLUMNS = JsonOf[tuple[AlteredColumn, ...]](tuple[AlteredColumn, ...])


def find_altered_columns(connection: Connection, source_id: int) -> tuple[AlteredColumn, ...] | None:
    """Return a table's columns by its oid; None if it was dropped."""
    found = connection.execute(text(_FIND), {"source_id": source_id}).scalar()
    return None if found is None else _COLUMNS.decode(found)


def has_values_of_before(connection: Connection, source_id: int, number: int) -> bool:
    """Return whether rows have a value in a column that was there when it was added: no change row has it.

    A row's `xmin` is then that of the transaction which added the column, or older; that transaction, or a later one,
    has written the column's row of the catalogue. Reads the table up to the first such row, all of it if there is none.
    """
    names = connection.execute(text(_NAMES), {"source_id": source_id, "number": number}).one_or_none()
    if names is None:
        return False
    table, column, xid = names
    of_before = f"t.{column} is not null and age(t.xmin) >= age('{xid}'::xid)"
    return bool(connection.execute(statement(f"select exists(select from {table} t where {of_before})")).scalar_one())


_FIND = f"select {ALTERED_COLUMNS}::text from pg_class altered where altered.oid = :source_id"

_NAMES = """
select c.oid::regclass::text, quote_ident(a.attname), a.xmin::text
from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.oid = :source_id and a.attnum = :number and not a.attisdropped
"""
