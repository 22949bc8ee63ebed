"""Chunks of a table by key range, and the transactions that a chunk's snapshot sees."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from rowtide.core.values import frozen
from rowtide.databases.postgres.owner_functions import read_by
from rowtide.databases.postgres.quoting import ColumnOperators, quote, quote_escaped, quote_literal, quote_qualified
from rowtide.databases.postgres.values import is_of_server, text_of, value_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


# A copy contains the transactions that its snapshot sees. Pure. Neither LSN nor commit time decides that: a commit that
# waits for a synchronous standby is in the log, but invisible.


@frozen
class TransactionSnapshot:
    """All transactions below `xmin` have ended, none from `xmax` on has started.

    In between, those in `in_progress` run. (PostgreSQL: pg_snapshot; ids are the 64-bit ones of transactions,
    subtransactions have none of their own.)
    """

    xmin: int
    xmax: int
    in_progress: tuple[int, ...]

    def sees(self, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return, for committed transactions, whether their changes are in the copy."""
        import numpy as np

        has_begun: npt.NDArray[np.bool_] = xids < self.xmax
        return has_begun & ~np.isin(xids, self.in_progress)


def parse_snapshot(text: str) -> TransactionSnapshot:
    """Parse PostgreSQL's text of a snapshot: `xmin:xmax:xid,xid,…`."""
    xmin, xmax, in_progress = text.split(":")
    return TransactionSnapshot(int(xmin), int(xmax), tuple(int(xid) for xid in in_progress.split(",") if xid))


def format_snapshot(snapshot: TransactionSnapshot) -> str:
    """Return PostgreSQL's text of a snapshot."""
    return f"{snapshot.xmin}:{snapshot.xmax}:{','.join(map(str, snapshot.in_progress))}"


Key = tuple[str, ...]
"""The values of a key's columns, in key order, in the source's text form."""


@frozen
class Chunk:
    """The rows of a table with `low` < key <= `high`; None is no bound."""

    member_id: str
    number: int
    low: Key | None
    high: Key | None


@frozen
class CopiedChunk:
    """A chunk that was copied; `generation` changes when the table is truncated or rewritten."""

    chunk: Chunk
    snapshot: TransactionSnapshot
    generation: int


@frozen
class OpenChunk:
    """A chunk being read: its snapshot and generation, and its rows in the form of COPY that was asked for."""

    snapshot: TransactionSnapshot
    generation: int
    blocks: Iterator[bytes]


def cut(member_id: str, bounds: Sequence[Key]) -> tuple[Chunk, ...]:
    """Return the chunks between ascending bounds: one more than there are bounds."""
    lows: list[Key | None] = [None, *bounds]
    highs: list[Key | None] = [*bounds, None]
    pairs = enumerate(zip(lows, highs, strict=True))
    return tuple(Chunk(member_id, number, low, high) for number, (low, high) in pairs)


def uncut(chunks: Sequence[Chunk], member_ids: Collection[str]) -> tuple[Chunk, ...]:
    """Return chunks with all those of some members replaced by one, in their place."""
    return tuple(
        replace(chunk, low=None, high=None) if chunk.member_id in member_ids else chunk
        for chunk in chunks
        if chunk.number == 0 or chunk.member_id not in member_ids
    )


def is_torn(copied: Sequence[CopiedChunk]) -> bool:
    """Return whether a table was truncated or rewritten between its chunks, which then cannot be combined."""
    return len({chunk.generation for chunk in copied}) > 1


@frozen
class KeyColumn:
    """A column of a table's key, with its type as SQL writes it; of a domain, whose checks are others' code, the base.

    `operators` are those of the key's index, None for a type of the server's own.
    """

    name: str
    type_text: str
    operators: ColumnOperators | None = None

    @property
    def is_built_in(self) -> bool:
        """Whether the type is the server's own."""
        return is_of_server(self.type_text)


@frozen
class TableOwner:
    """The function that reads a table as its owner, and the types of the copied columns, which it has to be given."""

    reading: str
    types: tuple[str, ...]


@frozen
class CopiedTable:
    """A table to be copied: its member id in the log, the columns, the key in key order, and an SQL condition.

    Without a key it is one chunk; without a condition all rows are copied. `source_id` is its id in the source,
    `numbers` are those of the columns there. `owner`: it is read as this role, see `present_tables`.
    """

    member_id: str
    source_id: int
    schema: str
    table: str
    columns: tuple[str, ...]
    numbers: tuple[int, ...]
    key_columns: tuple[KeyColumn, ...]
    condition: str | None = None
    is_partitioned: bool = False
    owner: TableOwner | None = None

    @property
    def qualified_name(self) -> str:
        """The table's name with its schema."""
        return f"{self.schema}.{self.table}"


