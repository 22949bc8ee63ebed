"""Add a column `rowguid`, which identifies the rows of a table, to a table that lacks it.

A nullable column with a default for new rows is added, existing rows are filled in batches of pages, and the index is
built concurrently: no step locks the table for long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sqlalchemy import Connection, text

from rowtide.core.values import frozen
from rowtide.databases.postgres.alterations import Alterations, Around, build_index
from rowtide.databases.postgres.catalogue import read_table
from rowtide.databases.postgres.functions import OWN_PATH
from rowtide.databases.postgres.owner_functions import functions_path
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified, statement
from rowtide.databases.source_table import SourceColumn, SourceTable, TableKind, TablePartition

ROWGUID: Final = "rowguid"
_MILLISECONDS: Final = (
    "(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) operator(pg_catalog.*) 1000)::pg_catalog.int8"
)
NEW_ROWGUID: Final = (
    f"('0' operator(pg_catalog.||) pg_catalog.to_hex({_MILLISECONDS} operator(pg_catalog.<<) 16 "
    "operator(pg_catalog.|) 28672 operator(pg_catalog.|) "
    "(pg_catalog.random() operator(pg_catalog.*) 4095)::pg_catalog.int8) operator(pg_catalog.||) pg_catalog.to_hex("
    "(pg_catalog.random() operator(pg_catalog.*) 1152921504606846975)::pg_catalog.int8 operator(pg_catalog.|) "
    "(-9223372036854775808)))::pg_catalog.uuid"
)
"""A UUID of version 7, as an SQL expression, the same under every path: new rows are adjacent in indexes.

Each millisecond has 2⁶⁴ values; asking the system for random bytes, as `gen_random_uuid()` does, would take longer than
all the rest of writing a row.
"""
_CHECK = quote("__sysRowguid")
_FILLED_PAGES = 1_000


def rowguid_key(table: SourceTable) -> tuple[SourceColumn, ...]:
    """Return the column `rowguid` as the key; empty unless it exists, is unique and not null."""
    is_unique = any(
        index.columns == (ROWGUID,) and index.is_unique and index.is_valid and not index.is_partial
        for index in table.indexes
    )
    return tuple(column for column in table.columns if column.name == ROWGUID and is_unique and not column.is_nullable)


def is_uuid(column: SourceColumn) -> bool:
    """Whether a column's type, or its domain's base type, is uuid."""
    return (column.base_type_text or column.type_text) == "uuid"


def identifies_rows(table: SourceTable) -> bool:
    """Whether the column `rowguid` exists, is not null, and has an index; in a partitioned table uniqueness is assumed.

    A unique index there must include the partition key.
    """
    if table.kind is not TableKind.PARTITIONED:
        return bool(rowguid_key(table))
    is_indexed = any(index.columns[0] == ROWGUID and index.is_valid and not index.is_partial for index in table.indexes)
    return is_indexed and any(column.name == ROWGUID and not column.is_nullable for column in table.columns)


def is_made_here(connection: Connection, table: SourceTable, maker: str) -> bool:
    """Whether `make_rowguid` created the column `rowguid` for this maker, even if it was interrupted."""
    comment = "select col_description(:table, attnum) from pg_attribute where attrelid = :table and attname = :name"
    return connection.execute(text(comment), {"table": table.source_id, "name": ROWGUID}).scalar() == maker


@frozen
class Filling:
    """How the rows of a table are written: `statement` returns what executes one and counts rows, `around` it."""

    around: Around
    statement: Callable[[str], str] = str


BY_ROLE: Final = Filling((functions_path(), [OWN_PATH]))
"""As the session's role: the code of the table's owner is trusted."""


def make_rowguid(alterations: Alterations, made: SourceTable, maker: str, filling: Filling = BY_ROLE) -> None:
    """Give a table the column, its values and its index; a repeat completes an interrupted call.

    `maker` is stored as the column's comment: the same maker drops the column.
    """
    table, name = quote_qualified(made.schema, made.name), made.qualified_name
    alterations.run(name, lambda connection: _add_column(connection, made, maker))
    holders: Sequence[SourceTable | TablePartition] = made.row_holders or (made,)
    for holder in holders:
        pages = alterations.run(name, partial(_count_pages, source_id=holder.source_id))
        while _fill(alterations, quote_qualified(holder.schema, holder.name), pages, filling):
            pass  # what was written meanwhile may be on pages that were done
    index = (made.schema, f"__sysRowguid_{made.source_id}")
    build_index(alterations, made, index, f"on {table} ({ROWGUID})", is_unique=made.kind is not TableKind.PARTITIONED)
    alterations.run(name, lambda connection: _add_check(connection, table))
    alterations.run_alone(statement(f"alter table {table} validate constraint {_CHECK}"))
    # With the validated check, `set not null` need not scan the table.
    alterations.run_alone(statement(f"alter table {table} alter column {ROWGUID} set not null"))
    alterations.run_alone(statement(f"alter table {table} drop constraint {_CHECK}"))


def _add_column(connection: Connection, made: SourceTable, maker: str) -> None:
    table = quote_qualified(made.schema, made.name)
    if not any(column.name == ROWGUID for column in read_table(connection, made.source_id).columns):
        # The default is set in a separate statement: adding a column with a volatile default would rewrite the table,
        # and lock out readers and writers.
        connection.execute(statement(f"alter table {table} add column {ROWGUID} uuid"))
        connection.execute(statement(f"alter table {table} alter column {ROWGUID} set default {NEW_ROWGUID}"))
        connection.execute(statement(f"comment on column {table}.{ROWGUID} is {quote_literal(maker)}"))


def _count_pages(connection: Connection, *, source_id: int) -> int:
    size = "select pg_relation_size(:table) / current_setting('block_size')::bigint"
    return int(connection.execute(text(size), {"table": source_id}).scalar_one())


def _fill(alterations: Alterations, table: str, pages: int, filling: Filling) -> int:
    """Give values to rows without one, in batches of pages; return the number of rows."""
    filled = 0
    # Each batch commits: rows are locked briefly, and vacuum can reuse what earlier batches left.
    for first in range(0, pages + 1, _FILLED_PAGES):
        alterations.report(f"Filling {ROWGUID} of {table}, page {first:,} of {pages:,} ...")
        sql = (
            f"update {table} set {ROWGUID} = {NEW_ROWGUID} "
            f"where ctid operator(pg_catalog.>=) '({first},0)'::pg_catalog.tid "
            f"and ctid operator(pg_catalog.<) '({first + _FILLED_PAGES},0)'::pg_catalog.tid and {ROWGUID} is null"
        )
        filled += alterations.run_alone(statement(filling.statement(sql)), filling.around)
    return filled


def _add_check(connection: Connection, table: str) -> None:
    """Add a NOT NULL check that is not yet validated for existing rows."""
    connection.execute(statement(f"alter table {table} drop constraint if exists {_CHECK}"))
    connection.execute(
        statement(f"alter table {table} add constraint {_CHECK} check ({ROWGUID} is not null) not valid")
    )
