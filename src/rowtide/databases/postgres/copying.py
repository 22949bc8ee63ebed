"""COPY to the client, many rows at a time: psycopg's own iterator runs several Python steps per row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

_BLOCK_BYTES = 1 << 18


def copy_out(connection: psycopg.Connection[Any], statement: str) -> Iterator[bytes]:
    """Yield the output of a statement `copy … to stdout`, as whole lines; see `copy_text`.

    The server produces more meanwhile, and the connection cannot be used before the end: to stop earlier, close the
    connection. Raises psycopg's errors.
    """
    libpq = connection.pgconn
    _require(libpq.exec_(statement.encode()), pq.ExecStatus.COPY_OUT)
    has_more = True
    while has_more:
        block, has_more = _read_block(libpq)
        if block:
            yield block
    final = libpq.get_result()
    if final is None:
        raise psycopg.OperationalError(libpq.get_error_message())
    while libpq.get_result() is not None:
        pass
    _require(final, pq.ExecStatus.COMMAND_OK)


def _read_block(libpq: pq.abc.PGconn) -> tuple[bytes, bool]:
    """Return the next rows, and whether more may follow: after the end, libpq must not be called again."""
    rows: list[bytes] = []
    size = 0
    while size < _BLOCK_BYTES:
        read, data = libpq.get_copy_data(0)
        if read <= 0:
            return b"".join(rows), False
        rows.append(bytes(data))
        size += read
    return b"".join(rows), True


def _require(result: pq.abc.PGresult, status: pq.ExecStatus) -> None:
    if result.status != status:
        raise error_from_result(result)
