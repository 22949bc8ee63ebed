"""The source's SQL of a copy: find the bounds of chunks, copy a chunk, find the chunks of keys. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

from rowtide.copying.chunks import Chunk, Key
from rowtide.copying.tables import CopiedTable
from rowtide.databases.postgres.quoting import quote, quote_literal, quote_qualified


def locking(table: CopiedTable) -> str:
    """Return the statement that prevents a table from being truncated or altered while a chunk is read."""
    return locking_name(table.schema, table.table, is_partitioned=table.is_partitioned)


def locking_name(schema: str, table: str, *, is_partitioned: bool) -> str:
    """Return the same of a table that is known by name."""
    return f"lock table {_rows_of(schema, table, is_partitioned=is_partitioned)} in access share mode"


def sampling(table: CopiedTable, percent: float, chunks: int) -> str:
    """Return the statement that finds the bounds of a number of chunks in a sample of a table's pages, in key order."""
    keys = [quote(column.name) for column in table.key_columns]
    names = [f"k{place}" for place in range(len(keys))]
    texts = ", ".join(f"{key}::text as {name}" for key, name in zip(keys, names, strict=True))
    return f"""
select {", ".join(names)} from (
    select {texts}, row_number() over (order by {", ".join(keys)}) as place, count(*) over () as total
    from {_source_of(table)} tablesample system ({percent:.6f})
) as sampled
where place * {chunks} / total > (place - 1) * {chunks} / total and place < total
order by place
"""


class CopyForm(Enum):
    """The form in which COPY transfers rows; the value is its option."""

    TEXT = ""
    BINARY = " with (format binary)"
    CSV = " with (format csv)"
    """NULL is empty, an empty text is quoted."""


def copying(table: CopiedTable, chunk: Chunk, form: CopyForm = CopyForm.TEXT, *, but_for: Sequence[Key] = ()) -> str:
    """Return the COPY statement of a chunk of a table's rows, but for those of some keys."""
    columns = ", ".join(map(quote, table.columns))
    return f"copy (select {columns} from {_source_of(table)}{_where(table, chunk, but_for)}) to stdout{form.value}"


def copying_row(table: CopiedTable, key: Key, wanted: Collection[str], form: CopyForm = CopyForm.TEXT) -> str:
    """Return the COPY statement of the row of a key; of columns that are not wanted, it has nulls."""
    columns = ", ".join(quote(column) if column in wanted else "null" for column in table.columns)
    conditions = [f"({_key_of(table)}) = {_values(table, key)}", *_condition(table)]
    return f"copy (select {columns} from {_source_of(table)} where {' and '.join(conditions)}) to stdout{form.value}"


def halving(table: CopiedTable, chunk: Chunk) -> str:
    """Return the statement that counts a chunk's rows, and finds the key up to which there are half of them; no row if
    there is none.
    """
    keys = _key_of(table)
    names = [f"k{place}" for place in range(len(table.key_columns))]
    texts = ", ".join(
        f"{quote(column.name)}::text as {name}" for column, name in zip(table.key_columns, names, strict=True)
    )
    return f"""
select total, {", ".join(names)} from (
    select {texts}, row_number() over (order by {keys}) as place, count(*) over () as total
    from {_source_of(table)}{_where(table, chunk)}
) as ordered
where place = (total + 1) / 2
"""


def locating(table: CopiedTable) -> str:
    """Return the statement that counts, for each key, the bounds below it.

    Parameters are the bounds' values, one array per key column, then the keys'. The first branch of the union has no
    rows: it gives its columns' types and collations to the others.
    """
    keys = [column.name for column in table.key_columns]
    names = [f"k{place}" for place in range(len(keys))]
    own = ", ".join(f"{quote(key)} as {name}" for key, name in zip(keys, names, strict=True))
    cast = ", ".join(f"{name}::{column.type_text}" for name, column in zip(names, table.key_columns, strict=True))
    listed = ", ".join(names)
    bounds, values = (
        ", ".join(f"${first + place}::text[]" for place in range(len(keys))) for first in (1, 1 + len(keys))
    )
    return f"""
select below from (
    select place, count(*) filter (where place is null) over (
        order by {listed}, place is null rows unbounded preceding) as below
    from (
        select {own}, null::bigint as place from {_source_of(table)} where false
        union all select {cast}, null from unnest({bounds}) as bound ({listed})
        union all select {cast}, place from unnest({values}) with ordinality as key ({listed}, place)
    ) as ordered
) as counted where place is not null order by place
"""


def _where(table: CopiedTable, chunk: Chunk, but_for: Sequence[Key] = ()) -> str:
    conditions = [*_range(table, chunk), *_condition(table)]
    if but_for:
        listed = ", ".join(_values(table, key) for key in but_for)
        conditions.append(f"({_key_of(table)}) not in ({listed})")
    return f" where {' and '.join(conditions)}" if conditions else ""


def _condition(table: CopiedTable) -> Iterator[str]:
    if table.condition is not None:
        yield f"({table.condition})"


def _range(table: CopiedTable, chunk: Chunk) -> Iterator[str]:
    for comparator, bound in ((">", chunk.low), ("<=", chunk.high)):
        if bound is not None:
            yield f"({_key_of(table)}) {comparator} {_values(table, bound)}"


def _key_of(table: CopiedTable) -> str:
    return ", ".join(quote(column.name) for column in table.key_columns)


def _values(table: CopiedTable, key: Key) -> str:
    pairs = zip(key, table.key_columns, strict=True)
    return f"({', '.join(f'{_literal(value)}::{column.type_text}' for value, column in pairs)})"


def _literal(value: str) -> str:
    quoted = quote_literal(value)
    return "e" + quoted.replace("\\", "\\\\") if "\\" in value else quoted


def _source_of(table: CopiedTable) -> str:
    """Return a table with `only`; a partitioned one has its rows in its partitions."""
    return _rows_of(table.schema, table.table, is_partitioned=table.is_partitioned)


def _rows_of(schema: str, table: str, *, is_partitioned: bool) -> str:
    name = quote_qualified(schema, table)
    return name if is_partitioned else f"only {name}"
