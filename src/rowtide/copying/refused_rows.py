"""Rows that cannot be copied whole: the server refuses to send them, or their texts are larger than a reader takes.

Which they are is found by bisection of a chunk's keys. Such a row is copied without some of its values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql

from rowtide.copying.chunk_statements import CopyForm, copying, copying_row, halving
from rowtide.copying.chunks import Chunk, CopiedTable, Key
from rowtide.core.values import frozen
from rowtide.databases.postgres.copying import copy_out

_UNSENDABLE = ("22P05", "22021", "54", "XX")
"""SQLSTATEs, or their classes, of errors that recur with the same row: a character that UTF-8 lacks, a text beyond the
server's limits, damaged data.
"""


@frozen
class PartialRow:
    """A row by its key, and the columns without which it can be copied."""

    key: Key
    lacking: frozenset[str]


class RowNotCopied(Exception):
    """A chunk has a row that cannot be copied whole; the text says why."""


def refusal(error: psycopg.Error) -> RowNotCopied | None:
    """Return what an error of COPY says of a row; None if the error is not one of a row's values."""
    if error.sqlstate is None or not error.sqlstate.startswith(_UNSENDABLE):
        return None
    return RowNotCopied(f"the server says: {error.diag.message_primary}")


def limiting(blocks: Iterable[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the blocks of a COPY, whose last rows alone may be large. Raises `RowNotCopied` after the last one."""
    largest = 0
    for block in blocks:
        if len(block) <= most_bytes:
            yield block
        largest = max(largest, len(block))
    if largest > most_bytes:
        raise RowNotCopied(f"a row takes about {largest:,} bytes, of at most {most_bytes:,} that memory is enough for")


def find_partial_rows(
    connection: psycopg.Connection[Any], table: CopiedTable, chunk: Chunk, most_bytes: int
) -> Sequence[PartialRow]:
    """Return the rows of a chunk of a table with a key that cannot be copied whole, in a transaction.

    Raises `RowNotCopied` where it is not the row's values, or its key, and psycopg's errors.
    """
    return list(_RefusedRowSearch(connection, table, most_bytes).find(chunk))


@frozen
class _RefusedRowSearch:
    connection: psycopg.Connection[Any]
    table: CopiedTable
    most_bytes: int

    def find(self, chunk: Chunk) -> Iterator[PartialRow]:
        tried = self._try(copying(self.table, chunk, CopyForm.CSV))
        if isinstance(tried, int):
            return
        found = self.connection.execute(sql.SQL(halving(self.table, chunk))).fetchone()
        if found is None:
            raise tried
        rows, *middle = found
        key = tuple(middle)
        if rows == 1:
            yield self._examine(key, tried)
        else:
            yield from self.find(replace(chunk, high=key))
            yield from self.find(replace(chunk, low=key))

    def _examine(self, key: Key, refused: RowNotCopied) -> PartialRow:
        """Leave out what is refused by itself, then the largest values until the others fit together."""
        sizes: dict[str, int] = {}
        lacking: set[str] = set()
        for column in {*self.table.columns} - {column.name for column in self.table.key_columns}:
            tried = self._try(self._copying_row(key, {column}))
            if isinstance(tried, int):
                sizes[column] = tried
            else:
                lacking.add(column)
        while not isinstance(self._try(self._copying_row(key, {*self.table.columns} - lacking)), int):
            if not sizes:
                raise refused
            largest = max(sizes, key=lambda name: sizes[name])
            lacking.add(largest)
            del sizes[largest]
        return PartialRow(key, frozenset(lacking))

    def _copying_row(self, key: Key, wanted: Collection[str]) -> str:
        return copying_row(self.table, key, wanted, CopyForm.CSV)

    def _try(self, statement: str) -> int | RowNotCopied:
        """Return the bytes of a COPY, or why a row of it is refused."""
        self.connection.execute("savepoint tried")
        try:
            return sum(map(len, limiting(copy_out(self.connection, statement), self.most_bytes)))
        except RowNotCopied as refused:
            return refused
        except psycopg.Error as error:
            if (refused_by_server := refusal(error)) is None:
                raise
            return refused_by_server
        finally:
            self.connection.execute("rollback to savepoint tried")
