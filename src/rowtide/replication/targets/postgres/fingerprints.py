"""Statements that read a table's rows to compare them; see the canonical text of `targets.fingerprints`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rowtide.databases.postgres.quoting import quote
from rowtide.replication.targets.fingerprints import NULL, SEPARATOR, TextForm
from rowtide.replication.targets.postgres.read_tables import ReadColumn, ReadTable


def fingerprints(table: ReadTable, buckets: int, *, with_checksum: bool) -> str:
    """Return the statement that counts rows and sums their hashes by bucket."""
    bucket = f"{_hash(table.key)} & {buckets - 1}" if buckets > 1 else "0"
    checksum = f"sum({_hash(table.columns)})::text" if with_checksum else "null"
    return f"select {bucket}, count(*), {checksum} from {table.source}{_where(table)} group by 1"


def hashed_rows(table: ReadTable, buckets: int, chosen: Collection[int]) -> str:
    """Return the statement that lists the rows of some buckets: hashes of key and row, and the key's texts.

    Their order is that of numbers, the same in every database.
    """
    key_hash = _hash(table.key)
    keys = "".join(f", {_text(column)}" for column in table.key)
    is_chosen = f"{key_hash} & {buckets - 1} in ({', '.join(map(str, sorted(chosen)))})"
    return f"select {key_hash}, {_hash(table.columns)}{keys} from {table.source}{_where(table, is_chosen)} order by 1"


def rows_by_key(table: ReadTable, *, is_locked: bool) -> str:
    """Return the statement that reads the texts of the rows with some keys; it takes an array per column of the key.

    `is_locked`: nobody else writes them until the transaction ends.
    """
    values = ", ".join(map(_text, table.columns))
    arrays = ", ".join(f"${place}::text[]" for place in range(1, len(table.key) + 1))
    names = ", ".join(f"k{place}" for place in range(len(table.key)))
    given = ", ".join(f"k{place}::{column.type_text}" for place, column in enumerate(table.key))
    key = ", ".join(quote(column.name) for column in table.key)
    wanted = f"({key}) in (select {given} from unnest({arrays}) as wanted({names}))"
    return f"select {values} from {table.source}{_where(table, wanted)}{' for update' if is_locked else ''}"


def _where(table: ReadTable, *others: str) -> str:
    conditions = [*([f"({table.condition})"] if table.condition is not None else []), *others]
    return f" where {' and '.join(conditions)}" if conditions else ""


def _hash(columns: Sequence[ReadColumn]) -> str:
    text = f"concat({', '.join(map(_canonical, columns))})"
    return f"('x' || encode(substring(sha256(convert_to({text}, 'UTF8')) from 1 for 8), 'hex'))::bit(64)::bigint"


def _canonical(column: ReadColumn) -> str:
    match column.form:
        case TextForm.PLAIN:
            return f"coalesce({column.value}::text, '{NULL}') || '{SEPARATOR}'"
        case TextForm.BITS:
            # As SQLite keeps it: the number that the text of a real names; and minus zero is zero.
            text = f"encode(float8send({column.value}::text::double precision + 0.0), 'hex')"
        case _:
            text = _printed(column)
    # A composite value whose parts are null is no null.
    is_null = f"num_nulls({column.value})"
    return f"case {is_null} when 0 then octet_length(convert_to({text}, 'UTF8')) || ':' || {text} else '{NULL}' end"


def _text(column: ReadColumn) -> str:
    return f"case num_nulls({column.value}) when 0 then {_printed(column)} end"


def _printed(column: ReadColumn) -> str:
    """Return a value's text as the log has it: a cast would write true for t, and drop the blanks behind a char(n)."""
    return f"format('%s', {column.value})"