def locking(table: CopiedTable) -> str:
    """Return the statement that prevents a table from being truncated or altered while a chunk is read."""
    return locking_name(table.schema, table.table, is_partitioned=table.is_partitioned)


def locking_name(schema: str, table: str, *, is_partitioned: bool) -> str:
    """Return the same of a table that is known by name."""
    return f"lock table {_rows_of(schema, table, is_partitioned=is_partitioned)} in access share mode"


# Whole pages are sampled, because a sample of rows (`bernoulli`) would read the whole table. A bound is a row at which
# the integer quotient of its number and the rows per chunk changes: one fewer than there are chunks.
def sampling(table: CopiedTable, percent: float, chunks: int) -> str:
    """Return the statement that finds the bounds of a number of chunks in a sample of a table's pages, in key order."""
    keys = [quote(column.name) for column in table.key_columns]
    names = [f"k{index}" for index in range(len(keys))]
    query = f"""
select {", ".join(names)} from (
    select {_key_texts(table)}, row_number() over (order by {_order(table, keys)}) as place, count(*) over () as total
    from {_source_of(table)} tablesample system ({percent:.6f})
) as sampled
where place * {chunks} / total > (place - 1) * {chunks} / total and place < total
order by place
"""
    return _by_owner(table, query, [(name, "text") for name in names])


class KeyComparison(Enum):
    """A comparison of keys; the value is the server's operator."""

    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    EQUAL = "="
    LESS_OR_EQUAL = "<="
    LESS = "<"

    def operator_of(self, column: KeyColumn) -> str:
        """Return the operator that compares a column so."""
        return self.value if column.operators is None else getattr(column.operators, self.name.lower())

    @property
    def strict(self) -> KeyComparison:
        """The same comparison without equality."""
        return (
            KeyComparison.GREATER
            if self in (KeyComparison.GREATER, KeyComparison.GREATER_OR_EQUAL)
            else KeyComparison.LESS
        )

    @property
    def loose(self) -> KeyComparison:
        """The same comparison with equality."""
        is_up = self.strict is KeyComparison.GREATER
        return KeyComparison.GREATER_OR_EQUAL if is_up else KeyComparison.LESS_OR_EQUAL


class CopyForm(Enum):
    """The form in which COPY transfers rows; the value is its option."""

    TEXT = ""
    BINARY = " with (format binary)"
    CSV = " with (format csv)"
    """NULL is empty, an empty text is quoted."""


def copying(table: CopiedTable, chunk: Chunk, form: CopyForm = CopyForm.TEXT, *, but_for: Sequence[Key] = ()) -> str:
    """Return the COPY statement of a chunk of a table's rows, but for those of some keys."""
    columns = ", ".join(map(quote, table.columns))
    query = f"select {columns} from {_source_of(table)}{_where(table, chunk, but_for)}"
    return f"copy ({_rows_by_owner(table, query)}) to stdout{form.value}"


def copying_row(table: CopiedTable, key: Key, wanted: Collection[str], form: CopyForm = CopyForm.TEXT) -> str:
    """Return the COPY statement of the row of a key; of columns that are not wanted, it has nulls."""
    types = [""] * len(table.columns) if table.owner is None else [f"::{one}" for one in table.owner.types]
    columns = ", ".join(
        quote(column) if column in wanted else f"null{type_text}"
        for column, type_text in zip(table.columns, types, strict=True)
    )
    conditions = [_key_condition(table, key), *_condition(table)]
    query = f"select {columns} from {_source_of(table)} where {' and '.join(conditions)}"
    return f"copy ({_rows_by_owner(table, query)}) to stdout{form.value}"


def halving(table: CopiedTable, chunk: Chunk) -> str:
    """Return the statement that counts a chunk's rows, and finds the key up to which there are half of them; no row if
    there is none.
    """
    keys = _order(table, [quote(column.name) for column in table.key_columns])
    names = [f"k{index}" for index in range(len(table.key_columns))]
    query = f"""
select total, {", ".join(names)} from (
    select {_key_texts(table)}, row_number() over (order by {keys}) as place, count(*) over () as total
    from {_source_of(table)}{_where(table, chunk)}
) as ordered
where place = (total + 1) / 2
"""
    return _by_owner(table, query, [("total", "bigint"), *((name, "text") for name in names)])


def locating(table: CopiedTable) -> str:
    """Return the statement that counts, for each key, the bounds below it.

    Parameters are the bounds' values, one array per key column, then the keys'. The first branch of the union has no
    rows: it gives its columns' types and collations to the others.
    """
    keys = [column.name for column in table.key_columns]
    names = [f"k{index}" for index in range(len(keys))]
    own = ", ".join(f"{quote(key)} as {name}" for key, name in zip(keys, names, strict=True))
    cast = ", ".join(value_of(name, column.type_text) for name, column in zip(names, table.key_columns, strict=True))
    listed = ", ".join(names)
    given = [f"${index}" if table.owner is None else f"($1)[{index}]" for index in range(1, 1 + 2 * len(keys))]
    bounds, values = (", ".join(f"{one}::text[]" for one in some) for some in (given[: len(keys)], given[len(keys) :]))
    query = f"""
select below from (
    select place, count(*) filter (where place is null) over (
        order by {_order(table, names)}, place is null rows unbounded preceding) as below
    from (
        select {own}, null::bigint as place from {_source_of(table)} where false
        union all select {cast}, null from unnest({bounds}) as bound ({listed})
        union all select {cast}, place from unnest({values}) with ordinality as key ({listed}, place)
    ) as ordered
) as counted where place is not null order by place
"""
    passed = ", ".join(f"${index}::text[]::text" for index in range(1, 1 + 2 * len(keys)))
    return _by_owner(table, query, [("below", "bigint")], f"array[{passed}]")


def _rows_by_owner(table: CopiedTable, query: str) -> str:
    columns = () if table.owner is None else tuple(zip(table.columns, table.owner.types, strict=True))
    return _by_owner(table, query, columns)


def _by_owner(table: CopiedTable, query: str, columns: Sequence[tuple[str, str]], values: str = "") -> str:
    return read_by(None if table.owner is None else table.owner.reading, query, columns, values)


def _where(table: CopiedTable, chunk: Chunk, but_for: Sequence[Key] = ()) -> str:
    conditions = [*_range(table, chunk), *_condition(table), *(f"not {_key_condition(table, key)}" for key in but_for)]
    return f" where {' and '.join(conditions)}" if conditions else ""


def _condition(table: CopiedTable) -> Iterator[str]:
    if table.condition is not None:
        yield f"({table.condition})"


def _range(table: CopiedTable, chunk: Chunk) -> Iterator[str]:
    for compared, bound in ((KeyComparison.GREATER, chunk.low), (KeyComparison.LESS_OR_EQUAL, chunk.high)):
        if bound is not None:
            yield _compared(table, compared, bound)


def _compared(table: CopiedTable, comparison: KeyComparison, key: Key) -> str:
    """Return the condition that a row's key is above, or up to, another, in the order of the key's index.

    If all columns have the same operator, keys are compared as rows; the index is used in either form.
    """
    columns, values = table.key_columns, _values(table, key)
    operators = {comparison.operator_of(column) for column in columns}
    if len(operators) == 1:
        names = ", ".join(quote(column.name) for column in columns)
        return f"({names}) {operators.pop()} ({', '.join(values)})"
    *before, last = zip(columns, values, strict=True)
    condition = f"{quote(last[0].name)} {comparison.operator_of(last[0])} {last[1]}"
    for column, value in reversed(before):
        name, strict = quote(column.name), comparison.strict
        condition = (
            f"({name} {comparison.loose.operator_of(column)} {value} "
            f"and ({name} {strict.operator_of(column)} {value} or {condition}))"
        )
    return condition


def _key_condition(table: CopiedTable, key: Key) -> str:
    pairs = zip(table.key_columns, _values(table, key), strict=True)
    return f"({' and '.join(f'{quote(c.name)} {KeyComparison.EQUAL.operator_of(c)} {value}' for c, value in pairs)})"


def _order(table: CopiedTable, expressions: Sequence[str]) -> str:
    """Return an order by expressions for the key's columns that is the order of the key's index."""
    pairs = zip(table.key_columns, expressions, strict=True)
    return ", ".join(
        one if column.operators is None else f"{one} using {column.operators.less}" for column, one in pairs
    )


def _key_texts(table: CopiedTable) -> str:
    """Return the texts of a row's key, named k0, k1 and so on."""
    return ", ".join(
        f"{text_of(quote(column.name), column.type_text)} as k{index}" for index, column in enumerate(table.key_columns)
    )


def _values(table: CopiedTable, key: Key) -> Sequence[str]:
    pairs = zip(key, table.key_columns, strict=True)
    return [f"{_literal(value)}::{column.type_text}" for value, column in pairs]


def _literal(value: str) -> str:
    # In an E'' literal backslashes do not depend on `standard_conforming_strings`.
    return quote_escaped(value) if "\\" in value else quote_literal(value)


def _source_of(table: CopiedTable) -> str:
    """Return a table with `only`; a partitioned one has its rows in its partitions."""
    return _rows_of(table.schema, table.table, is_partitioned=table.is_partitioned)


def _rows_of(schema: str, table: str, *, is_partitioned: bool) -> str:
    name = quote_qualified(schema, table)
    return name if is_partitioned else f"only {name}"
